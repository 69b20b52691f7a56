//! Tokens: who may call from where the kernel does not say who it is.
//!
//! A token is `avfs_`, twelve digits that name it, and sixty-four that prove it. Only a hash of the latter is kept. They are
//! random, so the hash needs neither salt nor stretching.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use subtle::ConstantTimeEq;

use super::scope::Scopes;
use crate::clock::UnixMillis;
use crate::random;
use crate::state;

const PREFIX: &str = "avfs_";
/// For clients that insist on a prefix of their own.
const OTHER_PREFIX: &str = "e2b_";
const ID_DIGITS: usize = 12;
const SECRET_DIGITS: usize = 64;
/// How exactly the last use is known: a busy client would otherwise write to the disk with each request.
const USE_NOTED_MS: i64 = 60_000;

const SCHEMA: &str = "
    create table if not exists token (
        id text primary key, hash blob not null, tenant text not null, scopes text not null, note text not null,
        created integer not null, expires integer, last_used integer, revoked integer
    ) strict, without rowid;";

/// Why tokens cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The database of the server.
    #[error("the server's database")]
    Database(#[from] rusqlite::Error),
    /// The machine.
    #[error("the server's directory")]
    Host(#[from] std::io::Error),
    /// There is none with this name.
    #[error("there is no token '{0}'")]
    Unknown(String),
    /// A tenant cannot be called that.
    #[error("a tenant has 1 to 40 lower-case letters, digits and '-', and begins with a letter: '{0}'")]
    BadTenant(String),
}

/// A token to make.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Whose sandboxes and vaults it opens.
    pub tenant: String,
    /// What it allows.
    pub scopes: Scopes,
    /// Seconds until it does not hold any more.
    pub expires: Option<u64>,
    /// What it is for, in the words of whoever made it.
    pub note: String,
}

/// What is known of a token. Nobody can make the token itself from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenInfo {
    /// Its name.
    pub id: String,
    /// Whose sandboxes and vaults it opens.
    pub tenant: String,
    /// What it allows.
    pub scopes: Scopes,
    /// What it is for.
    pub note: String,
    /// Milliseconds since 1970.
    pub created: i64,
    /// Milliseconds since 1970; never, if there is none.
    pub expires: Option<i64>,
    /// The last minute in which it was used, in milliseconds since 1970.
    pub last_used: Option<i64>,
    /// When it was revoked, in milliseconds since 1970.
    pub revoked: Option<i64>,
}

impl TokenInfo {
    /// Whether it opens anything at this moment.
    fn holds(&self, now: UnixMillis) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now.0 < expires)
    }
}

/// The tokens of a server. Several processes may use them at the same time.
pub struct Tokens {
    database: Mutex<Connection>,
}

impl Tokens {
    /// Opens the tokens of the server of a store.
    pub fn open(home: &Path) -> Result<Tokens, TokenError> {
        let directory = state::directory(home)?;
        let database = state::open_database(&directory.join("tokens.db"), SCHEMA)?;
        Ok(Tokens {
            database: Mutex::new(database),
        })
    }

    /// Makes a token. Its text is told this once.
    pub fn create(&self, new: &NewToken) -> Result<(String, TokenInfo), TokenError> {
        check_tenant(&new.tenant)?;
        let id = random::hex(&random::bytes::<{ ID_DIGITS / 2 }>()?);
        let secret = random::hex(&random::bytes::<{ SECRET_DIGITS / 2 }>()?);
        let now = UnixMillis::now();
        let info = TokenInfo {
            id: id.clone(),
            tenant: new.tenant.clone(),
            scopes: new.scopes,
            note: new.note.clone(),
            created: now.0,
            expires: new.expires.map(|seconds| now.after_seconds(seconds).0),
            last_used: None,
            revoked: None,
        };
        self.database().execute(
            "insert into token (id, hash, tenant, scopes, note, created, expires) values (?, ?, ?, ?, ?, ?, ?)",
            params![id, hash(&secret), info.tenant, info.scopes.to_string(), info.note, info.created, info.expires],
        )?;
        Ok((format!("{PREFIX}{id}{secret}"), info))
    }

    /// All tokens, the newest first.
    pub fn list(&self) -> Result<Vec<TokenInfo>, TokenError> {
        let database = self.database();
        let mut query = database.prepare(&format!("{COLUMNS} order by created desc, id"))?;
        let found = query.query_map([], info_of)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Ends a token. A server that runs obeys at once.
    pub fn revoke(&self, id: &str) -> Result<TokenInfo, TokenError> {
        let revoked = self.database().execute(
            "update token set revoked = coalesce(revoked, ?) where id = ?",
            params![UnixMillis::now().0, id],
        )?;
        let unknown = || TokenError::Unknown(avfs_core::printable(id.as_bytes()));
        if revoked == 0 {
            return Err(unknown());
        }
        self.find(id)?.map(|(info, _)| info).ok_or_else(unknown)
    }

    /// The token with this text, if it holds. How long the answer takes says nothing about the secret part.
    pub fn check(&self, text: &str) -> Result<Option<TokenInfo>, TokenError> {
        let Some((id, secret)) = parts(text) else {
            return Ok(None);
        };
        let found = self.find(id)?;
        let given = hash(secret);
        let known = found.as_ref().map_or([0; 32], |(_, hash)| *hash);
        let is_right = bool::from(given.ct_eq(&known));
        let now = UnixMillis::now();
        let Some((info, _)) = found.filter(|(info, _)| is_right && info.holds(now)) else {
            return Ok(None);
        };
        if info.last_used.is_none_or(|last| now.0 - last >= USE_NOTED_MS) {
            let noted = self
                .database()
                .execute("update token set last_used = ? where id = ?", params![now.0, id]);
            // On a full disk, whoever wants to delete something has to be let in.
            let _ = noted;
        }
        Ok(Some(info))
    }

    fn find(&self, id: &str) -> Result<Option<(TokenInfo, [u8; 32])>, TokenError> {
        let database = self.database();
        let mut query = database.prepare_cached(&format!("{COLUMNS} where id = ?"))?;
        let found = query.query_row([id], |row| Ok((info_of(row)?, row.get::<_, [u8; 32]>(8)?)));
        Ok(found.optional()?)
    }

    fn database(&self) -> MutexGuard<'_, Connection> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const COLUMNS: &str =
    "select id, tenant, scopes, note, created, expires, last_used, revoked, hash from token";

fn info_of(row: &Row<'_>) -> rusqlite::Result<TokenInfo> {
    let scopes: String = row.get(2)?;
    Ok(TokenInfo {
        id: row.get(0)?,
        tenant: row.get(1)?,
        // A scope of a later version is one that this one cannot grant.
        scopes: Scopes::parse(&scopes).unwrap_or_default(),
        note: row.get(3)?,
        created: row.get(4)?,
        expires: row.get(5)?,
        last_used: row.get(6)?,
        revoked: row.get(7)?,
    })
}

fn parts(text: &str) -> Option<(&str, &str)> {
    let digits = text
        .strip_prefix(PREFIX)
        .or_else(|| text.strip_prefix(OTHER_PREFIX))?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && digits.len() == ID_DIGITS + SECRET_DIGITS).then(|| digits.split_at(ID_DIGITS))
}

fn hash(secret: &str) -> [u8; 32] {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

/// The name of a tenant is the name of a directory.
pub(crate) fn check_tenant(name: &str) -> Result<(), TokenError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if begins && name.len() <= 40 && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(TokenError::BadTenant(avfs_core::printable(name.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Scope;

    fn new(expires: Option<u64>) -> NewToken {
        NewToken {
            tenant: "acme".to_owned(),
            scopes: [Scope::Run].into_iter().collect(),
            expires,
            note: "ci".to_owned(),
        }
    }

    #[test]
    fn a_token_holds_until_it_is_revoked_and_its_use_is_noted() {
        let home = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(home.path()).unwrap();
        let (text, info) = tokens.create(&new(None)).unwrap();
        assert_eq!(tokens.list().unwrap(), std::slice::from_ref(&info));
        assert_eq!(tokens.check(&text).unwrap().unwrap().tenant, "acme");
        assert!(tokens.list().unwrap()[0].last_used.is_some());
        let elsewhere = Tokens::open(home.path()).unwrap();
        assert!(elsewhere.revoke(&info.id).unwrap().revoked.is_some());
        assert!(tokens.check(&text).unwrap().is_none());
        assert!(matches!(tokens.revoke("none"), Err(TokenError::Unknown(_))));
    }

    #[test]
    fn other_texts_and_tokens_after_their_time_open_nothing() {
        let home = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(home.path()).unwrap();
        let (text, _) = tokens.create(&new(None)).unwrap();
        let mut other = text.clone();
        let last = if other.pop() == Some('0') { '1' } else { '0' };
        other.push(last);
        for wrong in [
            "",
            "avfs_",
            &other,
            &text[1..],
            &format!("{text}0"),
            &text.replace("avfs_", ""),
        ] {
            assert!(tokens.check(wrong).unwrap().is_none(), "{wrong}");
        }
        assert!(tokens.check(&text.replace("avfs_", "e2b_")).unwrap().is_some());
        let (late, _) = tokens.create(&new(Some(0))).unwrap();
        assert!(tokens.check(&late).unwrap().is_none());
    }

    #[test]
    fn the_secret_part_is_not_in_the_database() {
        let home = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(home.path()).unwrap();
        let (text, info) = tokens.create(&new(None)).unwrap();
        drop(tokens);
        let (id, secret) = parts(&text).unwrap();
        assert_eq!(id, info.id);
        for file in std::fs::read_dir(home.path().join("server")).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            assert!(!bytes.windows(16).any(|window| window == &secret.as_bytes()[..16]));
        }
    }

    #[test]
    fn the_name_of_a_tenant_names_no_other_directory() {
        for name in ["acme", "a", "team-7"] {
            check_tenant(name).unwrap();
        }
        for name in ["", "..", "a/b", "-a", "A", "7up", "a.b", "é", &"a".repeat(41)] {
            assert!(check_tenant(name).is_err(), "{name}");
        }
    }
}
