//! The SQLite file of a store: its creation, its check on opening, and a pool of connections.

use std::fs::{OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::door::StoreError;
use crate::embedded::failure::{DATABASE, database, io_failure};
use crate::embedded::layout::{StoreLayout, sync_dir};
use crate::embedded::pins::POLL;
use crate::embedded::salvage::{self, RefAge, SalvagedRefs};
use crate::embedded::{ref_log, reserve, shared_memory, wal};

/// The format that this version writes, and the newest that it reads: SQLite's `user_version`.
pub const FORMAT: u32 = 1;

/// "avfs": SQLite's `application_id`, which marks a database as ours.
const APPLICATION: i32 = 0x6176_6673;

const SCHEMA: &str = "
    CREATE TABLE objects (
        id BLOB PRIMARY KEY, pack INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE packs (number INTEGER PRIMARY KEY, length INTEGER NOT NULL, sum INTEGER NOT NULL);
    CREATE TABLE refs (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
";

/// Idle connections kept for the next caller.
const IDLE_LIMIT: usize = 8;

/// A store that is closed folds the log into the database if the log is larger than this. A smaller one is
/// quick to read on the next open, and folding it would cost every short command two more syncs.
const LOG_WORTH_FOLDING: u64 = 256 * 1024;

/// Connections to the database. Each caller has one of its own, so readers never wait for each other.
pub(crate) struct StoreDatabase {
    layout: StoreLayout,
    busy_timeout: Duration,
    ref_age: RefAge,
    idle: Mutex<Vec<Connection>>,
}

impl StoreDatabase {
    /// Opens the database, and creates it if it is missing. A database of a newer format is refused
    /// unchanged. A damaged log is refused before SQLite drops what follows the damage.
    pub(crate) fn open(
        layout: &StoreLayout,
        busy_timeout: Duration,
        ref_age: RefAge,
    ) -> Result<StoreDatabase, StoreError> {
        shared_memory::take_room_before_mapping();
        if !layout.database().exists() {
            create(layout)?;
        }
        wal::check(layout)?;
        refuse_empty(layout)?;
        let database = StoreDatabase {
            layout: layout.clone(),
            busy_timeout,
            ref_age,
            idle: Mutex::new(Vec::new()),
        };
        let is_emptied = wal::is_emptied(layout);
        let connect = || {
            let connection = database.connect()?;
            check_format(&connection, layout).map(|()| connection)
        };
        let connection = match connect() {
            // Operations that free space need the database first.
            Err(StoreError::Full { .. }) if reserve::lend(layout) => connect()?,
            connected => connected?,
        };
        database.give_back(connection);
        if is_emptied {
            database.refuse_lost_commits()?;
        }
        Ok(database)
    }

    /// The refs whose second copy shows that the database has lost commits.
    pub(crate) fn lost_commits(&self) -> Result<Vec<String>, StoreError> {
        // Read before the database, which is never older than its copy.
        let copy = ref_log::read(&self.layout);
        let mut refs = SalvagedRefs::default();
        self.read("reading refs", |connection| {
            refs.take_rows(connection).map_err(database("reading refs"))
        })?;
        Ok(salvage::newer_in_copy(&refs.refs, &copy, self.ref_age))
    }

    /// Fails as damaged if commits are lost, before any process continues from an older state.
    fn refuse_lost_commits(&self) -> Result<(), StoreError> {
        if self.lost_commits()?.is_empty() {
            Ok(())
        } else {
            let detail = "it is gone or empty, and commits that were in it are missing".to_owned();
            Err(StoreError::Damaged {
                place: wal::LOG.to_owned(),
                detail,
            })
        }
    }

    /// Rewrites the second copy of refs if it lacks commits, or if most of it describes values that were
    /// replaced since.
    pub(crate) fn renew_copy(&self) {
        // A failure leaves the copy unchanged.
        _ = self.write("renewing the copy of refs", |connection| {
            let mut refs = SalvagedRefs {
                to_the_end: true,
                ..SalvagedRefs::default()
            };
            refs.take_rows(connection).map_err(database("reading refs"))?;
            let copy = ref_log::read(&self.layout);
            let is_newest = salvage::newer_in_copy(&refs.refs, &copy, self.ref_age).is_empty();
            if is_newest && refs.lost.is_empty() {
                ref_log::replace(&self.layout, &refs.refs)
                    .map_err(|e| io_failure("writing", ref_log::COPY, e))?;
            }
            Ok::<(), StoreError>(())
        });
    }

    /// Runs `work` on a connection of its own.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let pooled = self.idle().pop();
        let connection = match pooled {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let result = work(&connection);
        self.give_back(connection);
        result
    }

    /// Runs `work` in one write transaction; any error rolls it back.
    pub(crate) fn write<T, E: From<StoreError>>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transaction(TransactionBehavior::Immediate, action, work)
    }

    /// Runs `work` in one read transaction: all its reads see the same moment.
    pub(crate) fn read<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transaction(TransactionBehavior::Deferred, action, work)
    }

    fn transaction<T, E: From<StoreError>>(
        &self,
        behavior: TransactionBehavior,
        action: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        // The outer result is from getting a connection, the inner one from the work.
        self.with(|connection| {
            let transaction = Transaction::new_unchecked(connection, behavior).map_err(database(action))?;
            match work(&transaction) {
                Ok(value) => {
                    transaction.commit().map_err(database(action))?;
                    if matches!(behavior, TransactionBehavior::Immediate) {
                        wal::record(&self.layout, connection);
                    }
                    Ok(Ok(value))
                }
                Err(error) => {
                    // A failed rollback shows up at the next use of the connection; the first error is the
                    // one to report.
                    _ = transaction.rollback();
                    Ok(Err(error))
                }
            }
        })?
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        connect(&self.layout.database(), self.busy_timeout).map_err(database("opening the database"))
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_LIMIT && connection.is_autocommit() {
            idle.push(connection);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle
            .lock()
            .expect("no panic happens while the pool is locked")
    }

    /// Folds the write-ahead log into the database if that is worthwhile and no other process prevents it.
    fn fold_log(&self) {
        let log = std::fs::metadata(self.layout.write_ahead_log()).map_or(0, |info| info.len());
        if log <= LOG_WORTH_FOLDING {
            return;
        }
        ref_log::sync(&self.layout);
        // Commits that are not folded now stay in the log, which is as durable; so a failure does no harm.
        _ = self.empty_log();
    }

    /// Folds the whole log into the database and empties it. Busy if another process reads from it.
    pub(crate) fn empty_log(&self) -> Result<(), StoreError> {
        let busy = self.with(|connection| {
            let fail = database("folding the log");
            connection.busy_timeout(Duration::ZERO).map_err(&fail)?;
            let fold = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
            connection.busy_timeout(self.busy_timeout).map_err(&fail)?;
            fold.map_err(&fail)
        })?;
        if busy {
            return Err(StoreError::Busy {
                what: wal::LOG.to_owned(),
            });
        }
        // The note describes the log that was just emptied.
        _ = std::fs::remove_file(self.layout.log_note());
        Ok(())
    }
}

impl Drop for StoreDatabase {
    fn drop(&mut self) {
        self.fold_log();
    }
}

fn connect(path: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Otherwise the last process to close would fold and delete the log: see LOG_WORTH_FOLDING.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA cell_size_check = ON; PRAGMA cache_size = -8192;
         PRAGMA temp_store = MEMORY;",
    )?;
    Ok(connection)
}

fn check_format(connection: &Connection, layout: &StoreLayout) -> Result<(), StoreError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application = pragma("application_id").map_err(database("reading the format"))?;
    if application != APPLICATION && ref_log::is_there(layout) {
        let detail = "it is not marked as a database of agentvfs".to_owned();
        return Err(StoreError::Damaged {
            place: DATABASE.to_owned(),
            detail,
        });
    }
    if application != APPLICATION {
        let reason = format!("its {DATABASE} is not a database of agentvfs");
        return Err(StoreError::Unsuitable {
            place: layout.dir().to_owned(),
            reason,
        });
    }
    let found = pragma("user_version").map_err(database("reading the format"))? as u32;
    match found {
        FORMAT => Ok(()),
        0 => Err(StoreError::Damaged {
            place: DATABASE.to_owned(),
            detail: "it has no format".to_owned(),
        }),
        // The copy of refs shows which version created the store: one bit of the number has flipped.
        _ if (found ^ FORMAT).is_power_of_two() && ref_log::is_there(layout) => {
            let detail = format!(
                "it says that its format is {found}, and {} has {FORMAT}",
                ref_log::COPY
            );
            Err(StoreError::Damaged {
                place: DATABASE.to_owned(),
                detail,
            })
        }
        _ => Err(StoreError::Newer {
            place: layout.dir().to_owned(),
            found,
            supported: FORMAT,
        }),
    }
}

/// SQLite treats an empty file as a new database, and removes the log beside it.
fn refuse_empty(layout: &StoreLayout) -> Result<(), StoreError> {
    match std::fs::metadata(layout.database()) {
        Ok(info) if info.len() == 0 => {
            let detail = "it is empty".to_owned();
            Err(StoreError::Damaged {
                place: DATABASE.to_owned(),
                detail,
            })
        }
        _ => Ok(()),
    }
}

/// Creates the database, unless another process is faster.
fn create(layout: &StoreLayout) -> Result<(), StoreError> {
    let lock = layout.open_gc_lock()?;
    while !layout.database().exists() {
        match lock.try_lock() {
            Ok(()) => return create_locked(layout),
            // The process that holds the lock is creating the database, or has created it and holds a pin by
            // now.
            Err(TryLockError::WouldBlock) => std::thread::sleep(POLL),
            Err(TryLockError::Error(source)) => return Err(io_failure("locking", "gc.lock", source)),
        }
    }
    Ok(())
}

fn create_locked(layout: &StoreLayout) -> Result<(), StoreError> {
    if layout.database().exists() {
        return Ok(());
    }
    if !layout.pack_numbers()?.is_empty() || ref_log::is_there(layout) {
        let detail = "it is missing, but the rest of the store is there".to_owned();
        return Err(StoreError::Damaged {
            place: DATABASE.to_owned(),
            detail,
        });
    }
    let replacement = make_replacement(layout, |_| Ok(()))?;
    reserve::keep(layout);
    move_in_place(layout, &replacement)
}

/// Creates a database under another name, filled by `fill`. The caller holds the lock of gc.
pub(crate) fn make_replacement(
    layout: &StoreLayout,
    fill: impl FnOnce(&Connection) -> Result<(), StoreError>,
) -> Result<PathBuf, StoreError> {
    let fail = |e| io_failure("creating", DATABASE, e);
    let replacement = layout.dir().join("store.db.new");
    match std::fs::remove_file(&replacement) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail(e)),
        _ => {}
    }
    OpenOptions::new()
        .write(true)
        // Never through a file that something else has put there.
        .create_new(true)
        .mode(0o600)
        .open(&replacement)
        .map_err(fail)?;
    let fail = database("creating the database");
    let connection =
        Connection::open_with_flags(&replacement, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(&fail)?;
    let run = |sql: &str| connection.execute_batch(sql).map_err(&fail);
    run("PRAGMA page_size = 4096; PRAGMA synchronous = FULL; BEGIN")?;
    run(SCHEMA)?;
    run(&format!(
        "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}"
    ))?;
    fill(&connection)?;
    run("COMMIT; PRAGMA journal_mode = WAL")?;
    connection.close().map_err(|(_, error)| fail(error))?;
    Ok(replacement)
}

/// Renames a replacement to its final name: from then on the database exists and is complete.
pub(crate) fn move_in_place(layout: &StoreLayout, replacement: &Path) -> Result<(), StoreError> {
    std::fs::rename(replacement, layout.database())
        .and_then(|()| sync_dir(layout.dir()))
        .map_err(|e| io_failure("creating", DATABASE, e))
}
