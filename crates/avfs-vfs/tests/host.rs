//! Export and import.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::os::unix::fs::{MetadataExt, symlink};

use avfs_vfs::{Timestamp, Vfs};

#[test]
fn a_tree_goes_out_and_comes_back_with_modes_times_and_links() {
    let vfs = Vfs::new();
    vfs.write_file("/d/run.sh", "#!/bin/sh\n", None).unwrap();
    vfs.set_mode("/d/run.sh", 0o755).unwrap();
    vfs.set_mtime(
        "/d/run.sh",
        Timestamp {
            seconds: 1_000_000_000,
            nanos: 5,
        },
    )
    .unwrap();
    vfs.symlink("run.sh", "/d/link").unwrap();
    vfs.mkdir("/empty", false, false).unwrap();
    vfs.write_file(b"/bytes-\xff", &b"\x00\xff"[..], None).unwrap();
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    vfs.export("/", &out).unwrap();
    let host = out.join("d/run.sh").metadata().unwrap();
    assert_eq!(
        (host.mode() & 0o7777, host.mtime(), host.mtime_nsec()),
        (0o755, 1_000_000_000, 5)
    );
    let back = Vfs::new();
    back.import(&out, "/").unwrap();
    let list = |vfs: &Vfs| {
        let all = vfs.walk("/").unwrap().into_iter();
        all.map(|(path, entry)| (path, entry.kind, entry.mode, entry.size))
            .collect::<Vec<_>>()
    };
    assert_eq!(list(&back), list(&vfs));
    assert_eq!(
        back.stat("/d/run.sh").unwrap().mtime,
        vfs.stat("/d/run.sh").unwrap().mtime
    );
    assert_eq!(back.read_link("/d/link").unwrap(), b"run.sh");
    vfs.export("/d/run.sh", &home.path().join("single")).unwrap();
    back.import(&home.path().join("single"), "/x/y").unwrap();
    assert_eq!(&back.read_file("/x/y").unwrap()[..], b"#!/bin/sh\n");
}

#[test]
fn nothing_is_overwritten_on_either_side() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("a"), "host").unwrap();
    let vfs = Vfs::new();
    vfs.write_file("/a", "vfs", None).unwrap();
    let before = vfs.snapshot().unwrap();
    for place in [
        home.path().to_owned(),
        home.path().join("a"),
        home.path().join("no/such"),
    ] {
        assert_eq!(vfs.export("/", &place).unwrap_err().code(), "host-refused");
    }
    assert!(vfs.import(home.path(), "/").is_err());
    assert!(vfs.import(&home.path().join("a"), "/").is_err());
    assert!(vfs.import(&home.path().join("none"), "/b").is_err());
    assert!(vfs.changes(&before).unwrap().is_empty());
    assert_eq!(std::fs::read_to_string(home.path().join("a")).unwrap(), "host");
    vfs.import(home.path(), "/b").unwrap();
    assert_eq!(&vfs.read_file("/b/a").unwrap()[..], b"host");
}

#[test]
fn links_of_the_host_stay_links() {
    let home = tempfile::tempdir().unwrap();
    symlink("/etc/passwd", home.path().join("way-out")).unwrap();
    let vfs = Vfs::new();
    vfs.import(home.path(), "/in").unwrap();
    assert_eq!(vfs.read_link("/in/way-out").unwrap(), b"/etc/passwd");
    assert_eq!(vfs.read_file("/in/way-out").unwrap_err().code(), "not-found");
}

#[test]
fn a_program_of_the_host_works_on_a_directory_and_its_changes_come_back_as_one() {
    let vfs = Vfs::new();
    for path in ["/w/keep", "/w/change", "/w/gone/x", "/w/file", "/outside"] {
        vfs.write_file(path, path, None).unwrap();
    }
    vfs.mount(
        "/w/computed",
        avfs_vfs::ProvidedNode::computed_file(|_| Ok(b"now".to_vec())),
    )
    .unwrap();
    let before = vfs.snapshot().unwrap();
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let status = vfs.with_host_directory("/w", home.path(), || {
        assert_eq!(std::fs::read(at("computed")).unwrap(), b"now");
        std::fs::write(at("change"), "new").unwrap();
        std::fs::set_permissions(at("change"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::remove_dir_all(at("gone")).unwrap();
        std::fs::remove_file(at("file")).unwrap();
        std::fs::create_dir(at("file")).unwrap();
        std::fs::write(at("file/deep"), b"\xff").unwrap();
        symlink("change", at("link")).unwrap();
        7
    });
    assert_eq!(status.unwrap(), 7);
    assert_eq!(&vfs.read_file("/w/link").unwrap()[..], b"new");
    assert_eq!(vfs.stat("/w/change").unwrap().mode, 0o755);
    assert_eq!(vfs.stat("/w/change").unwrap().version, 2);
    assert_eq!(vfs.stat("/w/keep").unwrap().version, 1);
    assert!(vfs.stat("/w/computed").unwrap().is_provided);
    let changed: Vec<String> = vfs
        .changes(&before)
        .unwrap()
        .iter()
        .map(|change| change.path.to_string())
        .collect();
    assert_eq!(
        changed,
        [
            "/w/change",
            "/w/file",
            "/w/file",
            "/w/file/deep",
            "/w/gone",
            "/w/gone/x",
            "/w/link"
        ]
    );
}

#[test]
fn a_program_of_the_host_changes_nothing_that_its_caller_may_not_change() {
    let vfs = Vfs::new();
    vfs.write_file("/w/locked", "x", None).unwrap();
    let locked = avfs_vfs::NodePolicy {
        writable: false,
        ..avfs_vfs::NodePolicy::default()
    };
    vfs.set_policy("/w/locked", Some(locked)).unwrap();
    let before = vfs.snapshot().unwrap();
    let home = tempfile::tempdir().unwrap();
    let outcome = vfs.with_host_directory("/w", home.path(), || {
        std::fs::write(home.path().join("a"), "fine").unwrap();
        std::fs::write(home.path().join("locked"), "y").unwrap();
    });
    assert_eq!(outcome.unwrap_err().code(), "denied");
    assert!(vfs.changes(&before).unwrap().is_empty());
}
