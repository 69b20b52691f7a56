//! One vault seen by its owner and by two agents at the same time, each through its own rules.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use crate::ground::{Ground, Mount};
use crate::scene::{errno_of, names_in, put, refused, soon};

struct Three {
    ground: Ground,
    host: Mount,
    /// Reads all but secrets, and writes in `/a`.
    first: Mount,
    /// Sees all in `/a` and `/b`, and adds in `/b`; nothing else is there.
    second: Mount,
}

impl Three {
    fn new() -> Three {
        let ground = Ground::with_vault("work");
        let host = ground.mount("work", "host");
        for name in ["a/one", "b/log", "secret/key", "plain"] {
            put(&host.path(name), "text");
        }
        let first = [
            "--principal",
            "first",
            "--rule",
            "/**=read",
            "--rule",
            "/a/**=write",
            "--rule",
            "/secret/**=none",
        ];
        let second = [
            "--principal",
            "second",
            "--rule",
            "/a/**=view",
            "--rule",
            "/b/**=append",
        ];
        let first = ground.mount_with("work", "first", &first);
        let second = ground.mount_with("work", "second", &second);
        Three {
            ground,
            host,
            first,
            second,
        }
    }
}

#[test]
fn each_sees_and_does_what_his_rules_allow() {
    let three = Three::new();
    assert_eq!(names_in(&three.host.dir), ["a", "b", "plain", "secret"]);
    assert_eq!(names_in(&three.first.dir), ["a", "b", "plain"]);
    assert_eq!(names_in(&three.second.dir), ["a", "b"]);
    let errnos = |act: &dyn Fn(&Mount) -> std::io::Result<()>| {
        [&three.host, &three.first, &three.second].map(|mount| errno_of(act(mount)))
    };
    let (fine, denied, missing) = (None, Some(Errno::ACCESS), Some(Errno::NOENT));
    let read = |name: &'static str| move |mount: &Mount| fs::read(mount.path(name)).map(drop);
    let make = |name: &'static str| move |mount: &Mount| File::create(mount.path(name)).map(drop);
    let add = |name: &'static str| {
        move |mount: &Mount| {
            OpenOptions::new()
                .append(true)
                .open(mount.path(name))?
                .write_all(b"+")
        }
    };
    assert_eq!(errnos(&read("a/one")), [fine, fine, denied]);
    assert_eq!(errnos(&read("b/log")), [fine, fine, fine]);
    assert_eq!(errnos(&read("secret/key")), [fine, missing, missing]);
    assert_eq!(errnos(&read("plain")), [fine, fine, missing]);
    assert_eq!(errnos(&add("a/one")), [fine, fine, denied]);
    assert_eq!(errnos(&add("b/log")), [fine, denied, fine]);
    assert_eq!(errnos(&make("plain")), [fine, denied, denied]);
    assert_eq!(errnos(&make("secret/key")), [fine, missing, missing]);
    assert_eq!(fs::read_to_string(three.host.path("b/log")).unwrap(), "text++");
}

#[test]
fn change_of_one_door_is_visible_to_others_as_far_as_rules_allow() {
    let three = Three::new();
    fs::write(three.first.path("a/new"), "by the first").unwrap();
    soon("the host reads it", || {
        fs::read(three.host.path("a/new")).is_ok_and(|text| text == b"by the first")
    });
    soon("the second sees its size", || {
        fs::metadata(three.second.path("a/new")).is_ok_and(|told| told.len() == 12)
    });
    refused(fs::read(three.second.path("a/new")), Errno::ACCESS);
    fs::write(three.second.path("b/new"), "by the second").unwrap();
    soon("the first reads it", || {
        fs::read(three.first.path("b/new")).is_ok_and(|text| text == b"by the second")
    });
    fs::remove_file(three.host.path("b/new")).unwrap();
    soon("it is gone for the first", || !three.first.path("b/new").exists());
    soon("it is gone for the second", || {
        !three.second.path("b/new").exists()
    });
    put(&three.host.path("secret/other"), "hidden");
    assert!(!three.first.path("secret").exists() && !three.second.path("secret").exists());
    three.ground.avfs_given(&["write", "/a/two"], b"by a command");
    soon("the first reads it", || {
        fs::read(three.first.path("a/two")).is_ok_and(|text| text == b"by a command")
    });
}

#[test]
fn a_held_file_obeys_where_its_owner_has_moved_it() {
    let three = Three::new();
    let held = OpenOptions::new()
        .read(true)
        .write(true)
        .open(three.first.path("a/one"))
        .unwrap();
    let directory = File::open(three.first.path("a")).unwrap();
    held.write_at(b"T", 0).unwrap();
    fs::rename(three.host.path("a/one"), three.host.path("b/one")).unwrap();
    assert_eq!(errno_of(held.write_at(b"U", 0)), Some(Errno::ACCESS));
    held.read_at(&mut [0; 4], 0).unwrap();
    fs::rename(three.host.path("b/one"), three.host.path("secret/one")).unwrap();
    soon("what was read is forgotten", || {
        errno_of(held.read_at(&mut [0; 4], 0)) == Some(Errno::ACCESS)
    });
    fs::rename(three.host.path("a"), three.host.path("secret/a")).unwrap();
    let made = rustix::fs::openat(
        &directory,
        "new",
        rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY,
        rustix::fs::Mode::from_raw_mode(0o644),
    );
    assert!(made.is_err(), "a directory that is hidden now took a name");
    assert_eq!(fs::read(three.host.path("secret/one")).unwrap(), b"Text");
    assert_eq!(names_in(&three.host.path("secret/a")), Vec::<String>::new());
}

#[test]
fn list_of_mounts_shows_which_have_rules() {
    let three = Three::new();
    let list = three.ground.avfs(&["mounts", "--json"]);
    for who in ["first", "second"] {
        assert!(list.contains(&format!("\"principal={who}\"")), "{list}");
    }
    three.ground.unmount(three.first);
    three.ground.unmount(three.second);
    assert_eq!(names_in(&three.host.dir), ["a", "b", "plain", "secret"]);
}
