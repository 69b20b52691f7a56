//! Caches of the host in a view, mounted: read from the host, written to a layer. Needs `/dev/fuse` and root.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use avfs_core::rules::{Rule, Rules};
use avfs_fuse::mounting::{self, FuseMountOptions, UnmountMode};
use avfs_fuse::transport::{FuseServing, ServingOptions, Transport};
use avfs_fuse::{CacheOptions, CachedPlace, FuseSession, PassthroughFs, PassthroughOptions, SessionSettings};

/// A home with a cache, and a layer that outlives its mounts.
struct Home {
    place: tempfile::TempDir,
    transport: Transport,
}

struct View<'a> {
    home: &'a Home,
    serving: Option<FuseServing>,
}

impl Home {
    fn new(transport: Transport) -> Home {
        let place = tempfile::tempdir().unwrap();
        for name in ["host/.cargo/registry", "elsewhere", "view", "layer"] {
            fs::create_dir_all(place.path().join(name)).unwrap();
        }
        Home { place, transport }
    }

    fn host(&self, path: &str) -> PathBuf {
        self.place.path().join("host").join(path)
    }

    fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.host(path).parent().unwrap()).unwrap();
        fs::write(self.host(path), text).unwrap();
    }

    fn mount(&self) -> View<'_> {
        let private = self.place.path().join("private");
        drop(fs::remove_dir_all(&private));
        fs::create_dir(&private).unwrap();
        let open = |path: &Path| File::open(path).unwrap().into();
        let cache = |below: &str, lower: Option<PathBuf>| CachedPlace {
            below: below.into(),
            lower: lower.map(|lower| open(&lower)),
        };
        let caches = vec![
            cache(".cargo/registry", Some(self.host(".cargo/registry"))),
            // The user has a link there, which leads out of the home.
            cache(".cache/pip", Some(self.place.path().join("elsewhere"))),
            cache(".npm/_cacache", None),
        ];
        let passed = PassthroughFs::new(PassthroughOptions {
            shared: open(&self.host("")),
            private: open(&private),
            rules: Rules::new(vec![Rule::parse("/.cargo/config.toml=read").unwrap()]).unwrap(),
            caches: Some(CacheOptions {
                read_only: false,
                caches,
                layer: open(&self.place.path().join("layer")),
                is_inspected: |path| path.ends_with(b"/config.json"),
                inspected_bytes: 1 << 10,
                is_secret: |_, bytes| bytes.windows(5).any(|part| part == b"token"),
            }),
            owner: None,
        });
        let place = self.place.path().join("view");
        let connection = mounting::mount(&place, &FuseMountOptions::new("test")).unwrap();
        let session = Arc::new(FuseSession::new(
            Arc::new(passed.unwrap()),
            SessionSettings::default(),
        ));
        let options = ServingOptions {
            transport: self.transport,
            ..ServingOptions::default()
        };
        View {
            home: self,
            serving: Some(FuseServing::start(session, connection, options).unwrap()),
        }
    }
}

impl View<'_> {
    fn at(&self, path: &str) -> PathBuf {
        self.home.place.path().join("view").join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        mounting::unmount(&self.at(""), UnmountMode::Detach).unwrap();
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

/// Every file below a directory with its contents and times.
fn state(top: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut all = Vec::new();
    let mut left = vec![top.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let (path, found) = entry
                .map(|entry| (entry.path(), entry.metadata().unwrap()))
                .unwrap();
            let bytes = if found.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            all.push((path.clone(), bytes, found.modified().unwrap()));
            left.extend(found.is_dir().then_some(path));
        }
    }
    all.sort();
    all
}

const REGISTRY: &str = ".cargo/registry";

fn check_all(transport: Transport) {
    let home = Home::new(transport);
    for (path, text) in [
        (".cargo/registry/src/a/lib.rs", "a"),
        (".cargo/registry/src/a/old.rs", "old"),
        (".cargo/registry/src/b/lib.rs", "b"),
        (".cargo/registry/index/plain/config.json", "{}"),
        (".cargo/registry/index/secret/config.json", "{\"token\": 1}"),
        (".cargo/config.toml", "settings"),
        (".cargo/credentials.toml", "secret"),
    ] {
        home.put(path, text);
    }
    fs::write(home.place.path().join("elsewhere/wheel"), "wheel").unwrap();
    symlink(home.place.path().join("elsewhere"), home.host(".cache")).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for file in ["src/a/lib.rs", "src/a/old.rs"] {
        let file = File::options()
            .write(true)
            .open(home.host(REGISTRY).join(file))
            .unwrap();
        file.set_modified(old).unwrap();
    }
    let before = state(&home.host(""));

    let view = home.mount();
    check_reading(&view, old);
    check_changing(&view, old);
    check_moving(&view);
    assert_eq!(state(&home.host("")), before, "nothing of the host is changed");
    drop(view);

    check_next_mount(&home);
}

/// Everything in the host's cache is visible, and files beside it are not.
fn check_reading(view: &View<'_>, old: SystemTime) {
    assert_eq!(names(&view.at("")), [".cache", ".cargo"]);
    assert_eq!(names(&view.at(".cargo")), ["config.toml", "registry"]);
    assert_eq!(names(&view.at(".cargo/registry/src")), ["a", "b"]);
    assert_eq!(view.read(".cargo/registry/src/a/lib.rs"), "a");
    assert_eq!(view.read(".cache/pip/wheel"), "wheel");
    let found = fs::metadata(view.at(".cargo/registry/src/a/lib.rs")).unwrap();
    assert_eq!(found.modified().unwrap(), old, "to the nanosecond");
    assert_eq!(
        kind(fs::read(view.at(".cargo/credentials.toml"))),
        ErrorKind::NotFound
    );
    // A file that holds a credential is hidden under every name that is inspected.
    assert_eq!(view.read(".cargo/registry/index/plain/config.json"), "{}");
    assert_eq!(
        kind(fs::read(view.at(".cargo/registry/index/secret/config.json"))),
        ErrorKind::NotFound
    );
    assert_eq!(names(&view.at(".cargo/registry/index/secret")), [""; 0]);
}

/// Changes are visible immediately, also to programs that have a file open, and a file stays the same file.
fn check_changing(view: &View<'_>, old: SystemTime) {
    let lib = view.at(".cargo/registry/src/a/lib.rs");
    let mut reader = File::open(&lib).unwrap();
    let number = fs::metadata(&lib).unwrap().ino();
    File::options()
        .append(true)
        .open(&lib)
        .unwrap()
        .write_all(b" more")
        .unwrap();
    assert_eq!(view.read(".cargo/registry/src/a/lib.rs"), "a more");
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "a more");
    assert_eq!(fs::metadata(&lib).unwrap().ino(), number);

    // A change of only mode and times also goes to the copy.
    let other = view.at(".cargo/registry/src/a/old.rs");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
    let found = fs::metadata(&other).unwrap();
    assert_eq!((found.modified().unwrap(), found.mode() & 0o777), (old, 0o600));

    // A name can be created only once, even if only the host has it.
    let again = File::options()
        .write(true)
        .create_new(true)
        .open(view.at(".cargo/registry/src/b/lib.rs"));
    assert_eq!(kind(again), ErrorKind::AlreadyExists);
    assert_eq!(
        kind(fs::create_dir(view.at(".cargo/registry/src/b"))),
        ErrorKind::AlreadyExists
    );
    fs::create_dir_all(view.at(".cargo/registry/src/c/deep")).unwrap();
    fs::write(view.at(".cargo/registry/src/c/deep/lib.rs"), "c").unwrap();
    symlink("deep/lib.rs", view.at(".cargo/registry/src/c/link")).unwrap();
    assert_eq!(view.read(".cargo/registry/src/c/link"), "c");
    fs::hard_link(
        view.at(".cargo/registry/src/b/lib.rs"),
        view.at(".cargo/registry/src/c/linked"),
    )
    .unwrap();
    assert_eq!(view.read(".cargo/registry/src/c/linked"), "b");

    // A directory that the host lacks is created in the layer.
    fs::create_dir_all(view.at(".npm/_cacache/tmp")).unwrap();
    fs::write(view.at(".npm/_cacache/entry"), "entry").unwrap();
}

/// Removing and renaming, where the host has the same names.
fn check_moving(view: &View<'_>) {
    let src = |path: &str| view.at(".cargo/registry/src").join(path);
    fs::rename(view.at(".cache/pip/wheel"), view.at(".cache/pip/moved")).unwrap();
    assert_eq!(names(&view.at(".cache/pip")), ["moved"]);
    assert_eq!(view.read(".cache/pip/moved"), "wheel");
    fs::rename(src("b/lib.rs"), src("b/renamed.rs")).unwrap();
    assert_eq!(names(&src("b")), ["renamed.rs"]);
    assert_eq!(kind(fs::remove_dir(src("b"))), ErrorKind::DirectoryNotEmpty);
    assert_eq!(
        kind(fs::rename(src("a"), src("moved"))),
        ErrorKind::CrossesDevices
    );
    fs::remove_file(src("a/old.rs")).unwrap();
    assert_eq!(names(&src("a")), ["lib.rs"]);

    // A directory that was removed and created again does not show the host's entries.
    fs::remove_dir_all(src("b")).unwrap();
    fs::create_dir(src("b")).unwrap();
    assert_eq!(names(&src("b")), [""; 0]);
    // A directory of the layer takes the place of one of the host.
    fs::remove_dir(src("b")).unwrap();
    fs::rename(src("c"), src("b")).unwrap();
    assert_eq!(names(&src("b")), ["deep", "link", "linked"]);

    // From the private part into a cache.
    fs::write(view.at("private-file"), "p").unwrap();
    fs::rename(view.at("private-file"), src("a/lib.rs")).unwrap();
    assert_eq!(fs::read_to_string(src("a/lib.rs")).unwrap(), "p");
    assert_eq!(
        kind(fs::rename(view.at(".cargo/config.toml"), src("config"))),
        ErrorKind::PermissionDenied
    );
}

/// The layer is there in the next mount, and the host's files behind it are in their current state.
fn check_next_mount(home: &Home) {
    let view = home.mount();
    let src = |path: &str| view.at(".cargo/registry/src").join(path);
    assert_eq!(names(&src("a")), ["lib.rs"]);
    assert_eq!(fs::read_to_string(src("a/lib.rs")).unwrap(), "p");
    assert_eq!(names(&src("b")), ["deep", "link", "linked"]);
    assert_eq!(view.read(".npm/_cacache/entry"), "entry");
    assert_eq!(names(&view.at("")), [".cache", ".cargo", ".npm"]);
    home.put(".cargo/registry/new-on-host", "new");
    assert_eq!(view.read(".cargo/registry/new-on-host"), "new");
}

#[test]
fn caches_over_the_device_are_read_from_the_host_and_written_to_a_layer() {
    check_all(Transport::Device);
}

#[test]
fn caches_over_rings_are_read_from_the_host_and_written_to_a_layer() {
    // As in the other tests over io_uring: it is switched on if it is off.
    fs::write("/sys/module/fuse/parameters/enable_uring", "1").expect("io_uring of FUSE needs Linux 6.14");
    check_all(Transport::Uring);
}
