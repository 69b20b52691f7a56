//! Files, directories and links.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use avfs_vfs::{DEPTH_MAX, Kind, Limits, SystemClock, Vfs, VfsError};
use std::sync::Arc;

fn names(vfs: &Vfs, path: &str) -> Vec<String> {
    let entries = vfs.ls(path).unwrap();
    entries.iter().map(|entry| entry.name.to_string()).collect()
}

fn text(vfs: &Vfs, path: &str) -> String {
    String::from_utf8(vfs.read_file(path).unwrap().to_vec()).unwrap()
}

#[track_caller]
fn fails(code: &str, outcome: Result<impl Sized, VfsError>) {
    match outcome {
        Ok(_) => panic!("it should fail with {code}"),
        Err(error) => assert_eq!(error.code(), code, "{error}"),
    }
}

#[test]
fn versions_count_up_from_one_and_are_never_used_again() {
    let vfs = Vfs::new();
    assert_eq!(vfs.write_file("/a", "1", None).unwrap(), 1);
    assert_eq!(vfs.write_file("/a", "2", None).unwrap(), 2);
    assert_eq!(vfs.append_file("/a", "3", None).unwrap(), 3);
    vfs.remove("/a", false).unwrap();
    assert_eq!(vfs.write_file("/a", "4", None).unwrap(), 4);
    vfs.remove("/a", false).unwrap();
    vfs.mkdir("/a", false, false).unwrap();
    vfs.remove("/a", false).unwrap();
    assert_eq!(vfs.write_file("/a", "5", None).unwrap(), 5);
    vfs.move_to("/a", "/b", false).unwrap();
    assert_eq!(vfs.stat("/b").unwrap().version, 6);
    assert_eq!(vfs.write_file("/a", "6", None).unwrap(), 6);
    vfs.copy("/a", "/b", true).unwrap();
    assert_eq!(vfs.stat("/b").unwrap().version, 7);
    vfs.write_file("/d/x", "", None).unwrap();
    vfs.remove("/d", true).unwrap();
    assert_eq!(vfs.write_file("/d/x", "", None).unwrap(), 2);
}

#[test]
fn a_write_that_expects_another_version_changes_nothing() {
    let vfs = Vfs::new();
    fails("stale-version", vfs.write_file("/a", "x", Some(1)));
    assert!(!vfs.exists("/a").unwrap());
    assert_eq!(vfs.write_file("/a", "x", Some(0)).unwrap(), 1);
    fails("stale-version", vfs.write_file("/a", "y", Some(0)));
    fails("stale-version", vfs.append_file("/a", "y", Some(2)));
    assert_eq!(text(&vfs, "/a"), "x");
    assert_eq!(vfs.append_file("/a", "y", Some(1)).unwrap(), 2);
}

#[test]
fn a_write_makes_the_directories_on_its_way() {
    let vfs = Vfs::new();
    vfs.write_file("a/b/c.txt", "x", None).unwrap();
    assert_eq!(vfs.stat("/a/b").unwrap().kind, Kind::Directory);
    assert_eq!(
        vfs.tree("/", None).unwrap(),
        "/\n└── a\n    └── b\n        └── c.txt\n"
    );
    fails("not-a-directory", vfs.write_file("/a/b/c.txt/d", "", None));
    fails("is-a-directory", vfs.write_file("/a/b", "", None));
    fails("is-a-directory", vfs.read_file("/a"));
    assert_eq!(vfs.usage().entries, 3);
}

#[test]
fn parts_of_a_file_can_be_read() {
    let vfs = Vfs::new();
    vfs.write_file("/a", "0123456789", None).unwrap();
    assert_eq!(vfs.read_bytes("/a", 2, 3).unwrap(), b"234");
    assert_eq!(vfs.read_bytes("/a", 8, 100).unwrap(), b"89");
    assert_eq!(vfs.read_bytes("/a", 100, u64::MAX).unwrap(), b"");
}

#[test]
fn directories_are_made_listed_and_removed() {
    let vfs = Vfs::new();
    fails("not-found", vfs.mkdir("/a/b", false, false));
    vfs.mkdir("/a/b", true, false).unwrap();
    fails("exists", vfs.mkdir("/a/b", true, false));
    vfs.mkdir("/a/b", false, true).unwrap();
    vfs.touch("/a/z").unwrap();
    fails("exists", vfs.mkdir("/a/z", false, true));
    assert_eq!(names(&vfs, "/a"), ["b", "z"]);
    fails("not-empty", vfs.remove("/a", false));
    fails("not-a-directory", vfs.ls("/a/z"));
    vfs.remove("/a/b", false).unwrap();
    vfs.remove("/a", true).unwrap();
    assert_eq!(names(&vfs, "/"), Vec::<String>::new());
    assert_eq!(vfs.usage().entries, 0);
    fails("not-found", vfs.remove("/a", true));
    fails("root", vfs.remove("/", true));
}

#[test]
fn a_rename_replaces_as_the_system_call_does() {
    let vfs = Vfs::new();
    for path in ["/f", "/g", "/d/x", "/e/y"] {
        vfs.write_file(path, path, None).unwrap();
    }
    vfs.mkdir("/empty", false, false).unwrap();
    vfs.rename("/f", "/g").unwrap();
    assert_eq!(text(&vfs, "/g"), "/f");
    fails("is-a-directory", vfs.rename("/g", "/empty"));
    fails("not-a-directory", vfs.rename("/d", "/g"));
    fails("not-empty", vfs.rename("/d", "/e"));
    vfs.rename("/d", "/empty").unwrap();
    assert_eq!(text(&vfs, "/empty/x"), "/d/x");
    fails("into-itself", vfs.rename("/empty", "/empty/below"));
    vfs.rename("/g", "/g").unwrap();
    fails("not-found", vfs.rename("/nothing", "/x"));
    fails("root", vfs.rename("/", "/x"));
    fails("root", vfs.rename("/g", "/"));
    assert_eq!(vfs.usage().entries, 5);
}

#[test]
fn moves_and_copies_go_into_a_directory_that_is_there() {
    let vfs = Vfs::new();
    vfs.write_file("/src/a", "1", None).unwrap();
    vfs.mkdir("/dst", false, false).unwrap();
    assert_eq!(vfs.copy("/src", "/dst", false).unwrap().to_string(), "/dst/src");
    assert_eq!(vfs.copy("/src", "/other", false).unwrap().to_string(), "/other");
    fails("exists", vfs.copy("/src/a", "/other/a", false));
    fails("exists", vfs.move_to("/src/a", "/other", false));
    fails("into-itself", vfs.copy("/src", "/src/below", false));
    fails("into-itself", vfs.move_to("/src", "/src", false));
    vfs.write_file("/src/a", "2", None).unwrap();
    vfs.move_to("/src/a", "/other", true).unwrap();
    assert_eq!(text(&vfs, "/other/a"), "2");
    assert_eq!(text(&vfs, "/dst/src/a"), "1");
    assert_eq!(names(&vfs, "/src"), Vec::<String>::new());
}

#[test]
fn links_are_followed_where_the_system_follows_them() {
    let vfs = Vfs::new();
    vfs.write_file("/d/real", "x", None).unwrap();
    vfs.symlink("d", "/dir").unwrap();
    vfs.symlink("../d/real", "/d/up").unwrap();
    vfs.symlink("/nowhere/at/all", "/dangling").unwrap();
    vfs.symlink("new", "/to-new").unwrap();
    assert_eq!(text(&vfs, "/dir/up"), "x");
    assert_eq!(vfs.stat("/dir/up").unwrap().path.to_string(), "/d/real");
    assert_eq!(vfs.lstat("/dir").unwrap().kind, Kind::Symlink);
    assert_eq!(vfs.read_link("/d/up").unwrap(), b"../d/real");
    fails("not-a-link", vfs.read_link("/d/real"));
    assert!(!vfs.exists("/dangling").unwrap());
    fails("not-found", vfs.read_file("/dangling"));
    vfs.write_file("/to-new", "made", None).unwrap();
    assert_eq!(text(&vfs, "/new"), "made");
    vfs.remove("/dir", false).unwrap();
    assert_eq!(text(&vfs, "/d/real"), "x");
    fails("exists", vfs.symlink("a", "/d/up"));
}

#[test]
fn links_that_lead_in_circles_are_an_error() {
    let vfs = Vfs::new();
    vfs.symlink("/b", "/a").unwrap();
    vfs.symlink("/a", "/b").unwrap();
    vfs.symlink("self/self", "/self").unwrap();
    vfs.symlink("../../..", "/up").unwrap();
    for path in ["/a", "/a/x", "/self"] {
        fails("too-many-links", vfs.read_file(path));
        fails("too-many-links", vfs.write_file(path, "", None));
        fails("too-many-links", vfs.stat(path));
    }
    assert_eq!(vfs.stat("/up").unwrap().path.to_string(), "/");
    assert_eq!(vfs.walk("/").unwrap().len(), 4);
}

#[test]
fn bad_paths_are_refused_and_change_nothing() {
    let vfs = Vfs::new();
    vfs.write_file("/a", "x", None).unwrap();
    let before = vfs.snapshot().unwrap();
    let long = "n".repeat(256);
    let far = "d/".repeat(3000);
    for path in ["..", "/a/../b", "/../../etc/passwd", "a\0b", &long, &far] {
        fails("bad-path", vfs.write_file(path, "", None));
        fails("bad-path", vfs.read_file(path));
        fails("bad-path", vfs.mkdir(path, true, true));
        fails("bad-path", vfs.rename("/a", path));
        fails("bad-path", vfs.copy(path, "/a", true));
        fails("bad-path", vfs.remove(path, true));
        fails("bad-path", vfs.symlink("x", path));
        fails("bad-path", vfs.ls(path));
    }
    fails("invalid", vfs.symlink("", "/l"));
    fails("invalid", vfs.symlink("a\0b", "/l"));
    fails("invalid", vfs.set_mode("/a", 0o10000));
    assert!(vfs.changes(&before).unwrap().is_empty());
}

#[test]
fn nothing_lies_deeper_than_the_limit() {
    let vfs = Vfs::new();
    let deepest = "d/".repeat(DEPTH_MAX);
    vfs.mkdir(&deepest, true, false).unwrap();
    fails("too-deep", vfs.mkdir(format!("{deepest}/x"), true, false));
    vfs.mkdir("/p/q", true, false).unwrap();
    fails("too-deep", vfs.rename("/d", "/p/q/d"));
    fails("too-deep", vfs.copy("/d", "/p/q/d", false));
    // A link does not help.
    vfs.symlink("d/".repeat(DEPTH_MAX - 1), "/l").unwrap();
    fails("too-deep", vfs.write_file("/l/d/x", "", None));
    let fork = vfs.fork().unwrap();
    vfs.remove("/d", true).unwrap();
    assert_eq!(fork.walk("/").unwrap().len(), DEPTH_MAX + 3);
}

#[test]
fn a_filesystem_holds_no_more_than_its_limits() {
    let limits = Limits {
        bytes: 10,
        entries: 3,
    };
    let vfs = Vfs::with_options(limits, Arc::new(SystemClock));
    vfs.write_file("/a", "12345", None).unwrap();
    fails("over-limit", vfs.write_file("/b", "123456", None));
    fails("over-limit", vfs.append_file("/a", "123456", None));
    fails("over-limit", vfs.write_file("/x/y/z", "", None));
    vfs.write_file("/a", "0123456789", None).unwrap();
    fails("over-limit", vfs.copy("/a", "/b", false));
    vfs.write_file("/b/c", "", None).unwrap();
    fails("over-limit", vfs.touch("/d"));
    vfs.rename("/a", "/b/c").unwrap();
    assert_eq!((vfs.usage().entries, vfs.usage().bytes), (2, 10));
}

#[test]
fn handles_of_several_threads_see_one_filesystem() {
    let vfs = Vfs::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let vfs = vfs.clone();
            scope.spawn(move || {
                for number in 0..200 {
                    vfs.append_file("/log", "x", None).unwrap();
                    vfs.write_file(format!("/d{thread}/{number}"), "y", None).unwrap();
                }
            });
        }
    });
    assert_eq!(vfs.stat("/log").unwrap().version, 800);
    assert_eq!(vfs.read_file("/log").unwrap().len(), 800);
    assert_eq!(vfs.usage().entries, 4 + 800 + 1);
}
