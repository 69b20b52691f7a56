//! Attributes, ordinary and extended.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::time::{Duration, UNIX_EPOCH};

use avfs_tree::VaultLimits;
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr, statvfs};
use rustix::io::Errno;

use crate::fixture::{Mounted, errno};

#[test]
fn modes_owners_and_times_are_set() {
    let mounted = Mounted::new();
    let path = mounted.at("a");
    let file = File::create(&path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    chown(&path, Some(12), Some(34)).unwrap();
    let time = UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    file.set_modified(time).unwrap();
    let attr = path.metadata().unwrap();
    assert_eq!((attr.mode(), attr.uid(), attr.gid()), (0o100_640, 12, 34));
    assert_eq!(attr.modified().unwrap(), time, "to the nanosecond");
    file.set_len(100).unwrap();
    assert_eq!(path.metadata().unwrap().len(), 100);
    assert!(
        path.metadata().unwrap().modified().unwrap() > time,
        "another size is a modification"
    );
}

#[test]
fn another_owner_loses_the_privileges() {
    let mounted = Mounted::new();
    let path = mounted.at("a");
    File::create(&path).unwrap();
    let mode_after_chown = |mode| {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        chown(&path, Some(1), Some(1)).unwrap();
        path.metadata().unwrap().mode() & 0o7777
    };
    assert_eq!(mode_after_chown(0o6755), 0o755);
    assert_eq!(mode_after_chown(0o4644), 0o644);
}

#[test]
fn extended_attributes() {
    let mounted = Mounted::new();
    let path = mounted.at("a");
    File::create(&path).unwrap();
    let set = |name: &str, value: &[u8], flags| setxattr(&path, name, value, flags);
    set("user.one", b"1", XattrFlags::empty()).unwrap();
    set("user.two", &[2; 5000], XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.two", b"", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(set("user.three", b"", XattrFlags::REPLACE), Err(Errno::NODATA));
    let mut buffer = vec![0; 8192];
    assert_eq!(getxattr(&path, "user.two", &mut buffer[..]), Ok(5000));
    assert_eq!(rustix::fs::getxattr_query(&path, "user.two"), Ok(5000));
    assert_eq!(getxattr(&path, "user.two", &mut buffer[..100]), Err(Errno::RANGE));
    let len = listxattr(&path, &mut buffer[..]).unwrap();
    assert_eq!(&buffer[..len], b"user.one\0user.two\0");
    removexattr(&path, "user.one").unwrap();
    assert_eq!(getxattr(&path, "user.one", &mut buffer[..]), Err(Errno::NODATA));
    // Version 2; owner, group and others may read and write: the format of an access control list in the
    // kernel.
    let list = [
        2, 0, 0, 0, 1, 0, 6, 0, !0, !0, !0, !0, 4, 0, 6, 0, !0, !0, !0, !0, 32, 0, 6, 0, !0, !0, !0, !0,
    ];
    assert_eq!(
        set("system.posix_acl_access", &list, XattrFlags::empty()),
        Err(Errno::OPNOTSUPP)
    );
}

#[test]
fn the_room_that_is_left() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("a"), vec![1; 1 << 20]).unwrap();
    let room = statvfs(mounted.path()).unwrap();
    assert_eq!(room.f_bavail * room.f_frsize, 1 << 40);
    assert_eq!((room.f_blocks - room.f_bfree) * room.f_frsize, 1 << 20);
    assert_eq!((room.f_files - room.f_ffree, room.f_namemax), (1, 255));
    mounted.tree.set_limits(VaultLimits {
        bytes: Some(3 << 20),
        files: Some(10),
    });
    let room = statvfs(mounted.path()).unwrap();
    assert_eq!((room.f_bavail * room.f_frsize, room.f_ffree), (2 << 20, 9));
    let refused = std::fs::write(mounted.at("b"), vec![1; 4 << 20]);
    assert_eq!(
        errno(refused),
        Some(Errno::DQUOT),
        "a write that does not fit fails immediately"
    );
}

#[test]
fn a_write_of_an_ordinary_user_takes_the_privileges_away() {
    let mounted = Mounted::new();
    let path = mounted.at("a");
    File::create(&path).unwrap();
    std::fs::set_permissions(mounted.path(), Permissions::from_mode(0o755)).unwrap();
    let mode_after = |command: &str| {
        std::fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
        let nobody = 65_534;
        let mut shell = std::process::Command::new("sh");
        let status = shell
            .arg("-c")
            .arg(command)
            .arg("sh")
            .arg(&path)
            .uid(nobody)
            .gid(nobody)
            .status()
            .unwrap();
        assert!(status.success(), "{command}");
        path.metadata().unwrap().mode() & 0o7777
    };
    assert_eq!(mode_after(r#"echo more >> "$1""#), 0o777);
    assert_eq!(mode_after(r#": > "$1""#), 0o777, "truncated when it was opened");
    assert_eq!(mode_after(r#"truncate -s 3 "$1""#), 0o777);
    assert_eq!(mode_after(r#"cat "$1""#), 0o6777, "reading takes nothing");
}
