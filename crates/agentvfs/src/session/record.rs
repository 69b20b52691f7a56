//! Which sessions a store has.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use avfs_core::Timestamp;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::client::SessionClient;
use crate::error::{Error, Result, SessionError};
use crate::exec::PublishedBody;
use crate::record::time;
use crate::run_directory::{LOCK, RECORD, SESSIONS, clear_away};
use crate::session::held::VaultSessions;
use crate::store::Store;

/// The properties of a session during its lifetime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its id.
    pub id: String,
    /// The name of the vault.
    pub vault: String,
    /// When it was started.
    #[serde(with = "time")]
    pub since: Timestamp,
    /// After so long without a command, it ends.
    pub idle_limit_ms: u64,
    /// The name under which it is logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The process that hosts it.
    pub pid: u32,
    /// Ports inside that this machine can reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedBody>,
}

/// The current activity of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionState {
    /// What does not change while it lives.
    #[serde(flatten)]
    pub record: SessionRecord,
    /// What it does now.
    pub activity: Activity,
    /// How long it has been idle.
    pub idle_ms: u64,
    /// How many commands it has received.
    pub commands: u64,
}

/// What a session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// It waits for a command.
    Idle,
    /// It runs one.
    Running,
    /// It does not answer.
    Silent,
}

impl Activity {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Activity::Idle => "idle",
            Activity::Running => "running",
            Activity::Silent => "silent",
        }
    }
}

/// The sessions in all vaults.
#[derive(Clone, Copy)]
pub struct StoreSessions<'a> {
    pub(crate) store: &'a Store,
}

impl StoreSessions<'_> {
    /// The sessions that there are, oldest first.
    pub fn list(&self) -> Result<Vec<SessionState>> {
        let clients = self.session_clients()?.into_iter();
        let mut sessions: Vec<SessionState> = clients.filter_map(|client| client.state().ok()).collect();
        sessions.sort_by(|one, other| {
            (one.record.since, &one.record.id).cmp(&(other.record.since, &other.record.id))
        });
        Ok(sessions)
    }

    fn session_clients(&self) -> Result<Vec<SessionClient>> {
        let Some(home) = self.store.work().existing() else {
            return Ok(Vec::new());
        };
        clear_away(home);
        let place = home.join(SESSIONS);
        let listing = match std::fs::read_dir(&place) {
            Ok(listing) => listing,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(host("listing", &place, source)),
        };
        let ids = listing
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        Ok(ids.filter_map(|id| self.get(&id).ok()).collect())
    }

    /// A session by its id.
    pub fn get(&self, id: &str) -> Result<SessionClient> {
        let unknown = || Error::Session(SessionError::Unknown { id: id.to_owned() });
        let is_name = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let home = self
            .store
            .work()
            .existing()
            .filter(|_| is_name)
            .ok_or_else(unknown)?;
        let place = home.join(SESSIONS).join(id);
        if lives(&place) {
            Ok(SessionClient::new(
                read(&place).map_err(|_| unknown())?,
                place,
                self.store.patience(),
            ))
        } else {
            clear_away(home);
            Err(unknown())
        }
    }
}

impl VaultSessions<'_> {
    /// The sessions in it, oldest first. None is contacted.
    pub fn list(&self) -> Result<Vec<SessionRecord>> {
        let name = self.vault.name()?;
        let clients = self.vault.store().sessions().session_clients()?;
        let mut records: Vec<SessionRecord> = clients.iter().map(|client| client.record().clone()).collect();
        records.retain(|record| record.vault == name.as_str());
        records.sort_by(|one, other| (one.since, &one.id).cmp(&(other.since, &other.id)));
        Ok(records)
    }
}

/// Whether a process holds the session.
pub(super) fn lives(place: &Path) -> bool {
    let Ok(lock) = File::open(place.join(LOCK)) else {
        return false;
    };
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
}

pub(super) fn write(place: &Path, record: &SessionRecord) -> Result<()> {
    let (file, draft) = (place.join(RECORD), place.join("session.new"));
    std::fs::write(&draft, crate::record::encode(record))
        .and_then(|()| std::fs::rename(&draft, &file))
        .map_err(|source| host("writing", &file, source))
}

fn read(place: &Path) -> io::Result<SessionRecord> {
    Ok(serde_json::from_slice(&std::fs::read(place.join(RECORD))?)?)
}

pub(super) fn host(action: &'static str, place: &Path, source: io::Error) -> Error {
    Error::Host {
        action,
        place: place.display().to_string(),
        source,
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Short enough to be typed, long enough that two are never the same.
pub(super) fn new_id(home: &Path) -> String {
    let taken = |id: &str| -> PathBuf { home.join(SESSIONS).join(id) };
    loop {
        let hash = blake3::hash(crate::exec::run_id().as_bytes()).to_hex();
        let id = format!("s{}", &hash[..8]);
        if !taken(&id).exists() {
            return id;
        }
    }
}
