//! The file of the index: its tables, and how damage to it is handled.
//!
//! | table | holds |
//! |---|---|
//! | `documents` | number, path, and a key of 16 bytes made from path and content |
//! | `texts` | SQLite's full-text index of the documents, without their texts |
//! | `roots` | for each vault the tree whose documents are all here |

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use avfs_core::{Root, Snapshot, Timestamp, TreePath};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::SearchError;
use super::parse::Query;

/// Changed whenever the tables or the meaning of a word change: an index of another version is rebuilt.
const VERSION: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE documents (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, path BLOB NOT NULL);
    CREATE TABLE roots (key TEXT PRIMARY KEY, root BLOB NOT NULL) WITHOUT ROWID;
    CREATE VIRTUAL TABLE texts USING fts5(
        body, path, content='', contentless_delete=1, tokenize='ascii');
    INSERT INTO texts(texts, rank) VALUES ('hashsize', 16777216);
";

/// Names a document: the same path with the same content, in whatever vault.
pub(super) type DocumentKey = [u8; 16];

/// A document that the index found.
pub(super) struct IndexMatch {
    pub(super) path: TreePath,
    pub(super) key: DocumentKey,
    /// Lower is better.
    pub(super) rank: f64,
}

pub(super) struct IndexDatabase {
    place: PathBuf,
    connection: Mutex<Connection>,
}

impl IndexDatabase {
    pub(super) fn open(directory: &Path, patience: Duration) -> Result<IndexDatabase, SearchError> {
        // Turning a new file into an index is one process's business at a time.
        let _turn = take_turn(directory).map_err(|source| SearchError::Directory {
            place: directory.display().to_string(),
            source,
        })?;
        let place = directory.join("search.db");
        let connection = connect(&place, patience).map_err(|source| error(&place, "opening", source))?;
        Ok(IndexDatabase {
            place,
            connection: Mutex::new(connection),
        })
    }

    /// Runs `act` on the index. If the index is damaged, it is rebuilt and the work is repeated from the
    /// start.
    pub(super) fn work<T>(
        &self,
        mut work: impl FnMut(&mut Connection) -> Result<T, WorkError>,
    ) -> Result<T, SearchError> {
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match work(&mut connection) {
            Err(WorkError::Sql(damage)) if is_damage(&damage) => {
                repair(&connection, &damage).map_err(|source| error(&self.place, "repairing", source))?;
                work(&mut connection)
            }
            other => other,
        }
        .map_err(|failure| match failure {
            WorkError::Sql(source) => error(&self.place, "using", source),
            WorkError::Search(error) => error,
        })
    }
}

/// Why work on the index ended: by its file, or by something else.
#[derive(Debug)]
pub(super) enum WorkError {
    Sql(rusqlite::Error),
    Search(SearchError),
}

impl From<rusqlite::Error> for WorkError {
    fn from(error: rusqlite::Error) -> WorkError {
        WorkError::Sql(error)
    }
}

impl<E: Into<SearchError>> From<E> for WorkError {
    fn from(error: E) -> WorkError {
        WorkError::Search(error.into())
    }
}

fn error(place: &Path, action: &'static str, source: rusqlite::Error) -> SearchError {
    SearchError::Database {
        action,
        place: place.display().to_string(),
        source,
    }
}

/// Creates the directory and locks it against other processes that open an index there, until the file is
/// dropped.
fn take_turn(directory: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(directory)?;
    let turn = File::create(directory.join("search.lock"))?;
    turn.lock()?;
    Ok(turn)
}

fn connect(place: &Path, patience: Duration) -> rusqlite::Result<Connection> {
    let connection = Connection::open(place)?;
    // Before the first statement: opening a database in WAL mode can already meet a lock.
    connection.busy_timeout(patience)?;
    match prepare(&connection) {
        Err(damage) if is_damage(&damage) => repair(&connection, &damage)?,
        other => other?,
    }
    Ok(connection)
}

/// Configures the connection, and creates the tables if there are none of this version.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    // Data that a power loss removes is indexed again.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16384;
         PRAGMA journal_size_limit = 16777216;",
    )?;
    if version(connection)? == VERSION {
        return Ok(());
    }
    if connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
        row.get::<_, i64>(0)
    })? > 0
    {
        // Tables of another version, or of another program.
        reset(connection)?;
    }
    create(connection)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    // Takes the write lock before the version is read, so that two processes cannot both create the tables.
    connection.execute_batch("BEGIN IMMEDIATE")?;
    // Another process may have been faster.
    let created = match version(connection) {
        Ok(VERSION) => Ok(()),
        Ok(_) => connection.execute_batch(&format!("{SCHEMA} PRAGMA user_version = {VERSION};")),
        Err(error) => Err(error),
    };
    let end = if created.is_ok() { "COMMIT" } else { "ROLLBACK" };
    created.and(connection.execute_batch(end))
}

/// Empties the file, whatever it holds. Unlike deleting it, this is safe while others have it open.
fn reset(connection: &Connection) -> rusqlite::Result<()> {
    connection.flush_prepared_statement_cache();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
    let emptied = connection.execute_batch("VACUUM");
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
    emptied
}

/// Whether an error means that the file is not a valid index. A user's query cannot cause an invalid
/// statement, so an invalid statement means missing or foreign tables.
fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    is_corruption(error) || matches!(code, Some(ErrorCode::Unknown | ErrorCode::SchemaChanged))
}

fn is_corruption(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch)
    ) || matches!(
        error,
        rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::FromSqlConversionFailure(..)
    )
}

fn repair(connection: &Connection, damage: &rusqlite::Error) -> rusqlite::Result<()> {
    // Missing tables of the right version: another process is rebuilding the index, or it is foreign.
    if is_corruption(damage) || version(connection)? == VERSION {
        reset(connection)?;
    }
    prepare(connection)
}

/// Calls `found` with the documents that match, best first, until it returns false.
pub(super) fn each_match(
    connection: &Connection,
    query: &Query,
    mut found: impl FnMut(IndexMatch) -> Result<bool, SearchError>,
) -> Result<(), WorkError> {
    // Asking for the function and not for the column `rank` halves the time.
    let mut ranked = connection.prepare_cached(
        "SELECT rowid, bm25(texts, 1.0, 4.0) AS badness FROM texts WHERE texts MATCH ?1 ORDER BY badness",
    )?;
    let mut document = connection.prepare_cached("SELECT path, key FROM documents WHERE id = ?1")?;
    let mut rows = ranked.query([query.match_expression()])?;
    while let Some(row) = rows.next()? {
        let (id, rank): (i64, f64) = (row.get(0)?, row.get(1)?);
        let pair: Option<(Vec<u8>, DocumentKey)> = document
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        // The text of a document that another process is removing.
        let Some((path, key)) = pair else { continue };
        let Ok(path) = TreePath::parse(&path) else {
            continue;
        };
        if !found(IndexMatch { path, key, rank })? {
            break;
        }
    }
    Ok(())
}

pub(super) fn has_document(connection: &Connection, key: DocumentKey) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM documents WHERE key = ?1")?
        .exists([key])
}

/// The tree that was indexed under this key.
pub(super) fn indexed_root(connection: &Connection, key: &str) -> rusqlite::Result<Option<Root>> {
    let mut statement = connection.prepare_cached("SELECT root FROM roots WHERE key = ?1")?;
    let bytes: Option<Vec<u8>> = statement.query_row([key], |row| row.get(0)).optional()?;
    Ok(bytes
        .and_then(|bytes| Snapshot::decode(&bytes).ok())
        .map(|snapshot| snapshot.root))
}

/// A tree is stored as the snapshot that contains nothing else.
pub(super) fn remember_root(connection: &Connection, key: &str, root: &Root) -> rusqlite::Result<()> {
    let snapshot = Snapshot {
        root: root.clone(),
        parents: Vec::new(),
        time: Timestamp::default(),
        author: String::new(),
        reason: String::new(),
    };
    let mut statement =
        connection.prepare_cached("INSERT OR REPLACE INTO roots (key, root) VALUES (?1, ?2)")?;
    statement.execute(params![key, snapshot.encode()]).map(drop)
}

pub(super) fn forget(connection: &Connection, key: &str) -> Result<(), WorkError> {
    connection.execute("DELETE FROM roots WHERE key = ?1", [key])?;
    Ok(())
}
