//! Storage mounts: nothing changes here that the storage refuses, and nothing there that does not change here.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use avfs_vfs::{
    FileSystemAdapter, MemoryStorageAdapter, StorageAdapter, StorageFault, StoredFile, Vfs, VfsError,
};

/// Refuses to write paths that contain a word.
struct Refusing {
    inner: MemoryStorageAdapter,
    word: Mutex<String>,
}

impl StorageAdapter for Refusing {
    fn list(&self) -> Result<Vec<(String, u64)>, StorageFault> {
        self.inner.list()
    }

    fn read(&self, path: &str) -> Result<StoredFile, StorageFault> {
        self.inner.read(path)
    }

    fn write(&self, path: &str, data: &[u8], version: u64) -> Result<(), StorageFault> {
        if path.contains(&*self.word.lock().unwrap()) {
            return Err(StorageFault::Failed("the disk is full".into()));
        }
        self.inner.write(path, data, version)
    }

    fn delete(&self, path: &str) -> Result<(), StorageFault> {
        self.inner.delete(path)
    }
}

fn memory(files: &[(&str, &str)]) -> Arc<MemoryStorageAdapter> {
    let files = files
        .iter()
        .map(|(path, data)| ((*path).to_owned(), data.as_bytes().to_vec()));
    Arc::new(MemoryStorageAdapter::new(files))
}

fn stored(adapter: &dyn StorageAdapter) -> BTreeMap<String, (String, u64)> {
    let file = |(path, _): (String, u64)| {
        let file = adapter.read(&path).unwrap();
        (path, (String::from_utf8(file.data).unwrap(), file.version))
    };
    adapter.list().unwrap().into_iter().map(file).collect()
}

/// The files below a mount are the files of the storage, byte for byte.
fn check_same(vfs: &Vfs, adapter: &dyn StorageAdapter) {
    let below = |path: &str| path.strip_prefix("/data/").map(str::to_owned);
    let here: BTreeMap<String, (String, u64)> = vfs
        .walk("/data")
        .unwrap()
        .iter()
        .filter(|(_, entry)| entry.kind == avfs_vfs::Kind::File)
        .map(|(path, entry)| {
            let content = vfs.read_file(format!("{path}")).unwrap().to_vec();
            (
                below(&path.to_string()).unwrap(),
                (String::from_utf8(content).unwrap(), entry.version),
            )
        })
        .collect();
    assert_eq!(here, stored(adapter));
}

#[test]
fn a_mount_shows_what_is_stored_and_stores_every_way_of_change() {
    let adapter = memory(&[("a", "1"), ("d/b", "2")]);
    let vfs = Vfs::new();
    vfs.mount_storage("/data", adapter.clone()).unwrap();
    check_same(&vfs, &*adapter);
    let before = vfs.snapshot().unwrap();
    vfs.write_file("/data/a", "1b", Some(1)).unwrap();
    vfs.append_file("/data/a", "c", None).unwrap();
    check_same(&vfs, &*adapter);
    vfs.write_file("/outside", "o", None).unwrap();
    vfs.move_to("/outside", "/data", false).unwrap();
    vfs.rename("/data/d", "/data/e").unwrap();
    vfs.copy("/data/e", "/data/f", false).unwrap();
    check_same(&vfs, &*adapter);
    vfs.rename("/data/a", "/data/outside").unwrap();
    vfs.rename("/data/e/b", "/gone").unwrap();
    vfs.remove("/data/f", true).unwrap();
    check_same(&vfs, &*adapter);
    vfs.restore(&before).unwrap();
    check_same(&vfs, &*adapter);
    assert_eq!(stored(&*adapter).keys().collect::<Vec<_>>(), ["a", "d/b"]);
    let fork = vfs.fork().unwrap();
    fork.write_file("/data/a", "of the fork", None).unwrap();
    check_same(&vfs, &*adapter);
}

#[test]
fn a_conflict_changes_nothing_on_either_side() {
    let adapter = memory(&[("a", "1"), ("b", "2")]);
    let vfs = Vfs::new();
    vfs.mount_storage("/data", adapter.clone()).unwrap();
    adapter.write("b", b"theirs", 2).unwrap();
    let (before, outside) = (vfs.snapshot().unwrap(), stored(&*adapter));
    vfs.write_file("/new/a", "x", None).unwrap();
    vfs.write_file("/new/b", "y", None).unwrap();
    let before_files = vfs.snapshot().unwrap();
    assert!(matches!(
        vfs.write_file("/data/b", "mine", None),
        Err(VfsError::StorageConflict { .. })
    ));
    assert!(matches!(
        vfs.append_file("/data/b", "mine", None),
        Err(VfsError::StorageConflict { .. })
    ));
    assert!(matches!(
        vfs.rename("/new/b", "/data/b"),
        Err(VfsError::StorageConflict { .. })
    ));
    assert!(vfs.changes(&before_files).unwrap().is_empty());
    assert_eq!(stored(&*adapter), outside);
    let events = vfs.sync_storage("/data").unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(&vfs.read_file("/data/b").unwrap()[..], b"theirs");
    vfs.write_file("/data/b", "mine", None).unwrap();
    assert_eq!(vfs.changes(&before).unwrap().len(), 4);
    check_same(&vfs, &*adapter);
}

#[test]
fn a_failure_in_the_middle_of_a_change_undoes_what_was_stored_of_it() {
    let word = Mutex::new("never".to_owned());
    let adapter = Arc::new(Refusing {
        inner: MemoryStorageAdapter::new([]),
        word,
    });
    let vfs = Vfs::new();
    vfs.mount_storage("/data", adapter.clone()).unwrap();
    for path in ["/data/d/1", "/data/d/2", "/data/d/3", "/data/keep"] {
        vfs.write_file(path, path, None).unwrap();
    }
    let before = vfs.snapshot().unwrap();
    vfs.remove("/data/d/1", false).unwrap();
    vfs.write_file("/data/keep", "new", None).unwrap();
    let (now, outside) = (vfs.snapshot().unwrap(), stored(&*adapter));
    for refused in ["moved/3", "copied/2"] {
        refused.clone_into(&mut adapter.word.lock().unwrap());
        let outcome = if refused.starts_with("moved") {
            vfs.rename("/data/d", "/data/moved")
        } else {
            vfs.copy("/data/d", "/data/copied", false).map(drop)
        };
        assert!(matches!(outcome, Err(VfsError::Storage { .. })));
        assert!(vfs.changes(&now).unwrap().is_empty());
        assert_eq!(stored(&*adapter), outside);
    }
    "keep".clone_into(&mut adapter.word.lock().unwrap());
    assert!(vfs.restore(&before).is_err());
    assert!(vfs.changes(&now).unwrap().is_empty());
    "never".clone_into(&mut adapter.word.lock().unwrap());
    vfs.restore(&before).unwrap();
    check_same(&vfs, &*adapter);
}

#[test]
fn sync_applies_what_others_stored_and_deleted() {
    let adapter = memory(&[("a", "1"), ("b", "2")]);
    let vfs = Vfs::new();
    vfs.mount_storage("/data", adapter.clone()).unwrap();
    adapter.delete("a").unwrap();
    adapter.write("d/c", b"3", 1).unwrap();
    let events = vfs.sync_storage("/data").unwrap();
    let seen: Vec<_> = events
        .iter()
        .map(|event| (event.event.as_str(), event.path.to_string()))
        .collect();
    assert_eq!(
        seen,
        [("create", "/data/d/c".into()), ("delete", "/data/a".into())]
    );
    assert!(vfs.sync_storage("/data").unwrap().is_empty());
    check_same(&vfs, &*adapter);
    assert_eq!(vfs.sync_storage("/").unwrap_err().code(), "invalid");
}

#[test]
fn a_mount_stays_where_it_is_and_keeps_files_only() {
    let adapter = memory(&[("a", "1")]);
    let vfs = Vfs::new();
    vfs.write_file("/full/x", "", None).unwrap();
    assert_eq!(
        vfs.mount_storage("/full", adapter.clone()).unwrap_err().code(),
        "not-empty"
    );
    vfs.mount_storage("/up/data", adapter.clone()).unwrap();
    for outcome in [
        vfs.remove("/up", true),
        vfs.remove("/up/data", true),
        vfs.rename("/up", "/x"),
        vfs.mount_storage("/up/data/d", adapter.clone()),
        vfs.mount_storage("/up", adapter.clone()),
    ] {
        assert_eq!(outcome.unwrap_err().code(), "mounted");
    }
    assert_eq!(vfs.symlink("a", "/up/data/l").unwrap_err().code(), "files-only");
    vfs.symlink("a", "/l").unwrap();
    assert_eq!(vfs.rename("/l", "/up/data/l").unwrap_err().code(), "files-only");
    assert_eq!(stored(&*adapter).len(), 1);
    assert!(vfs.unmount_storage("/up/data").unwrap());
    assert!(!vfs.unmount_storage("/up/data").unwrap());
    vfs.remove("/up", true).unwrap();
    assert_eq!(stored(&*adapter).len(), 1);
}

#[test]
fn a_restore_leaves_alone_what_was_mounted_later() {
    let adapter = memory(&[("a", "1")]);
    let vfs = Vfs::new();
    vfs.mkdir("/data", false, false).unwrap();
    let before = vfs.snapshot().unwrap();
    vfs.mount_storage("/data", adapter.clone()).unwrap();
    vfs.write_file("/x", "", None).unwrap();
    vfs.restore(&before).unwrap();
    assert!(!vfs.exists("/x").unwrap());
    check_same(&vfs, &*adapter);
    assert_eq!(stored(&*adapter).len(), 1);
}

#[test]
fn paths_that_a_storage_makes_up_are_refused() {
    for path in ["../etc/passwd", "", "a/../../b", "nul\0"] {
        let vfs = Vfs::new();
        let outcome = vfs.mount_storage("/data", memory(&[(path, "x")]));
        assert!(outcome.is_err(), "{path:?}");
        assert!(!vfs.exists("/data").unwrap());
    }
}

#[test]
fn a_directory_of_the_host_is_a_storage() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    std::fs::create_dir(at("d")).unwrap();
    std::fs::write(at("a"), "1").unwrap();
    std::fs::write(at("d/b"), "2").unwrap();
    let adapter = Arc::new(FileSystemAdapter::new(home.path()).unwrap());
    let vfs = Vfs::new();
    vfs.mount_storage("/data", adapter.clone()).unwrap();
    check_same(&vfs, &*adapter);
    vfs.write_file("/data/new/deep/c", "3", None).unwrap();
    vfs.append_file("/data/a", "+", None).unwrap();
    vfs.remove("/data/d/b", false).unwrap();
    assert_eq!(std::fs::read_to_string(at("new/deep/c")).unwrap(), "3");
    assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "1+");
    assert!(!at("d/b").exists());
    check_same(&vfs, &*adapter);
    std::fs::write(at("a"), "theirs").unwrap();
    assert!(matches!(
        vfs.write_file("/data/a", "mine", None),
        Err(VfsError::StorageConflict { .. })
    ));
    assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "theirs");
    vfs.sync_storage("/data").unwrap();
    vfs.write_file("/data/a", "mine", None).unwrap();
    assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 3);
}

#[test]
fn a_directory_of_the_host_has_no_way_out() {
    let home = tempfile::tempdir().unwrap();
    let secret = home.path().join("secret");
    std::fs::write(&secret, "s").unwrap();
    let inside = home.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::os::unix::fs::symlink("../secret", inside.join("file")).unwrap();
    std::os::unix::fs::symlink("..", inside.join("up")).unwrap();
    let adapter = FileSystemAdapter::new(&inside).unwrap();
    assert!(adapter.list().unwrap().is_empty());
    for path in ["file", "up/secret", "../secret", "/secret", "up/new", ""] {
        assert!(adapter.read(path).is_err(), "{path}");
        assert!(
            adapter.write(path, b"x", 9).is_err() || !path.contains("secret"),
            "{path}"
        );
    }
    let _ = adapter.delete("up/secret");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "s");
    assert!(!home.path().join("new").exists());
}
