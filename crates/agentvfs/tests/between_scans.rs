//! The view of one process while others work between two of its steps: the effects must not look like damage.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentvfs::error::FileError;
use agentvfs::{CheckpointName, Error, ErrorKind, RetentionPolicy, Store, StoreOptions, Vault, VaultLimits};
use avfs_core::ObjectId;
use avfs_store::{
    CommitError, EmbeddedStore, NewObject, ObjectStore, OpenOptions, Pin, RefEdit, RefKey, RefRange,
    RefStore, StoreError, StoredObject,
};
use support::{name, path, write};

type Deed = Box<dyn FnOnce() + Send>;

/// A store in which others do something once, before one of the times at which refs are read.
struct Busy {
    inner: Arc<EmbeddedStore>,
    /// How many times are left until then.
    left: AtomicUsize,
    deed: Mutex<Option<Deed>>,
}

impl Busy {
    fn step(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let deed = self.deed.lock().unwrap().take();
            deed.into_iter().for_each(|deed| deed());
        }
    }
}

impl ObjectStore for Busy {
    fn get_many(&self, ids: &[ObjectId]) -> Result<Vec<StoredObject>, StoreError> {
        self.inner.get_many(ids)
    }

    fn put_many(&self, objects: &[NewObject<'_>]) -> Result<(), StoreError> {
        self.inner.put_many(objects)
    }

    fn contains_many(&self, ids: &[ObjectId]) -> Result<Vec<bool>, StoreError> {
        self.inner.contains_many(ids)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn pin(&self) -> Result<Pin, StoreError> {
        self.inner.pin()
    }
}

impl RefStore for Busy {
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.step();
        RefStore::read(&*self.inner, key)
    }

    fn scan_many(&self, ranges: &[RefRange]) -> Result<Vec<Vec<(RefKey, Vec<u8>)>>, StoreError> {
        self.step();
        self.inner.scan_many(ranges)
    }

    fn commit(&self, edits: &[RefEdit]) -> Result<(), CommitError> {
        self.inner.commit(edits)
    }
}

/// Work on two vaults, `main` and `other`, by one process or by another one meanwhile. A process that is
/// blocked by the other fails as busy.
type Work = fn(&Store) -> Result<(), Error>;

fn fork_and_delete(store: &Store) -> Result<(), Error> {
    store.vault("main")?.fork(&[name("fork")])?;
    store.vault("main")?.delete(true)
}

fn replace(store: &Store) -> Result<(), Error> {
    store.vault("other")?.delete(true)?;
    try_write(&store.create_vault(&name("new"))?, "new")
}

fn delete_and_collect(store: &Store) -> Result<(), Error> {
    store.vault("other")?.delete(true)?;
    collect_at_once(store)
}

/// Fails while another one collects; a collection itself is patient.
fn collect_at_once(store: &Store) -> Result<(), Error> {
    drop(store.objects().store().pin()?);
    collect(store)
}

/// Reads promised entries of a source, which stores them.
fn look(store: &Store) -> Result<(), Error> {
    let vault = store.vault("promised")?;
    let text = vault.reader()?.read(&path("/deep/data"));
    match text.map_err(|source| {
        Error::File(FileError::Read {
            vault: "promised".into(),
            source,
        })
    }) {
        Ok(text) => assert_eq!(text, "of the source"),
        // A collection prevents others from storing.
        Err(error) if error.kind() == ErrorKind::Busy => return Err(error),
        Err(error) => panic!("{error}"),
    }
    store.objects().commit_kept()?;
    Ok(())
}

fn change(store: &Store) -> Result<(), Error> {
    try_write(&store.vault("main")?, "another")?;
    store.vault("other")?.rename(&name("renamed"))
}

fn check(store: &Store) -> Result<(), Error> {
    let report = store.integrity().check(&mut |_, _| {})?;
    assert!(report.is_sound(), "{report:?}");
    Ok(())
}

fn count(store: &Store) -> Result<(), Error> {
    let stats = store.maintenance().stats()?;
    assert!(
        stats
            .vaults
            .iter()
            .all(|vault| vault.unique_bytes + vault.shared_bytes > 0),
        "{stats:?}"
    );
    Ok(())
}

fn prune(store: &Store) -> Result<(), Error> {
    store.prune(&RetentionPolicy::default(), false).map(|_| ())
}

fn collect(store: &Store) -> Result<(), Error> {
    assert!(store.collect_garbage(&mut |_| true)?.sweep.finished);
    Ok(())
}

fn list(store: &Store) -> Result<(), Error> {
    let list = store.vaults()?;
    assert!(list.unreadable.is_empty(), "{:?}", list.unreadable);
    Ok(())
}

fn try_write(vault: &Vault, text: &str) -> Result<(), Error> {
    let open = vault.begin()?;
    open.write_bytes(&path("/file"), text.as_bytes())?;
    open.commit("write", "/file")?;
    Ok(())
}

/// A store with two vaults that have objects of their own, replaced states and checkpoints, and one of a
/// directory that has not been read yet.
fn fill(home: &Path, source: &Path) {
    let store = Store::open(home).unwrap();
    std::fs::create_dir(source.join("deep")).unwrap();
    std::fs::write(source.join("deep/data"), "of the source").unwrap();
    let source = store.projects().source_for(source).unwrap();
    store
        .projects()
        .create_vault_on(&name("promised"), source, VaultLimits::default())
        .unwrap();
    for vault in ["main", "other"] {
        let vault = store.create_vault(&name(vault)).unwrap();
        for text in ["one", "two", "three"] {
            write(
                &vault,
                "/file",
                format!("{text} of {}", vault.name().unwrap()).as_bytes(),
            );
        }
        vault
            .save_checkpoint(&CheckpointName::new("kept").unwrap(), None)
            .unwrap();
        write(&vault, "/file", b"four");
    }
}

fn impatient() -> StoreOptions {
    let store = OpenOptions {
        busy_timeout: Duration::from_millis(20),
        ..OpenOptions::default()
    };
    StoreOptions {
        store,
        patience: Duration::ZERO,
        ..StoreOptions::default()
    }
}

/// Runs `work` while `others` runs before refs are read for the time `step`; returns whether that point was
/// reached.
fn work_while(template: &Path, work: Work, others: Work, step: usize) -> bool {
    let home = tempfile::tempdir().unwrap();
    copy(template, home.path());
    let place = home.path().to_owned();
    let deed: Deed = Box::new(
        move || match others(&Store::open_with(&place, impatient()).unwrap()) {
            Err(error) if error.kind() != ErrorKind::Busy => panic!("others: {error}"),
            _ => {}
        },
    );
    let mut doors = None;
    let store = Store::open_behind(home.path(), StoreOptions::default(), |inner| {
        let busy = Arc::new(Busy {
            inner,
            left: AtomicUsize::new(step),
            deed: Mutex::new(Some(deed)),
        });
        doors = Some(busy.clone());
        busy
    });
    work(&store.unwrap()).unwrap();
    let others_did = doors.unwrap().deed.lock().unwrap().is_none();
    // Nothing that is needed was taken away.
    let store = Store::open(home.path()).unwrap();
    check(&store).unwrap();
    look(&store).unwrap();
    for vault in store.vaults().unwrap().vaults {
        assert!(
            !store
                .vault(vault.name.as_str())
                .unwrap()
                .history()
                .entries(None, 1)
                .unwrap()
                .is_empty(),
            "{vault:?}"
        );
    }
    others_did
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&place).unwrap();
            copy(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// Does `work` beside everything that others do, at every step of it.
#[track_caller]
fn assert_undisturbed(work: Work) {
    let template = tempfile::tempdir().unwrap();
    let source = tempfile::tempdir().unwrap();
    fill(template.path(), source.path());
    let others: [(&str, Work); 6] = [
        ("looked at a promise", look),
        ("forked and deleted a vault", fork_and_delete),
        ("replaced a vault", replace),
        ("deleted a vault and collected", delete_and_collect),
        ("changed vaults", change),
        ("collected", collect_at_once),
    ];
    for (what, others) in others {
        for step in 1.. {
            let worked = std::panic::catch_unwind(|| work_while(template.path(), work, others, step));
            match worked {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => panic!("at step {step}, others {what}"),
            }
        }
    }
}

#[test]
fn check_beside_others_finds_no_damage() {
    assert_undisturbed(check);
}

#[test]
fn stats_beside_others_misses_no_object() {
    assert_undisturbed(count);
}

#[test]
fn prune_beside_others_misses_no_object() {
    assert_undisturbed(prune);
}

#[test]
fn list_beside_others_has_no_unreadable_vault() {
    assert_undisturbed(list);
}

#[test]
fn collection_beside_others_misses_no_object_and_takes_none_that_is_needed() {
    assert_undisturbed(collect);
}

/// The same as the tests above, but at random: each worker has a store of its own, as a process has.
#[test]
fn upkeep_beside_busy_workers_finds_no_damage() {
    let home = tempfile::tempdir().unwrap();
    let source = tempfile::tempdir().unwrap();
    fill(home.path(), source.path());
    let work = &|worker: usize| {
        for round in 0..25 {
            let store = Store::open(home.path()).unwrap();
            let fork = name(&format!("fork-{worker}"));
            let fork = store.vault("main").unwrap().fork(&[fork]).unwrap().remove(0);
            write(&fork, "/file", format!("{round} of {worker}"));
            write(
                &store.vault("other").unwrap(),
                &format!("/{worker}"),
                format!("{round} of {worker}"),
            );
            fork.delete(true).unwrap();
        }
    };
    let look_after = |works: &[Work]| {
        for _ in 0..25 {
            works
                .iter()
                .for_each(|work| work(&Store::open(home.path()).unwrap()).unwrap());
        }
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|worker| _ = scope.spawn(move || work(worker)));
        scope.spawn(|| look_after(&[check, count, prune]));
        scope.spawn(|| look_after(&[collect]));
    });
    check(&Store::open(home.path()).unwrap()).unwrap();
}
