//! Journals that cannot be replayed: the damage is reported, stored states stay readable, and a repair keeps
//! the intact part.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use agentvfs::{Repaired, Store, StoreOptions};
use support::{name, path, read, write};
use tempfile::TempDir;

/// A store with a vault whose owner died after it had synced `/first` and then `/second`.
struct Left {
    home: TempDir,
    /// The length of the journal after the first sync.
    first: u64,
}

impl Left {
    fn new() -> Left {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let vault = store.create_vault(&name("main")).unwrap();
        write(&vault, "/stored", "one");
        write(&vault, "/stored", "two");
        let open = vault.open().unwrap();
        open.write_bytes(&path("/first"), b"1").unwrap();
        open.sync().unwrap();
        let first = fs::metadata(journal(home.path())).unwrap().len();
        open.write_bytes(&path("/second"), b"2").unwrap();
        open.sync().unwrap();
        Left { home, first }
    }

    fn store(&self) -> Store {
        Store::open(self.home.path()).unwrap()
    }

    fn journal(&self) -> PathBuf {
        journal(self.home.path())
    }

    fn problems(&self) -> Vec<String> {
        self.store().integrity().check(&mut |_, _| {}).unwrap().problems
    }

    fn repair(&self) -> Repaired {
        Store::repair_at(self.home.path(), &StoreOptions::default()).unwrap()
    }

    /// The paths that are in the vault now.
    fn present(&self) -> Vec<&'static str> {
        let vault = self.store().vault("main").unwrap();
        ["/stored", "/first", "/second"]
            .into_iter()
            .filter(|path| read(&vault, path).is_ok())
            .collect()
    }
}

fn journal(home: &Path) -> PathBuf {
    home.join("work/0000000001/journal.1")
}

fn flip(place: &Path, at: u64) {
    let mut bytes = fs::read(place).unwrap();
    bytes[at as usize] ^= 8;
    fs::write(place, bytes).unwrap();
}

fn cut(place: &Path, length: u64) {
    fs::File::options()
        .write(true)
        .open(place)
        .unwrap()
        .set_len(length)
        .unwrap();
}

#[test]
fn a_damaged_journal_is_named_and_what_is_whole_of_it_stays() {
    type Harm = fn(&Left);
    let cases: [(&str, Harm, &[&str], bool); 9] = [
        (
            "is damaged at byte 16",
            |left| flip(&left.journal(), 20),
            &["/stored"],
            true,
        ),
        (
            "is damaged at byte",
            |left| flip(&left.journal(), left.first + 30),
            &["/stored", "/first"],
            true,
        ),
        (
            "is damaged at byte 0",
            |left| flip(&left.journal(), 2),
            &["/stored", "/first", "/second"],
            false,
        ),
        (
            "is damaged at byte 0",
            |left| flip(&left.journal(), 10),
            &["/stored", "/first", "/second"],
            false,
        ),
        (
            "is damaged at byte",
            |left| cut(&left.journal(), left.first + 3),
            &["/stored", "/first"],
            true,
        ),
        (
            "is damaged at byte 0",
            |left| cut(&left.journal(), 0),
            &["/stored"],
            true,
        ),
        (
            "is missing",
            |left| fs::remove_file(left.journal()).unwrap(),
            &["/stored"],
            true,
        ),
        (
            "another version",
            |left| of_another_version(&left.journal()),
            &["/stored"],
            true,
        ),
        (
            "is not the one",
            |left| of_another_journal(&left.journal()),
            &["/stored"],
            true,
        ),
    ];
    for (number, (problem, harm, stays, is_lost)) in cases.into_iter().enumerate() {
        let left = Left::new();
        harm(&left);
        let before = fs::read(left.journal()).ok();
        let problems = left.problems();
        assert!(
            matches!(&problems[..], [only] if only.contains(problem)),
            "{number}: {problems:?}"
        );
        assert_eq!(
            fs::read(left.journal()).ok(),
            before,
            "{number}: a check changes nothing"
        );

        let vault = left.store().vault("main").unwrap();
        assert_eq!(vault.head().unwrap_err().code(), "damaged-journal", "{number}");
        assert_eq!(vault.info().unwrap().snapshots, 3, "{number}");
        let earlier = vault.revision("@~1").unwrap();
        assert_eq!(
            &earlier.reader().unwrap().read(&path("/stored")).unwrap()[..],
            b"one",
            "{number}"
        );

        let repaired = left.repair();
        assert_eq!(repaired.has_losses(), is_lost, "{number}: {repaired:?}");
        let kept = repaired.journals[0]
            .kept
            .as_ref()
            .map(|kept| fs::read(kept).unwrap());
        assert_eq!(kept, before.filter(|_| is_lost), "{number}: it is kept unchanged");
        assert_eq!(left.present(), stays, "{number}");
        assert_eq!(left.problems(), [""; 0], "{number}");
    }
}

/// A journal as a version with another format would have left it, without a note.
fn of_another_version(journal: &Path) {
    let mut bytes = fs::read(journal).unwrap();
    bytes[7] = b'9';
    fs::write(journal, bytes).unwrap();
    fs::remove_file(journal.with_extension("1.note")).unwrap();
}

fn of_another_journal(place: &Path) {
    let other = Left::new();
    fs::copy(journal(other.home.path()), place).unwrap();
}

#[test]
fn a_journal_is_not_replayed_on_a_state_that_it_was_not_made_on() {
    let left = Left::new();
    // The head is older, as after a repair that lost the last commit.
    let earlier = left
        .store()
        .vault("main")
        .unwrap()
        .history()
        .entries(None, 2)
        .unwrap()[1]
        .snapshot;
    go_back(left.home.path(), &earlier.to_string());

    let problems = left.problems();
    assert!(
        problems
            .iter()
            .any(|problem| problem.contains("a state that the vault does not have")),
        "{problems:?}"
    );
    let error = left.store().vault("main").unwrap().head().unwrap_err();
    assert!(
        error.to_string().contains("a state that the vault does not have"),
        "{error}"
    );
    let repaired = left.repair();
    assert!(repaired.has_losses() && repaired.journals[0].kept.is_some());
    assert_eq!(left.present(), ["/stored"]);
}

/// Makes another snapshot the head of the vault, directly in the store.
fn go_back(home: &Path, snapshot: &str) {
    use avfs_store::{EmbeddedStore, OpenOptions, RefEdit, RefStore};
    let store = EmbeddedStore::open(home, OpenOptions::default()).unwrap();
    let key = "vault/0000000001";
    let value = store.read(key).unwrap().unwrap();
    let text = String::from_utf8(value.clone()).unwrap();
    let head = text.split("\"snapshot\":\"").nth(1).unwrap()[..64].to_owned();
    store
        .commit(&[RefEdit::replace(key, value, text.replacen(&head, snapshot, 1))])
        .unwrap();
}

#[test]
fn a_journal_of_which_nothing_was_synced_is_no_damage() {
    let left = Left::new();
    fs::remove_file(left.journal().with_extension("1.note")).unwrap();
    cut(&left.journal(), left.first);
    assert_eq!(
        (left.problems(), left.present()),
        (vec![], vec!["/stored", "/first"])
    );
}
