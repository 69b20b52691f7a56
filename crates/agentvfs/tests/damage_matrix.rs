//! Every file of a store, damaged in every way: detected or harmless; repaired or named; never less reachable.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use agentvfs::error::StorageError;
use agentvfs::{CheckpointName, Error, ErrorKind, NewTask, Repaired, Store, StoreOptions, TaskName, Vault};

use avfs_core::rules::Rule;
use support::{name, path, write};
use tempfile::TempDir;

/// The files that vaults have, in all states.
const FILES: [&str; 4] = ["/a", "/large", "/only-in-one", "/journaled"];

/// The contents of a state: the bytes of each file, or an error.
type Contents = Vec<Result<Option<Vec<u8>>, String>>;

/// One way of damaging a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// Flips a bit at this percentage of the file.
    Flip(usize),
    Half,
    Emptied,
    Removed,
    Zeroed,
    Older,
    /// Cuts it after this many pages.
    Pages(usize),
}

const DAMAGES: [Damage; 11] = [
    Damage::Flip(0),
    Damage::Flip(7),
    Damage::Flip(33),
    Damage::Flip(50),
    Damage::Flip(81),
    Damage::Flip(100),
    Damage::Half,
    Damage::Emptied,
    Damage::Removed,
    Damage::Zeroed,
    Damage::Older,
];

impl Damage {
    /// Damages a file; returns whether there was anything to damage.
    fn apply(self, file: &Path, older: &Path) -> bool {
        let mut bytes = fs::read(file).unwrap();
        let before = bytes.clone();
        match self {
            Damage::Flip(part) => {
                let last = bytes.len().saturating_sub(1);
                if let Some(byte) = bytes.get_mut(last * part / 100) {
                    *byte ^= 1 << (part % 8);
                }
            }
            Damage::Half => bytes.truncate(bytes.len() / 2),
            Damage::Emptied => bytes.clear(),
            Damage::Pages(pages) => bytes.truncate(pages * 4096),
            Damage::Removed => {
                fs::remove_file(file).unwrap();
                return true;
            }
            Damage::Zeroed => bytes.fill(0),
            Damage::Older => match fs::read(older) {
                Ok(older) => bytes = older,
                Err(_) => return false,
            },
        }
        fs::write(file, &bytes).unwrap();
        bytes != before
    }
}

/// A closed store with everything in it, and how it was some time before: then nothing was in the database yet.
struct Sample {
    whole: TempDir,
    older: TempDir,
    expected: BTreeMap<(String, String), Contents>,
}

impl Sample {
    /// `folded`: everything is in the database, and nothing in its log.
    fn new(folded: bool) -> Sample {
        let (whole, older) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = whole.path();
        let store = Store::open(home).unwrap();
        let main = store.create_vault(&name("main")).unwrap();
        write(&main, "/a", "first");
        let forks = main.fork(&[name("fork"), name("gone")]).unwrap();
        leave_journal(&main, b"of an earlier owner");
        copy(home, older.path());
        // The journal that replaces it has the next number.
        let work = older.path().join("work").join(main.id().to_string());
        for suffix in ["", ".note"] {
            let [from, to] = [1, 2].map(|number| work.join(format!("journal.{number}{suffix}")));
            fs::rename(from, to).unwrap();
        }
        fold(home);
        write(&main, "/large", vec![7; 70_000]);
        main.save_checkpoint(&CheckpointName::new("kept").unwrap(), None)
            .unwrap();
        write(&main, "/a", "second");
        write(&forks[0], "/only-in-one", "in a fork");
        forks[1].clone().delete(false).unwrap();
        leave_journal(&main, b"synced");
        let list = home
            .join("work")
            .join(forks[0].id().to_string())
            .join("mounts.json");
        fs::create_dir_all(list.parent().unwrap()).unwrap();
        fs::write(list, r#"[{"dir":"/mnt/fork","options":[],"pid":1}]"#).unwrap();
        drop((main, forks, store));
        if folded {
            fold(home);
        }
        let copied = tempfile::tempdir().unwrap();
        copy(home, copied.path());
        let expected = contents(&Store::open(copied.path()).unwrap());
        Sample {
            whole,
            older,
            expected,
        }
    }

    /// A store with a task and records that need pages of their own. Those are in the database, and the pages above
    /// them in its log.
    fn with_long_records() -> Sample {
        let (whole, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(project.path().join("a"), "of the project").unwrap();
        let store = Store::open(whole.path()).unwrap();
        let new = NewTask {
            name: Some(TaskName::new("work").unwrap()),
            command: "make it ".repeat(1_500),
            ..NewTask::default()
        };
        let task = store.project(project.path()).unwrap().new_task(&new).unwrap();
        write(task.vault(), "/large", vec![7; 70_000]);
        let main = store.create_vault(&name("main")).unwrap();
        let rules: Vec<Rule> = (0..200)
            .map(|number| Rule::parse(&format!("/some/long/path/{number}/**=read")).unwrap())
            .collect();
        main.store_rules(Some(&rules)).unwrap();
        fold(whole.path());
        for number in 0..12 {
            write(&main, "/a", format!("version {number}"));
        }
        drop((task, main, store));
        let expected = contents(&Store::open(whole.path()).unwrap());
        Sample {
            whole,
            older: tempfile::tempdir().unwrap(),
            expected,
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut open = vec![PathBuf::new()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(self.whole.path().join(&directory)).unwrap() {
                let entry = entry.unwrap();
                let place = directory.join(entry.file_name());
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    open.push(place);
                } else if kind.is_file() {
                    files.push(place);
                }
            }
        }
        files.sort();
        files
    }

    /// Damages one file, checks, repairs and collects garbage.
    fn run(&self, file: &Path, damage: Damage) -> Option<Outcome> {
        let case = format!("{} {damage:?}", file.display());
        let home = tempfile::tempdir().unwrap();
        copy(self.whole.path(), home.path());
        if !damage.apply(&home.path().join(file), &self.older.path().join(file)) {
            return None;
        }
        let problems = problems(home.path(), &case);
        if problems.is_empty() {
            assert_eq!(
                self.read(home.path()),
                self.expected,
                "{case}: not noticed, and not harmless"
            );
            self.collect(home.path(), &case);
            return Some(Outcome::Harmless);
        }
        let repaired = Store::repair_at(home.path(), &StoreOptions::default());
        let repaired = repaired.unwrap_or_else(|error| panic!("{case}: {error}"));
        let outcome = self.judge(home.path(), &repaired, &case);
        self.collect(home.path(), &case);
        Some(outcome)
    }

    fn read(&self, home: &Path) -> BTreeMap<(String, String), Contents> {
        contents(&Store::open(home).unwrap())
    }

    /// Asserts that everything readable is still readable, or its loss is reported.
    fn judge(&self, home: &Path, repaired: &Repaired, case: &str) -> Outcome {
        let left = problems(home, case);
        let now = self.read(home);
        let has_losses = repaired.has_losses() || !left.is_empty();
        let all: BTreeSet<&Contents> = now.values().collect();
        for (state, before) in &self.expected {
            if all.contains(before) {
                continue;
            }
            assert!(
                has_losses,
                "{case}: {state:?} is gone, and nothing says so: {repaired:?} {now:#?}"
            );
            let Some(found) = now.get(state) else { continue };
            for (file, (before, found)) in FILES.iter().zip(before.iter().zip(found)) {
                let is_wrong =
                    matches!((before, found), (Ok(Some(before)), Ok(Some(found))) if before != found);
                assert!(
                    !is_wrong || *file == "/journaled",
                    "{case}: {file} of {state:?} has wrong bytes"
                );
            }
        }
        if has_losses {
            Outcome::Named
        } else {
            Outcome::Repaired
        }
    }

    /// Asserts that a collection removes nothing readable.
    fn collect(&self, home: &Path, case: &str) {
        let before = self.read(home);
        let store = Store::open(home).unwrap();
        match store.collect_garbage(&mut |_| true) {
            Ok(_) => {}
            Err(Error::Storage(StorageError::AfterRepair)) => {
                store.integrity().accept_repair().unwrap();
                store
                    .collect_garbage(&mut |_| true)
                    .map(drop)
                    .or_else(damage_alone)
                    .unwrap();
            }
            Err(error) => damage_alone(error).unwrap_or_else(|error| panic!("{case}: {error}")),
        }
        drop(store);
        assert_eq!(
            self.read(home),
            before,
            "{case}: a collection took something away"
        );
    }
}

/// Accepts only errors about damage: a collection refuses to run on it.
fn damage_alone(error: Error) -> Result<(), Error> {
    if error.kind() == ErrorKind::Corrupt {
        Ok(())
    } else {
        Err(error)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Harmless,
    Repaired,
    Named,
}

/// Leaves changes that a dead owner has synced and not stored.
fn leave_journal(vault: &Vault, bytes: &[u8]) {
    let open = vault.open().unwrap();
    open.write_bytes(&path("/journaled"), bytes).unwrap();
    open.sync().unwrap();
}

fn fold(home: &Path) {
    let database = rusqlite::Connection::open(home.join("store.db")).unwrap();
    database
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&place).unwrap();
            copy(&entry.path(), &place);
        } else if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), &place).unwrap();
        }
    }
}

fn problems(home: &Path, case: &str) -> Vec<String> {
    let store = match Store::open(home) {
        Ok(store) => store,
        Err(error) if error.kind() == ErrorKind::Corrupt => return vec![error.to_string()],
        Err(error) => panic!("{case}: {error}"),
    };
    let report = store
        .integrity()
        .check(&mut |_, _| {})
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    let affected = report.affected.iter().map(|affected| affected.path.to_string());
    report.problems.iter().cloned().chain(affected).collect()
}

/// Every state of every vault by vault and name. The present one is named `@`.
fn contents(store: &Store) -> BTreeMap<(String, String), Contents> {
    let mut all = BTreeMap::new();
    for vault in store.vault_names().unwrap() {
        let handle = store.vault(&vault).unwrap();
        let mut states = vec![("@".to_owned(), handle.head().ok())];
        for entry in handle.history().entries(None, 100).unwrap() {
            states.push((format!("{:03}", entry.seq), Some(entry.snapshot)));
        }
        for point in handle.checkpoints().unwrap() {
            states.push((point.name.to_string(), Some(point.snapshot)));
        }
        for (state, snapshot) in states {
            let contents = FILES.iter().map(|file| read(&handle, snapshot, file)).collect();
            all.insert((vault.clone(), state), contents);
        }
    }
    all
}

fn read(
    vault: &Vault,
    snapshot: Option<agentvfs::SnapshotId>,
    file: &str,
) -> Result<Option<Vec<u8>>, String> {
    let snapshot = snapshot.ok_or("the present state cannot be read")?;
    let reader = vault.reader_at(snapshot).map_err(|_| "no such state")?;
    match reader.read(&path(file)) {
        Ok(bytes) => Ok(Some(bytes.to_vec())),
        Err(agentvfs::ReadError::NotFound { .. }) => Ok(None),
        Err(_) => Err("not readable".to_owned()),
    }
}

fn every_file_in_every_way(folded: bool) {
    let sample = Sample::new(folded);
    let mut outcomes: BTreeMap<Outcome, Vec<String>> = BTreeMap::new();
    for file in sample.files() {
        for damage in DAMAGES {
            if let Some(outcome) = sample.run(&file, damage) {
                outcomes
                    .entry(outcome)
                    .or_default()
                    .push(format!("{} {damage:?}", file.display()));
            }
        }
    }
    for outcome in [Outcome::Harmless, Outcome::Repaired, Outcome::Named] {
        let cases = outcomes.get(&outcome).map_or(0, Vec::len);
        assert!(cases > 5, "{outcome:?}: {outcomes:#?}");
    }
    // Only packs and journals have no second copy.
    for case in &outcomes[&Outcome::Named] {
        assert!(
            case.contains(".pack ") || case.contains("journal."),
            "{case} cost something"
        );
    }
}

#[test]
fn damage_to_any_file_is_harmless_repaired_or_named() {
    every_file_in_every_way(false);
}

#[test]
fn damage_to_any_file_is_harmless_repaired_or_named_with_everything_in_the_database() {
    every_file_in_every_way(true);
}

#[test]
fn database_that_was_cut_at_any_page_is_repaired() {
    let sample = Sample::with_long_records();
    let database = Path::new("store.db");
    let pages = fs::read(sample.whole.path().join(database)).unwrap().len() / 4096;
    assert!(pages > 10, "{pages}");
    let outcomes: Vec<_> = (0..pages)
        .map(|page| sample.run(database, Damage::Pages(page)))
        .collect();
    // The last pages are in the log, too.
    assert!(!outcomes.contains(&Some(Outcome::Named)), "{outcomes:?}");
    assert_eq!(outcomes[..pages / 2], vec![Some(Outcome::Repaired); pages / 2]);
}
