//! Hidden entries do not exist: in no answer, no listing, no count and no size.

use std::fs::{self, File, OpenOptions};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, RenameFlags, XattrFlags};
use rustix::io::Errno;

use crate::program::good;
use crate::scene::{Scene, errno_of, names_in, put, refused, soon, text_of};

const HIDING: &[&str] = &["--rule", "/**=write", "--rule", "**/secret*/=none"];

fn hiding(names: &[&str]) -> Scene {
    Scene::new(names, HIDING)
}

#[test]
fn a_hidden_name_answers_as_one_that_does_not_exist() {
    let scene = hiding(&["secret", "secrets/deep/key", "plain"]);
    for name in [
        "secret",
        "secrets",
        "secrets/deep",
        "secrets/deep/key",
        "secret-that-is-not-there",
    ] {
        let path = scene.agent(name);
        refused(fs::symlink_metadata(&path), Errno::NOENT);
        refused(fs::read(&path), Errno::NOENT);
        refused(fs::read_dir(&path), Errno::NOENT);
        refused(fs::remove_file(&path), Errno::NOENT);
        refused(fs::remove_dir(&path), Errno::NOENT);
        refused(fs::rename(&path, scene.agent("other")), Errno::NOENT);
        refused(fs::hard_link(&path, scene.agent("other")), Errno::NOENT);
        // Not ENOTDIR, which would reveal that it is a file.
        refused(fs::metadata(path.join("below")), Errno::NOENT);
        refused(File::create(path.join("below")), Errno::NOENT);
    }
    assert_eq!(
        fs::read_to_string(scene.host("secrets/deep/key")).unwrap(),
        text_of("secrets/deep/key")
    );
    assert_eq!(
        errno_of(fs::metadata(scene.host("secret/below"))),
        Some(Errno::NOTDIR)
    );
}

#[test]
fn a_hidden_name_cannot_be_made_whether_it_exists_or_not() {
    let scene = hiding(&["secret-file", "secret-dir/", "plain", "plain-dir/"]);
    for name in ["secret-file", "secret-dir", "secret-that-is-not-there"] {
        let path = scene.agent(name);
        refused(File::create(&path), Errno::ACCESS);
        refused(File::create_new(&path), Errno::ACCESS);
        refused(fs::create_dir(&path), Errno::ACCESS);
        refused(symlink("plain", &path), Errno::ACCESS);
        refused(fs::hard_link(scene.agent("plain"), &path), Errno::ACCESS);
        refused(fs::rename(scene.agent("plain"), &path), Errno::ACCESS);
        refused(fs::rename(scene.agent("plain-dir"), &path), Errno::ACCESS);
        let flags = RenameFlags::NOREPLACE;
        let renamed = rustix::fs::renameat_with(CWD, scene.agent("plain"), CWD, &path, flags);
        assert_eq!(renamed, Err(Errno::ACCESS));
    }
    assert_eq!(
        names_in(&scene.host.dir),
        ["plain", "plain-dir", "secret-dir", "secret-file"]
    );
    fs::rename(scene.host("plain-dir"), scene.host("secret-that-is-not-there")).unwrap();
    soon("the directory is hidden by its new name", || {
        !scene.agent("plain-dir").exists()
    });
}

#[test]
fn a_hidden_name_is_in_no_listing() {
    let scene = hiding(&["secret", "a/secret", "a/b/secrets/key", "a/b/plain"]);
    let listed = |top: &Path| {
        let mut find = Command::new("find");
        find.arg(".").current_dir(top);
        String::from_utf8(good(find, b"")).unwrap()
    };
    assert_eq!(listed(&scene.host.dir).matches("secret").count(), 4);
    let seen = listed(&scene.agent.dir);
    assert_eq!(
        (seen.matches("secret").count(), seen.contains("a/b/plain")),
        (0, true),
        "{seen}"
    );
    let shown = scene.ground.path("agent").join("a/*");
    let mut glob = Command::new("sh");
    glob.args(["-c", &format!("echo {}", shown.display())]);
    assert!(!String::from_utf8(good(glob, b"")).unwrap().contains("secret"));
}

#[test]
fn a_large_directory_shows_what_is_between_the_hidden_names_once() {
    let names: Vec<String> = (0..700).map(|number| format!("d/secret{number:04}")).collect();
    let seen: Vec<String> = (0..5).map(|number| format!("d/secret-{number}.not")).collect();
    let all: Vec<&str> = names.iter().chain(&seen).map(String::as_str).collect();
    let flags = ["--rule", "/**=write", "--rule", "**/secret[0-9]*=none"];
    let scene = Scene::new(&all, &flags);
    assert_eq!(names_in(&scene.host("d")).len(), 705);
    let expected: Vec<&str> = seen.iter().map(|name| &name[2..]).collect();
    assert_eq!(names_in(&scene.agent("d")), expected);
}

#[test]
fn removing_a_directory_leaves_the_hidden_children_and_says_that_it_is_not_empty() {
    let scene = hiding(&["d/secret", "d/plain", "e/plain"]);
    let removed = good_or_not("rm", &["-rf", "d", "e"], &scene.agent.dir);
    assert!(!removed);
    assert_eq!(names_in(&scene.agent("d")), Vec::<String>::new());
    refused(fs::remove_dir(scene.agent("d")), Errno::NOTEMPTY);
    assert!(!scene.agent("e").exists());
    assert_eq!(
        fs::read_to_string(scene.host("d/secret")).unwrap(),
        text_of("d/secret")
    );
}

fn good_or_not(program: &str, arguments: &[&str], dir: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir);
    crate::program::end_of(command, b"").status.success()
}

#[test]
fn a_hidden_name_of_a_file_is_not_counted() {
    let scene = hiding(&["plain"]);
    fs::hard_link(scene.host("plain"), scene.host("secret")).unwrap();
    assert_eq!(fs::metadata(scene.host("plain")).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(scene.agent("plain")).unwrap().nlink(), 1);
    fs::hard_link(scene.agent("plain"), scene.agent("other")).unwrap();
    assert_eq!(fs::metadata(scene.agent("other")).unwrap().nlink(), 2);
    soon("the host counts all", || {
        fs::metadata(scene.host("plain")).unwrap().nlink() == 3
    });
}

#[test]
fn a_hidden_subdirectory_is_not_counted() {
    let scene = hiding(&["d/plain/"]);
    let before = fs::metadata(scene.agent("d")).unwrap().nlink();
    let shown = fs::metadata(scene.host("d")).unwrap().nlink();
    fs::create_dir(scene.host("d/secret")).unwrap();
    soon("the host counts it", || {
        fs::metadata(scene.host("d")).unwrap().nlink() == shown + 1
    });
    assert_eq!(fs::metadata(scene.agent("d")).unwrap().nlink(), before);
}

#[test]
fn a_directory_that_is_only_passed_through_tells_nothing_of_itself() {
    let scene = Scene::new(&["way/open/file"], &["--rule", "/way/open/**=write"]);
    let told = |directory: &Path| {
        let meta = fs::metadata(directory).unwrap();
        let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.atime());
        (meta.mode() & 0o7777, meta.nlink(), meta.size(), times)
    };
    let before = told(&scene.agent("way"));
    assert_eq!(before, (0o555, 1, 0, (0, 0, 0, 0)));
    let (host_before, modified) = (told(&scene.host("way")), fs::metadata(scene.host("way")).unwrap());
    put(&scene.host("way/hidden/new"), "n");
    rustix::fs::setxattr(scene.host("way"), "user.a", b"1", XattrFlags::empty()).unwrap();
    assert_ne!(told(&scene.host("way")), host_before);
    assert_ne!(
        fs::metadata(scene.host("way")).unwrap().mtime_nsec(),
        modified.mtime_nsec()
    );
    assert_eq!(told(&scene.agent("way")), before);
    assert_eq!(names_in(&scene.agent.dir), ["way"]);
    assert_eq!(names_in(&scene.agent("way")), ["open"]);
    refused(File::create(scene.agent("way/new")), Errno::ACCESS);
    fs::write(scene.agent("way/open/file"), "written").unwrap();
    soon("the host sees it", || {
        fs::read(scene.host("way/open/file")).unwrap() == b"written"
    });
}

#[test]
fn the_room_that_is_left_tells_nothing_of_hidden_files() {
    let scene = hiding(&["plain"]);
    scene.ground.avfs(&["quota", "set", "--bytes", "64M"]);
    let told = |mount: &Path| {
        let told = rustix::fs::statvfs(mount).unwrap();
        (
            told.f_blocks,
            told.f_bfree,
            told.f_bavail,
            told.f_files,
            told.f_ffree,
        )
    };
    let (agent, host) = (told(&scene.agent.dir), told(&scene.host.dir));
    put(&scene.host("secrets/large"), &"x".repeat(8 << 20));
    assert_ne!(told(&scene.host.dir), host);
    assert_eq!(told(&scene.agent.dir), agent);
}

#[test]
fn write_beyond_a_limit_or_without_permission_fails_at_once_and_not_at_close() {
    let scene = Scene::new(
        &["log", "full"],
        &["--rule", "/**=write", "--rule", "/log=append"],
    );
    scene.ground.avfs(&["quota", "set", "--bytes", "1M"]);
    let open = |name: &str| OpenOptions::new().write(true).open(scene.agent(name)).unwrap();
    let (log, full) = (open("log"), open("full"));
    refused(log.write_at(b"over", 0), Errno::ACCESS);
    let too_much = vec![b'x'; 2 << 20];
    assert_eq!(errno_of(write_whole(&full, &too_much)), Some(Errno::DQUOT));
    assert_eq!((close(log), close(full)), (0, 0));
    assert_eq!(fs::read_to_string(scene.host("log")).unwrap(), text_of("log"));
    scene.ground.avfs(&["quota", "set", "--bytes", "64M"]);
    write_whole(&open("full"), &too_much).unwrap();
}

fn write_whole(file: &File, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all_at(bytes, 0)
}

#[allow(unsafe_code, reason = "a File does not tell how its end went")]
fn close(file: File) -> i32 {
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(file.into_raw_fd()) }
}

#[test]
fn a_descriptor_without_rights_reaches_nothing_hidden() {
    let scene = hiding(&["d/secret", "d/plain"]);
    let directory = File::open(scene.agent("d")).unwrap();
    for name in ["secret", "../d/secret", "./secret", "../d/../d/secret"] {
        let told = rustix::fs::statat(&directory, name, AtFlags::empty());
        assert_eq!(told.map(drop), Err(Errno::NOENT), "{name}");
    }
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&directory));
    refused(fs::metadata(format!("{own}/secret")), Errno::NOENT);
    fs::metadata(format!("{own}/plain")).unwrap();
    let host = File::open(scene.host("d")).unwrap();
    rustix::fs::statat(&host, "secret", AtFlags::empty()).unwrap();
}
