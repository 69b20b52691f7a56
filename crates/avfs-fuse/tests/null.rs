//! Both transports, mounting and unmounting, with the null file system.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
mod support;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use avfs_fuse::Errno;
use avfs_fuse::abi::Opcode;
use avfs_fuse::mounting::{FuseMountOptions, MountError, UnmountMode, is_dead, mount, mounts, unmount};
use avfs_fuse::null::{ENTRIES, FILE_SIZE, NullFilesystem};
use avfs_fuse::transport::{InUse, Transport};
use support::{Fixture, eventually};

fn mount_null(transport: Transport) -> Fixture {
    Fixture::mount(Arc::new(NullFilesystem::default()), transport)
}

over_both_transports! {
    files_are_read_written_and_listed,
    a_panic_is_one_failed_request,
    the_table_of_mounts_has_it_until_it_is_unmounted,
    the_transport_that_was_asked_for_is_used,
}

fn files_are_read_written_and_listed(transport: Transport) {
    let null = mount_null(transport);
    let file = File::open(null.path().join("file")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), FILE_SIZE);
    let mut buffer = vec![1; 3 << 20];
    file.read_exact_at(&mut buffer, 12_345).unwrap();
    assert!(buffer.iter().all(|byte| *byte == 0));
    let mut new = File::create(null.path().join("new")).unwrap();
    new.write_all(&buffer).unwrap();
    let listed = std::fs::read_dir(null.path().join("directory")).unwrap();
    assert_eq!(listed.map(Result::unwrap).count() as u64, ENTRIES);
    let missing = std::fs::metadata(null.path().join("missing")).unwrap_err();
    assert_eq!(missing.raw_os_error(), Some(Errno::NOENT.raw_os_error()));
    drop((file, new));
    let session = null.session().clone();
    assert_eq!(null.end(), Vec::<String>::new());
    assert_eq!(
        session.counters().requests(Opcode::Write),
        3,
        "a request takes up to 1 MiB"
    );
}

fn a_panic_is_one_failed_request(transport: Transport) {
    let null = mount_null(transport);
    let failed = std::fs::metadata(null.path().join("panic")).unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert!(
        std::fs::metadata(null.path().join("file")).is_ok(),
        "the mount lives on"
    );
    let log = null.end();
    assert!(
        matches!(&log[..], [line] if line.contains("Lookup") && line.contains("asked for")),
        "{log:?}"
    );
}

fn the_table_of_mounts_has_it_until_it_is_unmounted(transport: Transport) {
    let mut null = mount_null(transport);
    let place = std::fs::canonicalize(null.path()).unwrap();
    let ours = || mounts().unwrap().into_iter().find(|mounted| mounted.at == place);
    assert_eq!(ours().unwrap().source, support::SOURCE);
    let held = File::open(null.path().join("file")).unwrap();
    assert!(matches!(
        unmount(&place, UnmountMode::IfUnused),
        Err(MountError::Busy { .. })
    ));
    drop(held);
    unmount(&place, UnmountMode::IfUnused).unwrap();
    assert_eq!(ours(), None);
    null.wait();
    assert!(matches!(
        unmount(&place, UnmountMode::IfUnused),
        Err(MountError::NotMounted { .. })
    ));
}

fn the_transport_that_was_asked_for_is_used(transport: Transport) {
    let null = mount_null(transport);
    std::fs::metadata(null.path()).unwrap();
    let expected = if transport == Transport::Uring {
        InUse::Uring
    } else {
        InUse::Device
    };
    let serving = null.serving();
    eventually("the transport is known", || serving.transport().is_some());
    assert_eq!(serving.transport(), Some(expected));
}

#[test]
fn unserved_mount_is_found_and_cleaned_up() {
    let directory = tempfile::tempdir().unwrap();
    drop(mount(directory.path(), &FuseMountOptions::new("dead")).unwrap());
    assert!(is_dead(directory.path()));
    assert!(avfs_fuse::mounting::clean_up(directory.path()).unwrap());
    assert!(!is_dead(directory.path()));
    assert!(!avfs_fuse::mounting::clean_up(directory.path()).unwrap());
}

#[test]
fn unusable_mount_point_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let options = FuseMountOptions::new("nowhere");
    let missing = mount(&directory.path().join("missing"), &options).unwrap_err();
    assert!(matches!(missing, MountError::NoSuchPlace { .. }), "{missing}");
    let file = directory.path().join("file");
    File::create(&file).unwrap();
    let error = mount(&file, &options).unwrap_err();
    assert!(matches!(error, MountError::NotADirectory { .. }), "{error}");
}
