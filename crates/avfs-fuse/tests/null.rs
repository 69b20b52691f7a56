//! The transport over `/dev/fuse`, mounting and unmounting, with a file system of nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use avfs_fuse::abi::Opcode;
use avfs_fuse::mounting::{MountError, MountOptions, Unmount, is_dead, mount, mounts, unmount};
use avfs_fuse::null::{ENTRIES, FILE_SIZE, NullFilesystem};
use avfs_fuse::transport::device::{DeviceOptions, Serving};
use avfs_fuse::{Errno, Session, Settings};

struct Null {
    directory: tempfile::TempDir,
    serving: Option<Serving>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Null {
    fn mount() -> Null {
        let directory = tempfile::tempdir().unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = log.clone();
        let settings = Settings {
            log: Arc::new(move |line| lines.lock().unwrap().push(line.to_owned())),
            ..Settings::default()
        };
        let connection = mount(directory.path(), &MountOptions::new("a null, file system")).unwrap();
        let session = Session::new(Arc::new(NullFilesystem::default()), settings);
        let serving = Serving::start(Arc::new(session), connection, DeviceOptions::default()).unwrap();
        Null { directory, serving: Some(serving), log }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn session(&self) -> &Arc<Session> {
        self.serving.as_ref().unwrap().session()
    }

    /// Unmounts and waits; returns what was logged.
    fn end(mut self) -> Vec<String> {
        unmount(self.directory.path(), Unmount::IfUnused).unwrap();
        self.serving.take().unwrap().wait();
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

impl Drop for Null {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            let _ = unmount(self.directory.path(), Unmount::Detach);
            serving.stop();
        }
    }
}

#[test]
fn files_are_read_written_and_listed() {
    let null = Null::mount();
    let file = File::open(null.path().join("file")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), FILE_SIZE);
    let mut buffer = vec![1; 3 << 20];
    file.read_exact_at(&mut buffer, 12_345).unwrap();
    assert!(buffer.iter().all(|byte| *byte == 0));
    let mut new = File::create(null.path().join("new")).unwrap();
    new.write_all(&buffer).unwrap();
    assert_eq!(null.session().counters().requests(Opcode::Write), 3, "a request takes up to 1 MiB");
    let listed = std::fs::read_dir(null.path().join("directory")).unwrap();
    assert_eq!(listed.map(Result::unwrap).count() as u64, ENTRIES);
    let missing = std::fs::metadata(null.path().join("missing")).unwrap_err();
    assert_eq!(missing.raw_os_error(), Some(Errno::NOENT.raw_os_error()));
    drop((file, new));
    assert_eq!(null.end(), Vec::<String>::new());
}

#[test]
fn a_panic_is_one_failed_request() {
    let null = Null::mount();
    let failed = std::fs::metadata(null.path().join("panic")).unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert!(std::fs::metadata(null.path().join("file")).is_ok(), "the mount lives on");
    let log = null.end();
    assert!(matches!(&log[..], [line] if line.contains("Lookup") && line.contains("asked for")), "{log:?}");
}

#[test]
fn the_table_of_mounts_has_it_until_it_is_unmounted() {
    let mut null = Null::mount();
    let place = std::fs::canonicalize(null.directory.path()).unwrap();
    let ours = || mounts().unwrap().into_iter().find(|mounted| mounted.at == place);
    assert_eq!(ours().unwrap().source, "a null, file system");
    let held = File::open(null.path().join("file")).unwrap();
    assert!(matches!(unmount(&place, Unmount::IfUnused), Err(MountError::Busy { .. })));
    drop(held);
    unmount(&place, Unmount::IfUnused).unwrap();
    assert_eq!(ours(), None);
    null.serving.take().unwrap().wait();
    assert!(matches!(unmount(&place, Unmount::IfUnused), Err(MountError::NotMounted { .. })));
}

#[test]
fn a_mount_whose_server_stops_is_dead() {
    let mut null = Null::mount();
    let file = File::open(null.path().join("file")).unwrap();
    null.serving.take().unwrap().stop();
    assert!(is_dead(null.path()));
    let failed = file.metadata().unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(Errno::NOTCONN.raw_os_error()));
    assert!(avfs_fuse::mounting::clean_up(null.path()).unwrap());
}

#[test]
fn a_mount_that_nobody_serves_is_found_and_cleaned_up() {
    let directory = tempfile::tempdir().unwrap();
    drop(mount(directory.path(), &MountOptions::new("dead")).unwrap());
    assert!(is_dead(directory.path()));
    assert!(avfs_fuse::mounting::clean_up(directory.path()).unwrap());
    assert!(!is_dead(directory.path()));
    assert!(!avfs_fuse::mounting::clean_up(directory.path()).unwrap());
}

#[test]
fn what_cannot_be_mounted_on_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let options = MountOptions::new("nowhere");
    let missing = mount(&directory.path().join("missing"), &options).unwrap_err();
    assert!(matches!(missing, MountError::NoSuchPlace { .. }), "{missing}");
    let file = directory.path().join("file");
    File::create(&file).unwrap();
    let error = mount(&file, &options).unwrap_err();
    assert!(matches!(error, MountError::NotADirectory { .. }), "{error}");
}
