//! Programs that write into a mount until it goes away, and report which changes are durable.

use std::path::{Path, PathBuf};

use avfs_testkit::{LoadWriter, TestChild, WatchedChild, acknowledge, child_task};
use rusqlite::Connection;

/// One writing process, with the required results.
pub struct Writer {
    child: WatchedChild,
    traces: Traces,
}

/// The traces of a writer, in a directory of its own below the mount.
pub struct Traces {
    /// Relative to the mount.
    place: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Files(LoadWriter),
    /// A table in WAL mode with `synchronous=FULL`, one row for each commit.
    Sqlite,
}

impl Writer {
    /// Starts writing at a place below the mount, which is made.
    pub fn start(mount: &Path, place: &str, kind: Kind) -> Writer {
        let script = match kind {
            Kind::Files(LoadWriter { threads, seed, .. }) => format!("{threads} {seed}"),
            Kind::Sqlite => String::new(),
        };
        let child = TestChild::start("writers::the_writer", &mount.join(place), &script).watched();
        Writer {
            child,
            traces: Traces {
                place: place.into(),
                kind,
            },
        }
    }

    /// Its acknowledgements.
    pub fn so_far(&self) -> Vec<String> {
        self.child.so_far()
    }

    pub fn await_total(&self, count: usize) {
        self.child.await_total(count);
    }

    /// Waits until it stops because its mount is gone; returns its traces, and its acknowledgements.
    pub fn await_end(self) -> (Traces, Vec<String>) {
        let acknowledged = match self.traces.kind {
            Kind::Files(_) => self.child.await_end(),
            // SQLite treats a lock that fails as one that is held, and waits ten seconds for it.
            Kind::Sqlite => self.child.kill(),
        };
        (self.traces, acknowledged)
    }

    pub fn kill(self) -> (Traces, Vec<String>) {
        (self.traces, self.child.kill())
    }

    /// The flaws below a mount of the state at some moment between two lists of acknowledgements.
    pub fn flaws_between(&self, mount: &Path, before: &[String], after: &[String]) -> Vec<String> {
        self.traces.flaws_between(mount, before, after)
    }
}

impl Traces {
    /// The flaws below a mount, as sentences.
    pub fn flaws(&self, mount: &Path, acknowledged: &[String]) -> Vec<String> {
        self.flaws_between(mount, acknowledged, acknowledged)
    }

    pub fn flaws_between(&self, mount: &Path, before: &[String], after: &[String]) -> Vec<String> {
        let place = mount.join(&self.place);
        match self.kind {
            Kind::Files(load) => load.check_between(&place, before, after),
            Kind::Sqlite => sqlite_flaws(&place, before.len() as i64),
        }
    }
}

/// Not a test itself: the code that children run.
#[test]
fn the_writer() {
    let Some((place, script)) = child_task() else {
        return;
    };
    match script.split_once(' ') {
        Some((threads, seed)) => drop(load(threads.parse().unwrap(), seed.parse().unwrap()).run(&place)),
        // It ends with the first error, as programs do.
        None => drop(insert_for_ever(&place)),
    }
}

pub fn load(threads: u64, seed: u64) -> LoadWriter {
    LoadWriter {
        threads,
        seed,
        unsynced_may_be_zeros: false,
    }
}

const DATABASE: &str = "data.db";

fn insert_for_ever(place: &Path) -> rusqlite::Result<()> {
    if std::fs::create_dir_all(place).is_err() {
        return Ok(());
    }
    let database = Connection::open(place.join(DATABASE))?;
    database.pragma_update(None, "journal_mode", "wal")?;
    database.pragma_update(None, "synchronous", "full")?;
    // Often enough that checkpoints of the log happen in each round.
    database.pragma_update(None, "wal_autocheckpoint", 20)?;
    database.execute(
        "CREATE TABLE numbers (number INTEGER PRIMARY KEY, filling BLOB)",
        [],
    )?;
    for number in 1.. {
        database.execute(
            "INSERT INTO numbers VALUES (?1, randomblob(?2))",
            [number, number * 37 % 9_000],
        )?;
        acknowledge(number);
    }
    Ok(())
}

/// Everything acknowledged is there, without gaps before later records.
fn sqlite_flaws(place: &Path, acknowledged: i64) -> Vec<String> {
    sqlite_flaw(place, acknowledged)
        .unwrap_or_else(|error| Some(error.to_string()))
        .into_iter()
        .collect()
}

fn sqlite_flaw(place: &Path, acknowledged: i64) -> rusqlite::Result<Option<String>> {
    if acknowledged == 0 {
        return Ok(None);
    }
    let database = Connection::open(place.join(DATABASE))?;
    let verdict: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    let (count, last): (i64, i64) = database.query_row(
        "SELECT count(*), coalesce(max(number), 0) FROM numbers",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let is_good = verdict == "ok" && count == last && last >= acknowledged;
    Ok((!is_good).then(|| {
        format!("{DATABASE}: {verdict}, {count} rows up to {last}, {acknowledged} were acknowledged")
    }))
}
