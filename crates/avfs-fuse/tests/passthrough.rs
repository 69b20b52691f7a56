//! A partial view of a directory of the host, mounted, over both transports. Needs `/dev/fuse` and root.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avfs_core::rules::{Rule, Rules};
use avfs_fuse::mounting::{self, FuseMountOptions, UnmountMode};
use avfs_fuse::transport::{FuseServing, ServingOptions, Transport};
use avfs_fuse::{FuseSession, PassthroughFs, PassthroughOptions, SessionSettings};

struct View {
    place: tempfile::TempDir,
    session: Arc<FuseSession>,
    serving: Option<FuseServing>,
}

impl View {
    fn new(transport: Transport, rules: &[&str]) -> View {
        let place = tempfile::tempdir().unwrap();
        for name in ["host", "private", "view"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        let rules = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        let open = |name: &str| File::open(place.path().join(name)).unwrap().into();
        let passed = PassthroughFs::new(PassthroughOptions {
            shared: open("host"),
            private: open("private"),
            rules: Rules::new(rules).unwrap(),
            caches: None,
            owner: None,
        })
        .unwrap();
        let connection = mounting::mount(&place.path().join("view"), &FuseMountOptions::new("test")).unwrap();
        let session = Arc::new(FuseSession::new(Arc::new(passed), SessionSettings::default()));
        let options = ServingOptions {
            transport,
            ..ServingOptions::default()
        };
        let serving = Some(FuseServing::start(Arc::clone(&session), connection, options).unwrap());
        View {
            place,
            session,
            serving,
        }
    }

    fn host(&self, path: &str) -> PathBuf {
        self.place.path().join("host").join(path)
    }

    fn seen(&self, path: &str) -> PathBuf {
        self.place.path().join("view").join(path)
    }

    fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.host(path).parent().unwrap()).unwrap();
        fs::write(self.host(path), text).unwrap();
    }
}

impl Drop for View {
    fn drop(&mut self) {
        mounting::unmount(&self.place.path().join("view"), UnmountMode::Detach).unwrap();
        self.serving.take().unwrap().wait();
    }
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn kind<T: std::fmt::Debug>(result: std::io::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn check_all(transport: Transport) {
    let view = View::new(
        transport,
        &["/state*=write", "/a/b/data/**=write", "/a/settings/**=read"],
    );
    for (path, text) in [
        ("state", "1"),
        ("a/b/data/x", "x"),
        ("a/settings/s", "s"),
        ("a/hidden", "h"),
        ("secret", "!"),
    ] {
        view.put(path, text);
    }

    // The rules decide what is shown; nothing else has a name.
    assert_eq!(names(&view.seen("")), ["a", "state"]);
    assert_eq!(names(&view.seen("a")), ["b", "settings"]);
    assert_eq!(kind(fs::read(view.seen("secret"))), ErrorKind::NotFound);

    // A hidden name is free inside, and unchanged outside.
    fs::write(view.seen("secret"), "mine").unwrap();
    assert_eq!(fs::read_to_string(view.seen("secret")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(view.host("secret")).unwrap(), "!");

    // Both sides replace a file by rename; a program that has the old one open keeps it.
    let mut old = File::open(view.seen("state")).unwrap();
    fs::write(view.seen("private-name"), "2").unwrap();
    fs::rename(view.seen("private-name"), view.seen("state")).unwrap();
    assert_eq!(fs::read_to_string(view.host("state")).unwrap(), "2");
    fs::write(view.host("other"), "3").unwrap();
    fs::rename(view.host("other"), view.host("state")).unwrap();
    assert_eq!(fs::read_to_string(view.seen("state")).unwrap(), "3");
    let mut text = String::new();
    old.read_to_string(&mut text).unwrap();
    assert_eq!(text, "1");

    // A file that grows outside grows inside, and appending goes to its current end.
    let mut log = File::options()
        .append(true)
        .create(true)
        .open(view.seen("a/b/data/log"))
        .unwrap();
    log.write_all(b"inside\n").unwrap();
    File::options()
        .append(true)
        .open(view.host("a/b/data/log"))
        .unwrap()
        .write_all(b"outside\n")
        .unwrap();
    log.write_all(b"inside\n").unwrap();
    assert_eq!(
        fs::read_to_string(view.host("a/b/data/log")).unwrap(),
        "inside\noutside\ninside\n"
    );

    // Settings cannot be changed in any way, and links cannot be created among shared files.
    let settings = view.seen("a/settings/s");
    assert_eq!(kind(fs::write(&settings, "x")), ErrorKind::PermissionDenied);
    assert_eq!(kind(fs::remove_file(&settings)), ErrorKind::PermissionDenied);
    assert_eq!(
        kind(fs::write(view.seen("a/settings/new"), "x")),
        ErrorKind::PermissionDenied
    );
    assert_eq!(
        kind(fs::rename(view.seen("secret"), &settings)),
        ErrorKind::PermissionDenied
    );
    assert_eq!(
        kind(symlink("/etc/passwd", view.seen("a/b/data/link"))),
        ErrorKind::PermissionDenied
    );
    assert_eq!(fs::read_to_string(view.host("a/settings/s")).unwrap(), "s");

    // A directory that the host lacks is created when a shared file in it is.
    fs::remove_dir_all(view.host("a/b")).unwrap();
    fs::create_dir_all(view.seen("a/b/data/new")).unwrap();
    assert!(view.host("a/b/data/new").is_dir());

    // A shared file cannot be moved out: it would disappear with the view.
    assert_eq!(
        kind(fs::rename(view.seen("state"), view.seen("gone"))),
        ErrorKind::CrossesDevices
    );
}

#[test]
fn ways_to_private_places_are_asked_for_once() {
    let view = View::new(Transport::Device, &["/a/b/data/**=write"]);
    view.put("a/b/data/x", "x");
    let place = view.seen("a/b/private");
    fs::create_dir_all(&place).unwrap();
    assert!(place.is_dir());
    let before = view.session.counters().total();
    for _ in 0..10 {
        assert!(place.is_dir());
    }
    let asked = view.session.counters().total() - before;
    assert!(asked < 10, "{asked} requests");
    // Files that are created in it meanwhile appear immediately.
    fs::create_dir(place.join("new")).unwrap();
    assert_eq!(names(&place), ["new"]);
    assert_eq!(names(&view.seen("a/b")), ["data", "private"]);
    fs::remove_dir(place.join("new")).unwrap();
    fs::rename(&place, view.seen("a/moved")).unwrap();
    assert_eq!(kind(fs::metadata(&place)), ErrorKind::NotFound);
    // The host's own files are examined each time.
    fs::write(view.host("a/b/data/x"), "longer").unwrap();
    assert_eq!(fs::read_to_string(view.seen("a/b/data/x")).unwrap(), "longer");
}

#[test]
fn a_view_over_the_device_shows_what_rules_share() {
    check_all(Transport::Device);
}

#[test]
fn a_view_over_rings_shows_what_rules_share() {
    // As in the other tests over io_uring: it is switched on if it is off.
    fs::write("/sys/module/fuse/parameters/enable_uring", "1").expect("io_uring of FUSE needs Linux 6.14");
    check_all(Transport::Uring);
}
