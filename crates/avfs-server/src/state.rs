//! What survives a restart and a `kill -9`: one database for each tenant, in the directory of its store.

mod clock;
mod codebases;
mod replies;
mod sandboxes;
mod sessions;
mod shells;
mod snapshots;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

pub(crate) use codebases::CodebaseRecord;
pub(crate) use replies::{KeptReply, KeyUse, Reservation};
pub(crate) use sandboxes::{SandboxRecord, SandboxState};
pub(crate) use sessions::SessionRecord;
pub(crate) use shells::ShellRecord;

/// How long a process waits for another that changes the same database.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the server keeps what is not a tenant's.
pub(crate) fn directory(home: &Path) -> io::Result<PathBuf> {
    let directory = home.join("server");
    make_private(&directory)?;
    Ok(directory)
}

/// A directory that only the user of this process can enter.
pub(crate) fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Opens a database, and makes it if there is none. What is committed survives a power loss.
pub(crate) fn open_database(file: &Path, schema: &str) -> rusqlite::Result<Connection> {
    let database = Connection::open(file)?;
    database.busy_timeout(PATIENCE)?;
    database.pragma_update(None, "journal_mode", "wal")?;
    database.pragma_update(None, "synchronous", "full")?;
    database.execute_batch(schema)?;
    Ok(database)
}

/// The database of a tenant.
pub(crate) struct State {
    database: Mutex<Connection>,
    /// Sandboxes that wait to be written down, by whoever gets to the database first.
    waiting: Mutex<Vec<sandboxes::Waiting>>,
}

impl State {
    pub fn open(store: &Path) -> rusqlite::Result<State> {
        State::open_at(&store.join("server.db"))
    }

    /// The same in another file.
    pub fn open_at(file: &Path) -> rusqlite::Result<State> {
        let schema = [
            sandboxes::SCHEMA,
            sessions::SCHEMA,
            replies::SCHEMA,
            clock::SCHEMA,
            codebases::SCHEMA,
            shells::SCHEMA,
            snapshots::SCHEMA,
        ]
        .concat();
        let database = open_database(file, &schema)?;
        Ok(State {
            database: Mutex::new(database),
            waiting: Mutex::default(),
        })
    }

    /// When the clock was last looked at.
    pub fn clock(&self) -> clock::StoredClock<'_> {
        clock::StoredClock(self)
    }

    /// The answers to requests with a key.
    pub fn replies(&self) -> replies::StoredReplies<'_> {
        replies::StoredReplies(self)
    }

    /// The sessions that were started.
    pub fn sessions(&self) -> sessions::StoredSessions<'_> {
        sessions::StoredSessions(self)
    }

    /// The names of snapshots.
    pub fn snapshots(&self) -> snapshots::StoredSnapshotNames<'_> {
        snapshots::StoredSnapshotNames(self)
    }

    /// Changes something that only a killed server needs to have written down: the system has it when this returns, and
    /// the disk perhaps not before the next change that is waited for. Whoever has to survive a power cut waits for that.
    fn lightly<T>(&self, change: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let mut database = self.database();
        database.pragma_update(None, "synchronous", "normal")?;
        let changed = change(&mut database);
        database.pragma_update(None, "synchronous", "full")?;
        changed
    }

    fn database(&self) -> MutexGuard<'_, Connection> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
