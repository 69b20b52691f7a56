//! Sandboxes, as they are written down.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::State;

pub(super) const SCHEMA: &str = "
    create table if not exists sandbox (
        id text primary key, vault integer, parent text, state text not null, created integer not null,
        expires integer, spec text not null
    ) strict, without rowid;
    create index if not exists sandbox_created on sandbox (created, id);
    create table if not exists sandbox_note (id text primary key, note text not null) strict, without rowid;
    create table if not exists sandbox_key (id text primary key, key text not null) strict, without rowid;
    create index if not exists sandbox_key_key on sandbox_key (key);";

/// How far a sandbox came. A server that starts finishes what another one has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SandboxState {
    /// Its vault may exist, and nobody was told of it.
    Making,
    Ready,
    /// Somebody was told that it is gone.
    Deleting,
}

impl SandboxState {
    fn as_str(self) -> &'static str {
        match self {
            SandboxState::Making => "making",
            SandboxState::Ready => "ready",
            SandboxState::Deleting => "deleting",
        }
    }
}

impl ToSql for SandboxState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.as_str().to_sql()
    }
}

impl FromSql for SandboxState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<SandboxState> {
        let text = value.as_str()?;
        let all = [SandboxState::Making, SandboxState::Ready, SandboxState::Deleting];
        all.into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(FromSqlError::InvalidType)
    }
}

/// One sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SandboxRecord {
    pub id: String,
    /// The number of its vault, once that exists.
    pub vault: Option<u64>,
    /// The sandbox or vault that it is a fork of.
    pub parent: Option<String>,
    pub state: SandboxState,
    /// Milliseconds since 1970, as every time here.
    pub created: i64,
    pub expires: Option<i64>,
    /// What it was asked for, as JSON.
    pub spec: String,
}

const COLUMNS: &str = "select id, vault, parent, state, created, expires, spec from sandbox";

fn record_of(row: &Row<'_>) -> rusqlite::Result<SandboxRecord> {
    Ok(SandboxRecord {
        id: row.get(0)?,
        vault: row.get::<_, Option<i64>>(1)?.map(i64::cast_unsigned),
        parent: row.get(2)?,
        state: row.get(3)?,
        created: row.get(4)?,
        expires: row.get(5)?,
        spec: row.get(6)?,
    })
}

impl State {
    /// Writes down that sandboxes exist, all or none. The disk is waited for once for all who come meanwhile: that takes much
    /// longer than everything else.
    pub fn put_sandboxes(&self, records: &[SandboxRecord]) -> rusqlite::Result<()> {
        let answer = Answer::default();
        let own = Waiting {
            records: records.to_vec(),
            answer: Arc::clone(&answer),
        };
        self.waiting().push(own);
        let mut database = self.database();
        if let Some(done) = take(&answer) {
            return done;
        }
        let together = std::mem::take(&mut *self.waiting());
        let all = || together.iter().flat_map(|waiting| &waiting.records);
        let is_put = put(&mut database, all()).is_ok();
        for waiting in &together {
            // What failed together fails for a reason that one of them has, or all.
            let done = if is_put {
                Ok(())
            } else {
                put(&mut database, &waiting.records)
            };
            *waiting.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        }
        // It was among them.
        take(&answer).unwrap_or(Ok(()))
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what is about to be done with sandboxes. After a power cut, the vaults tell how far that came.
    pub fn note_sandboxes(&self, records: &[SandboxRecord]) -> rusqlite::Result<()> {
        self.lightly(|database| put(database, records))
    }

    /// Changes when a sandbox expires. Returns whether there is such a sandbox, and nobody is deleting it.
    pub fn set_expiry(&self, id: &str, expires: Option<i64>) -> rusqlite::Result<bool> {
        let changed = self.database().execute(
            "update sandbox set expires = ? where id = ? and state = ?",
            params![expires, id, SandboxState::Ready],
        );
        changed.map(|count| count == 1)
    }

    /// Changes what a sandbox was asked to be. Returns whether it is there.
    pub fn set_spec(&self, id: &str, spec: &str) -> rusqlite::Result<bool> {
        let changed = self.database().execute(
            "update sandbox set spec = ? where id = ? and state = ?",
            params![spec, id, SandboxState::Ready],
        );
        changed.map(|count| count == 1)
    }

    pub fn sandbox(&self, id: &str) -> rusqlite::Result<Option<SandboxRecord>> {
        let database = self.database();
        let mut query = database.prepare_cached(&format!("{COLUMNS} where id = ?"))?;
        query.query_row([id], record_of).optional()
    }

    /// All sandboxes, in the order in which they were made.
    pub fn sandboxes(&self) -> rusqlite::Result<Vec<SandboxRecord>> {
        let database = self.database();
        let mut query = database.prepare_cached(&format!("{COLUMNS} order by created, id"))?;
        query.query_map([], record_of)?.collect()
    }

    /// Forgets a sandbox whose vault is gone, with its note and its shells. One that comes back by a power cut has none, and
    /// is forgotten then.
    pub fn remove_sandbox(&self, id: &str) -> rusqlite::Result<()> {
        self.lightly(|database| {
            let change = database.transaction()?;
            change.execute("delete from sandbox_note where id = ?", [id])?;
            change.execute("delete from sandbox_key where id = ?", [id])?;
            change.execute("delete from shell where sandbox = ?", [id])?;
            change.execute("delete from sandbox where id = ?", [id])?;
            change.commit()
        })
    }

    /// Notes the words of the request that gets a sandbox which was made before it.
    pub fn note_key(&self, id: &str, key: &str) -> rusqlite::Result<()> {
        self.lightly(|database| {
            let noted = database.execute(
                "insert or replace into sandbox_key (id, key) values (?, ?)",
                params![id, key],
            );
            noted.map(drop)
        })
    }

    /// The sandbox that a request with these words got.
    pub fn sandbox_of_key(&self, key: &str) -> rusqlite::Result<Option<String>> {
        let database = self.database();
        let mut query = database.prepare_cached("select id from sandbox_key where key = ?")?;
        query.query_row([key], |row| row.get(0)).optional()
    }

    /// Keeps what an interface knows of a sandbox that no other one does.
    pub fn put_note(&self, id: &str, note: &str) -> rusqlite::Result<()> {
        let put = self.database().execute(
            "insert or replace into sandbox_note (id, note) select id, ? from sandbox where id = ?",
            params![note, id],
        );
        put.map(drop)
    }

    pub fn note(&self, id: &str) -> rusqlite::Result<Option<String>> {
        let database = self.database();
        let mut query = database.prepare_cached("select note from sandbox_note where id = ?")?;
        query.query_row([id], |row| row.get(0)).optional()
    }
}

/// Sandboxes that one request wants to have written down, and what became of that.
pub(super) struct Waiting {
    records: Vec<SandboxRecord>,
    answer: Answer,
}

type Answer = Arc<Mutex<Option<rusqlite::Result<()>>>>;

fn take(answer: &Answer) -> Option<rusqlite::Result<()>> {
    answer.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn put<'a>(
    database: &mut Connection,
    records: impl IntoIterator<Item = &'a SandboxRecord>,
) -> rusqlite::Result<()> {
    let change = database.transaction()?;
    for record in records {
        let mut put = change.prepare_cached(
            "insert or replace into sandbox (id, vault, parent, state, created, expires, spec)
             values (?, ?, ?, ?, ?, ?, ?)",
        )?;
        put.execute(params![
            record.id,
            record.vault.map(u64::cast_signed),
            record.parent,
            record.state,
            record.created,
            record.expires,
            record.spec
        ])?;
    }
    change.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: usize) -> SandboxRecord {
        SandboxRecord {
            id: format!("sb{number}"),
            vault: Some(number as u64),
            parent: None,
            state: SandboxState::Ready,
            created: number as i64,
            expires: None,
            spec: "{}".to_owned(),
        }
    }

    #[test]
    fn sandboxes_that_are_written_down_together_are_all_there() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        std::thread::scope(|scope| {
            for client in 0..8 {
                let state = &state;
                scope.spawn(move || {
                    for number in 0..25 {
                        let made = record(client * 25 + number);
                        state.put_sandboxes(std::slice::from_ref(&made)).unwrap();
                        assert_eq!(state.sandbox(&made.id).unwrap(), Some(made));
                    }
                });
            }
        });
        drop(state);
        let state = State::open(directory.path()).unwrap();
        assert_eq!(state.sandboxes().unwrap().len(), 200);
        assert!(state.set_expiry("sb7", Some(5)).unwrap());
        assert_eq!(state.sandbox("sb7").unwrap().unwrap().expires, Some(5));
        state
            .note_sandboxes(&[SandboxRecord {
                state: SandboxState::Deleting,
                ..record(7)
            }])
            .unwrap();
        assert!(!state.set_expiry("sb7", None).unwrap());
        assert!(!state.set_expiry("none", None).unwrap());
    }
}
