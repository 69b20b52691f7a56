//! Combines refs: those that the database still yields, and those of the second copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::door::RefKey;
use crate::embedded::carve::carve;
use crate::embedded::layout::StoreLayout;
use crate::embedded::ref_log::{CopyState, RefLog, RefMap};
use crate::embedded::refs::{self, LostRef};

/// Returns the age of a value of a ref, for refs that count their changes. Of two values, the one with the
/// larger number is newer. For refs that are never removed, an absent ref has a number too.
pub type RefAge = fn(&str, Option<&[u8]>) -> Option<u64>;

/// The refs that a database yields.
#[derive(Default)]
pub(crate) struct SalvagedRefs {
    pub refs: RefMap,
    /// Rows that do not match their sums.
    pub lost: Vec<LostRef>,
    /// Whether SQLite has read the table to its end.
    pub to_the_end: bool,
}

/// The combined refs.
#[derive(Default)]
pub(crate) struct SalvageReport {
    pub refs: RefMap,
    /// How many of them are missing in the database.
    pub restored: u64,
    /// Refs that neither source has.
    pub lost: Vec<LostRef>,
    /// Whether it is certain that nothing is missing.
    pub is_complete: bool,
}

/// Which of the two has seen more commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyAge {
    Same,
    DatabaseOlder,
    CopyOlder,
    /// Each has newer refs than the other.
    Apart,
}

impl SalvagedRefs {
    /// Reads the refs through SQLite; refs that it refuses to read are extracted from the pages.
    pub(crate) fn of_file(database: &Path, age: RefAge) -> SalvagedRefs {
        let mut reading = SalvagedRefs::default();
        // Before SQLite opens the database: it removes the log of an empty one.
        let log = std::fs::read(log_of(database)).unwrap_or_default();
        if let Ok(old) = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE) {
            // Closing the last connection would write the log into the database: the old files must stay as they are.
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

/// Compares the refs that count their changes. A ref that only one side has was created there, or removed on
/// the other; removals are counted by refs that both have. A copy that lacks a commit may lack a removal.
pub(crate) fn compare(database: &RefMap, copy: &RefLog, age: RefAge) -> CopyAge {
    let copy_lacks_nothing = copy.state == CopyState::Whole;
    let copy = &copy.refs;
    let newer = |left: &RefMap, right: &RefMap| {
        left.iter().any(|(key, value)| {
            let other = age(key, right.get(key).map(Vec::as_slice));
            other.is_some() && age(key, Some(value)) > other
        })
    };
    let has_more = |left: &RefMap, right: &RefMap| {
        left.iter()
            .any(|(key, value)| !right.contains_key(key) && age(key, Some(value)).is_some())
    };
    let age_of_copy = |database, copy| match (database, copy) {
        (false, false) => CopyAge::Same,
        (false, true) => CopyAge::DatabaseOlder,
        (true, false) => CopyAge::CopyOlder,
        (true, true) => CopyAge::Apart,
    };
    match age_of_copy(newer(database, copy), newer(copy, database)) {
        CopyAge::Same => age_of_copy(
            has_more(database, copy),
            copy_lacks_nothing && has_more(copy, database),
        ),
        decided => decided,
    }
}

/// The refs by which the copy shows that the database has lost commits.
pub(crate) fn newer_in_copy(database: &RefMap, copy: &RefLog, age: RefAge) -> Vec<String> {
    if !matches!(
        compare(database, copy, age),
        CopyAge::DatabaseOlder | CopyAge::Apart
    ) {
        return Vec::new();
    }
    let newer = copy.refs.iter().filter(|(key, value)| {
        let known = age(key, database.get(*key).map(Vec::as_slice));
        known < age(key, Some(value))
    });
    newer.map(|(key, _)| key.clone()).collect()
}

/// Combines both. `was_cut` means that the log of the database has lost commits.
pub(crate) fn merge(database: SalvagedRefs, copy: RefLog, was_cut: bool, age: RefAge) -> SalvageReport {
    let age_of_copy = compare(&database.refs, &copy, age);
    if database.is_whole() && !was_cut && matches!(age_of_copy, CopyAge::Same | CopyAge::CopyOlder) {
        return SalvageReport {
            refs: database.refs,
            is_complete: true,
            ..SalvageReport::default()
        };
    }
    if copy.state == CopyState::Whole && matches!(age_of_copy, CopyAge::Same | CopyAge::DatabaseOlder) {
        let restored = copy
            .refs
            .iter()
            .filter(|(key, value)| database.refs.get(*key) != Some(value));
        let restored = restored.count() as u64;
        return SalvageReport {
            restored,
            refs: copy.refs,
            lost: Vec::new(),
            is_complete: true,
        };
    }
    let lost = database.lost;
    let union = union(database.refs, copy.refs, age);
    SalvageReport {
        lost: lost.into_iter().filter(|lost| !union.has(lost)).collect(),
        ..union
    }
}

/// Every key of either side, with the newest value.
fn union(database: RefMap, copy: RefMap, age: RefAge) -> SalvageReport {
    let mut refs = database;
    let mut restored = 0;
    for (key, value) in copy {
        let is_newer = refs
            .get(&key)
            .is_none_or(|known| age(&key, Some(&value)) > age(&key, Some(known)));
        if is_newer {
            refs.insert(key, value);
            restored += 1;
        }
    }
    SalvageReport {
        refs,
        restored,
        ..SalvageReport::default()
    }
}

impl SalvageReport {
    fn has(&self, lost: &LostRef) -> bool {
        std::str::from_utf8(&lost.key).is_ok_and(|key| self.refs.contains_key(key))
    }
}

fn log_of(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// The database from which refs are read. A rebuild that was killed may have set it aside already.
pub(crate) fn old_database(layout: &StoreLayout, aside: &str) -> PathBuf {
    let path = Some(layout.database()).filter(|path| path.exists());
    path.unwrap_or_else(|| layout.dir().join(aside))
}
