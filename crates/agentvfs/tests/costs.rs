//! The costs of operations, counted in objects and refs: they depend on the changes, not on the contents of a
//! vault.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use agentvfs::{CheckpointName, MergeOptions, Store, StoreOptions, Vault, VaultLimits, VaultName};
use avfs_store::MemoryStore;
use avfs_testkit::{CountingStore, Counts};
use support::path;

type Doors = CountingStore<MemoryStore>;

fn file(index: usize) -> String {
    format!("d{:02}/e{:02}/f{index}", index / 1_000, index / 50 % 20)
}

fn source(dir: &Path, files: usize) {
    for index in 0..files {
        let at = dir.join(file(index));
        if index % 50 == 0 {
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        }
        std::fs::write(at, format!("file {index}")).unwrap();
    }
}

/// Opens the store again with the same backend: nothing is cached.
fn cold(doors: &Arc<Doors>) -> Vault {
    Store::behind(doors.clone(), StoreOptions::default())
        .vault("main")
        .unwrap()
}

/// Ten files, from the `first` on.
fn write(vault: &Vault, files: usize, first: usize) {
    let open = vault.begin().unwrap();
    for index in (first..files).step_by(files / 10) {
        open.write_bytes(&path(&file(index)), b"changed").unwrap();
    }
    open.commit("write", "ten files").unwrap();
}

/// The counts of each operation on a vault with this many files, in a process without any cache.
fn costs(files: usize) -> Vec<(&'static str, Counts)> {
    let dir = tempfile::tempdir().unwrap();
    source(dir.path(), files);
    let doors = Arc::new(Doors::default());
    let name = |text: &str| VaultName::new(text).unwrap();
    let store = Store::behind(doors.clone(), StoreOptions::default());
    store
        .create_vault_from(&name("main"), dir.path(), VaultLimits::default(), &())
        .unwrap();
    let side = cold(&doors).fork(&[name("side")]).unwrap().remove(0);
    write(&side, files, 1);
    cold(&doors)
        .save_checkpoint(&CheckpointName::new("start").unwrap(), None)
        .unwrap();
    let mut counts = Vec::new();
    let mut count = |what, operation: &dyn Fn(Vault)| {
        let vault = cold(&doors);
        doors.take();
        operation(vault);
        counts.push((what, doors.take()));
    };
    count("fork", &|vault| drop(vault.fork(&[name("fork")]).unwrap()));
    count("delete a fork", &|vault| {
        vault.store().vault("fork").unwrap().delete(false).unwrap()
    });
    count("read a file", &|vault| {
        drop(vault.reader().unwrap().read(&path(&file(files - 1))).unwrap())
    });
    count("checkpoint, clean", &|vault| {
        assert_eq!(vault.begin().unwrap().commit("nothing", "").unwrap(), None);
    });
    count("checkpoint, ten changed files", &|vault| write(&vault, files, 0));
    count("diff", &|vault| {
        let changes = vault
            .revision("start")
            .unwrap()
            .diff(&vault.revision("@").unwrap())
            .unwrap();
        assert_eq!(changes.len(), 10);
    });
    count("restore", &|vault| {
        assert_eq!(
            vault
                .restore(&vault.revision("start").unwrap(), "start")
                .unwrap()
                .changed,
            10
        );
    });
    count("undo", &|vault| drop(vault.undo().unwrap()));
    count("merge, ten changed files on each side", &|vault| {
        let report = vault
            .merge(&[&vault.store().vault("side").unwrap()], &MergeOptions::default())
            .unwrap();
        assert_eq!((report.sources[0].changed, report.conflicts.len()), (10, 0));
    });
    count("merge, nothing to do", &|vault| {
        let report = vault
            .merge(&[&vault.store().vault("side").unwrap()], &MergeOptions::default())
            .unwrap();
        assert_eq!(report.saved, None);
    });
    count("remove a directory", &|vault| {
        let open = vault.begin().unwrap();
        open.remove(&path("d00"), true).unwrap();
        open.commit("rm", "d00").unwrap();
    });
    counts
}

#[test]
fn operations_cost_what_changed_and_not_what_is_there() {
    let (small, large) = (costs(1_000), costs(20_000));
    for ((what, small), (_, large)) in small.iter().zip(&large) {
        // A larger vault has deeper trees, and its ten files are in ten directories.
        let limit = |small: u64| 2 * small + 40;
        let within = large.objects_read <= limit(small.objects_read)
            && large.objects_written <= limit(small.objects_written)
            && large.refs_touched <= small.refs_touched + 2;
        assert!(
            within,
            "{what}: {small:?} with 1,000 files, {large:?} with 20,000"
        );
    }
}

#[test]
fn a_fork_of_a_clean_vault_writes_no_object() {
    for (what, counts) in costs(1_000) {
        if matches!(
            what,
            "fork" | "delete a fork" | "read a file" | "checkpoint, clean" | "diff" | "merge, nothing to do"
        ) {
            assert_eq!(counts.objects_written, 0, "{what}");
        }
    }
}
