//! Sessions, as they are written down: so that a client hears of one that it has ended, and not that it never was.

use rusqlite::params;

use super::State;

pub(super) const SCHEMA: &str = "
    create table if not exists session (
        id text primary key, sandbox text not null, created integer not null
    ) strict, without rowid;
    create index if not exists session_sandbox on session (sandbox, created, id);";

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    pub id: String,
    pub sandbox: String,
    /// Milliseconds since 1970.
    pub created: i64,
}

/// The sessions that were started.
pub(crate) struct StoredSessions<'a>(pub(super) &'a State);

impl StoredSessions<'_> {
    pub fn put(&self, record: &SessionRecord) -> rusqlite::Result<()> {
        let put = self.0.database().execute(
            "insert or replace into session (id, sandbox, created) values (?, ?, ?)",
            params![record.id, record.sandbox, record.created],
        );
        put.map(drop)
    }

    /// The sessions of a sandbox, in the order in which they were started.
    pub fn of_sandbox(&self, sandbox: &str) -> rusqlite::Result<Vec<SessionRecord>> {
        let database = self.0.database();
        let mut query = database.prepare_cached(
            "select id, sandbox, created from session where sandbox = ? order by created, id",
        )?;
        let found = query.query_map([sandbox], |row| {
            Ok(SessionRecord {
                id: row.get(0)?,
                sandbox: row.get(1)?,
                created: row.get(2)?,
            })
        })?;
        found.collect()
    }

    pub fn remove(&self, id: &str) -> rusqlite::Result<()> {
        self.0
            .database()
            .execute("delete from session where id = ?", [id])
            .map(drop)
    }

    pub fn remove_of_sandbox(&self, sandbox: &str) -> rusqlite::Result<()> {
        self.0
            .database()
            .execute("delete from session where sandbox = ?", [sandbox])
            .map(drop)
    }
}
