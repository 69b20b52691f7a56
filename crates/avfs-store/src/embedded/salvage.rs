//! Bringing refs together again: those that the database still gives, and those of the second copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::door::RefKey;
use crate::embedded::carve::carve;
use crate::embedded::layout::Layout;
use crate::embedded::ref_log::{CopyState, RefLog};
use crate::embedded::refs::{self, LostRef};

/// Says how new a value of a ref is, for refs that count their changes. Of two values the one with the larger
/// number is the newer. For refs that are never removed, a ref that is not there has a number too.
pub type RefAge = fn(&str, Option<&[u8]>) -> Option<u64>;

type Refs = BTreeMap<RefKey, Vec<u8>>;

/// What a database gives of its refs.
#[derive(Default)]
pub(crate) struct Reading {
    pub refs: Refs,
    /// Rows that do not match their sums.
    pub lost: Vec<LostRef>,
    /// SQLite has read the table to its end.
    pub to_the_end: bool,
}

/// Refs that were brought together.
#[derive(Default)]
pub(crate) struct Salvaged {
    pub refs: Refs,
    /// How many of them the database did not give.
    pub restored: u64,
    /// What neither has.
    pub lost: Vec<LostRef>,
    /// Whether it is known that nothing is missing.
    pub is_complete: bool,
}

/// Which of the two has seen more commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Same,
    DatabaseOlder,
    CopyOlder,
    /// Each has something newer.
    Apart,
}

impl Reading {
    /// Reads what SQLite gives; what it refuses to read is taken out of the pages.
    pub(crate) fn of_file(database: &Path, age: RefAge) -> Reading {
        let mut reading = Reading::default();
        // Before SQLite opens the database: it removes the log of one that is empty.
        let log = std::fs::read(log_of(database)).unwrap_or_default();
        if let Ok(old) = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE) {
            // The old files stay as they are.
            _ = old.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            reading.to_the_end = reading.take_rows(&old).is_ok();
        }
        if !reading.to_the_end {
            reading.take_carved(carve(database, log), age);
        }
        reading
    }

    pub(crate) fn take_rows(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        refs::for_each(connection, &mut |entry| match entry {
            Ok((key, value)) => _ = self.refs.insert(key, value),
            Err(damaged) => self.lost.push(damaged),
        })
    }

    fn take_carved(&mut self, found: BTreeMap<RefKey, Vec<Vec<u8>>>, age: RefAge) {
        for (key, values) in found {
            if let Some(newest) = values.into_iter().max_by_key(|value| age(&key, Some(value))) {
                self.refs.entry(key).or_insert(newest);
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.to_the_end && self.lost.is_empty()
    }
}

/// Compares by the refs that count their changes. A ref that one side alone has was made there, or removed on the
/// other; and removals are counted by refs that both have. A copy that lacks a commit may lack a removal.
pub(crate) fn compare(database: &Refs, copy: &RefLog, age: RefAge) -> Standing {
    let copy_lacks_nothing = copy.state == CopyState::Whole;
    let copy = &copy.refs;
    let newer = |left: &Refs, right: &Refs| {
        left.iter().any(|(key, value)| {
            let other = age(key, right.get(key).map(Vec::as_slice));
            other.is_some() && age(key, Some(value)) > other
        })
    };
    let has_more = |left: &Refs, right: &Refs| {
        left.iter().any(|(key, value)| !right.contains_key(key) && age(key, Some(value)).is_some())
    };
    let standing = |database, copy| match (database, copy) {
        (false, false) => Standing::Same,
        (false, true) => Standing::DatabaseOlder,
        (true, false) => Standing::CopyOlder,
        (true, true) => Standing::Apart,
    };
    match standing(newer(database, copy), newer(copy, database)) {
        Standing::Same => standing(has_more(database, copy), copy_lacks_nothing && has_more(copy, database)),
        decided => decided,
    }
}

/// The refs by which the copy shows that the database has lost commits.
pub(crate) fn newer_in_copy(database: &Refs, copy: &RefLog, age: RefAge) -> Vec<String> {
    if !matches!(compare(database, copy, age), Standing::DatabaseOlder | Standing::Apart) {
        return Vec::new();
    }
    let newer = copy.refs.iter().filter(|(key, value)| {
        let known = age(key, database.get(*key).map(Vec::as_slice));
        known < age(key, Some(value))
    });
    newer.map(|(key, _)| key.clone()).collect()
}

/// Brings both together. `was_cut` says that the log of the database has lost commits.
pub(crate) fn merge(database: Reading, copy: RefLog, was_cut: bool, age: RefAge) -> Salvaged {
    let standing = compare(&database.refs, &copy, age);
    if database.is_whole() && !was_cut && matches!(standing, Standing::Same | Standing::CopyOlder) {
        return Salvaged { refs: database.refs, is_complete: true, ..Salvaged::default() };
    }
    if copy.state == CopyState::Whole && matches!(standing, Standing::Same | Standing::DatabaseOlder) {
        let restored = copy.refs.iter().filter(|(key, value)| database.refs.get(*key) != Some(value));
        let restored = restored.count() as u64;
        return Salvaged { restored, refs: copy.refs, lost: Vec::new(), is_complete: true };
    }
    let lost = database.lost;
    let union = union(database.refs, copy.refs, age);
    Salvaged { lost: lost.into_iter().filter(|lost| !union.has(lost)).collect(), ..union }
}

/// Every key of either side, with the newest value.
fn union(database: Refs, copy: Refs, age: RefAge) -> Salvaged {
    let mut refs = database;
    let mut restored = 0;
    for (key, value) in copy {
        let is_newer = refs.get(&key).is_none_or(|known| age(&key, Some(&value)) > age(&key, Some(known)));
        if is_newer {
            refs.insert(key, value);
            restored += 1;
        }
    }
    Salvaged { refs, restored, ..Salvaged::default() }
}

impl Salvaged {
    fn has(&self, lost: &LostRef) -> bool {
        std::str::from_utf8(&lost.key).is_ok_and(|key| self.refs.contains_key(key))
    }
}

fn log_of(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// The database that refs are taken from. A rebuild that was killed may have set it aside already.
pub(crate) fn old_database(layout: &Layout, aside: &str) -> PathBuf {
    let path = Some(layout.database()).filter(|path| path.exists());
    path.unwrap_or_else(|| layout.dir().join(aside))
}
