//! The comparison finds each kind of difference.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::XattrFlags;

use super::{Freedom, Side, Span, differences};

fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789)
}

fn set_mtime(path: PathBuf, time: SystemTime) {
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// A little of everything, some of it with times of long ago.
fn fill(dir: &Path) {
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("file"), b"bytes").unwrap();
    fs::write(dir.join("old"), b"bytes").unwrap();
    fs::write(dir.join("sub/index"), b"mine").unwrap();
    fs::write(dir.join("first"), b"linked").unwrap();
    fs::hard_link(dir.join("first"), dir.join("second")).unwrap();
    fs::write(dir.join("third"), b"linked").unwrap();
    fs::hard_link(dir.join("third"), dir.join("fourth")).unwrap();
    symlink("file", dir.join("link")).unwrap();
    rustix::fs::setxattr(dir.join("file"), "user.a", b"one", XattrFlags::empty()).unwrap();
    set_mtime(dir.join("old"), long_ago());
}

/// The differences after `change` on the second of two equal directories.
fn after(change: impl FnOnce(&Path)) -> Vec<String> {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let from = SystemTime::now();
    places.iter().for_each(|place| fill(place.path()));
    change(places[1].path());
    let span = Span {
        from,
        to: SystemTime::now(),
    };
    let [one, two] = places.each_ref().map(|place| Side {
        dir: place.path().to_owned(),
        span,
    });
    differences(
        &one,
        &two,
        &Freedom {
            left_out: &["sub/free"],
            own_bytes: &["index"],
        },
    )
}

#[track_caller]
fn check(change: impl FnOnce(&Path), expected: &[&str]) {
    let found = after(change);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (line, start) in found.iter().zip(expected) {
        assert!(line.starts_with(start), "{line} does not start with {start}");
    }
}

#[test]
fn equal_directories_do_not_differ() {
    check(|_| {}, &[]);
}

#[test]
fn a_name_too_much_or_too_few_is_a_difference() {
    check(
        |dir| fs::write(dir.join("sub/new"), b"").unwrap(),
        &["sub/new: not in the control"],
    );
    check(
        |dir| fs::remove_file(dir.join("link")).unwrap(),
        &["link: only in the control"],
    );
}

#[test]
fn another_kind_is_a_difference() {
    let change = |dir: &Path| {
        fs::remove_file(dir.join("link")).unwrap();
        fs::write(dir.join("link"), b"file").unwrap();
    };
    check(
        change,
        &[
            "link: kind symlink / file",
            "link: mode 0777 / ",
            "link: device and target",
        ],
    );
}

#[test]
fn other_bytes_are_a_difference() {
    check(
        |dir| fs::write(dir.join("file"), b"bites").unwrap(),
        &["file: bytes 0x79 at 1 / 0x69"],
    );
    let longer = ["file: size Some(5) / Some(6)", "file: bytes 5 / 6"];
    check(|dir| fs::write(dir.join("file"), b"bytes!").unwrap(), &longer);
}

#[test]
fn another_mode_or_owner_is_a_difference() {
    let chmod = |name: &str, mode| {
        let name = name.to_owned();
        move |dir: &Path| fs::set_permissions(dir.join(&name), fs::Permissions::from_mode(mode)).unwrap()
    };
    check(chmod("file", 0o4711), &["file: mode "]);
    check(chmod("sub", 0o700), &["sub: mode "]);
    if rustix::process::geteuid().is_root() {
        let chown = |dir: &Path| std::os::unix::fs::chown(dir.join("file"), Some(7), None).unwrap();
        check(chown, &["file: owner (0, 0) / (7, 0)"]);
    }
}

#[test]
fn a_link_too_much_or_elsewhere_is_a_difference() {
    let more = |dir: &Path| {
        fs::hard_link(dir.join("file"), dir.join("sub/also")).unwrap();
    };
    check(
        more,
        &["sub/also: not in the control", "file: links Some(1) / Some(2)"],
    );
    let crossed = |dir: &Path| {
        for (name, target) in [("second", "third"), ("fourth", "first")] {
            fs::remove_file(dir.join(name)).unwrap();
            fs::hard_link(dir.join(target), dir.join(name)).unwrap();
        }
    };
    check(
        crossed,
        &[
            "fourth: one file with \"fourth\" / \"first\"",
            "second: one file",
            "third: one file",
        ],
    );
}

#[test]
fn another_target_is_a_difference() {
    let change = |dir: &Path| {
        fs::remove_file(dir.join("link")).unwrap();
        symlink("elif", dir.join("link")).unwrap();
    };
    check(
        change,
        &["link: device and target 0 Some(\"file\") / 0 Some(\"elif\")"],
    );
}

#[test]
fn another_attribute_is_a_difference() {
    let set = |name: &'static str, value: &'static [u8]| {
        move |dir: &Path| {
            rustix::fs::setxattr(dir.join("file"), name, value, XattrFlags::empty()).unwrap();
        }
    };
    check(set("user.a", b"two"), &["file: xattrs"]);
    check(set("user.b", b""), &["file: xattrs"]);
}

#[test]
fn a_time_that_was_set_must_be_exact_and_any_other_within_the_run() {
    let nanosecond = Duration::from_nanos(1);
    check(
        |dir| set_mtime(dir.join("old"), long_ago() + nanosecond),
        &["old: mtime 1234567890.123456789 / "],
    );
    check(
        |dir| set_mtime(dir.join("old"), SystemTime::now()),
        &["old: mtime 1234567890.123456789 / "],
    );
    check(
        |dir| set_mtime(dir.join("file"), long_ago()),
        &["file: mtime within the run / 1234567890.1"],
    );
    check(
        |dir| set_mtime(dir.join("sub"), long_ago()),
        &["sub: mtime within the run"],
    );
}

#[test]
fn expected_differences_are_not_reported() {
    check(
        |dir| fs::write(dir.join("sub/index"), b"someone else's").unwrap(),
        &[],
    );
    let left_out = |dir: &Path| {
        fs::create_dir(dir.join("sub/free")).unwrap();
        fs::write(dir.join("sub/free/file"), b"").unwrap();
    };
    check(left_out, &[]);
}
