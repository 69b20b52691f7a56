//! A host directory as the base of a vault that is mounted, and one whose owner is killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use agentvfs::mount::{MountHost, MountOptions, Mounts, UnmountMode, VaultMount, connect};
use agentvfs::{Error, NewTask, Rhythm, ServedVault, Store, TakingAhead, Vault, VaultLimits};
use avfs_testkit::{TestChild, acknowledge, child_task};
use support::{name, path};

struct Scene {
    place: tempfile::TempDir,
    store: Store,
}

impl Scene {
    fn new() -> Scene {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("project/src")).unwrap();
        fs::write(place.path().join("project/README"), "a project").unwrap();
        fs::write(place.path().join("project/src/main.c"), "int main() {}").unwrap();
        let store = Store::open(&place.path().join("store")).unwrap();
        Scene { place, store }
    }

    fn project(&self) -> PathBuf {
        self.place.path().join("project")
    }

    fn vault(&self) -> Vault {
        let source = self.store.projects().source_for(&self.project()).unwrap();
        self.store
            .projects()
            .create_vault_on(&name("task"), source, VaultLimits::default())
            .unwrap()
    }

    fn mounted(&self) -> Mounted {
        self.mounted_with(&MountOptions::default())
    }

    fn mounted_with(&self, options: &MountOptions) -> Mounted {
        let dir = self.place.path().join("mount");
        fs::create_dir(&dir).unwrap();
        Mounted::new(&self.vault(), dir, options)
    }
}

/// A mount that this process serves; unmounted when it is dropped.
struct Mounted {
    dir: PathBuf,
    served: Option<ServedVault>,
    mounts: Arc<Mounts>,
}

impl Mounted {
    fn new(vault: &Vault, dir: PathBuf, options: &MountOptions) -> Mounted {
        let open = Arc::new(vault.open().unwrap());
        let mounts = Mounts::new(Arc::clone(&open), Arc::new(|_: &str| {}));
        let log = Arc::new(|error: &Error| panic!("{error}"));
        let host = Arc::new(MountHost(Arc::clone(&mounts)));
        let served = ServedVault::start(open, host, Rhythm::default(), log).unwrap();
        let connection = connect("task", &dir, options).unwrap();
        served.mount(&dir, &options.words(), Some(connection)).unwrap();
        Mounted {
            dir,
            served: Some(served),
            mounts,
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.mounts.detach_all();
        self.mounts.await_last();
        if let Some(served) = self.served.take() {
            served.close().unwrap();
        }
    }
}

#[track_caller]
fn run(dir: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b")])
        .envs([
            ("GIT_COMMITTER_NAME", "a"),
            ("GIT_COMMITTER_EMAIL", "a@b"),
            ("GIT_OPTIONAL_LOCKS", "0"),
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn git_finds_nothing_changed_and_reads_no_file_that_it_tracks() {
    const FILES: usize = 2_000;
    let scene = Scene::new();
    let project = scene.project();
    for number in 0..FILES {
        let directory = project.join(format!("d{}", number % 40));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{number}")), format!("text {number}")).unwrap();
    }
    // Or git would have to look into files that are as new as its index.
    run(
        &project,
        "find",
        &[".", "-type", "f", "-exec", "touch", "-d", "1 hour ago", "{}", "+"],
    );
    run(&project, "git", &["init", "-q"]);
    run(&project, "git", &["add", "-A"]);
    run(&project, "git", &["commit", "-qm", "all"]);
    let mounted = scene.mounted();
    assert_eq!(run(&mounted.dir, "git", &["status", "--porcelain"]), "");
    let taken = scene.store.objects().files_taken();
    assert!(taken < 60, "{taken} files were read, most of them tracked ones");
    fs::write(mounted.dir.join("d1/f1"), "changed").unwrap();
    assert_eq!(run(&mounted.dir, "git", &["status", "--porcelain"]), " M d1/f1\n");
    assert_eq!(run(&project, "git", &["status", "--porcelain"]), "");
    run(&mounted.dir, "git", &["commit", "-qam", "inside"]);
    assert_eq!(run(&mounted.dir, "git", &["rev-list", "--count", "HEAD"]), "2\n");
    assert_eq!(run(&project, "git", &["rev-list", "--count", "HEAD"]), "1\n");
}

#[test]
fn git_reads_no_tracked_file_of_a_worktree_either() {
    const FILES: usize = 500;
    let scene = Scene::new();
    let project = scene.project();
    for number in 0..FILES {
        fs::write(project.join(format!("f{number}")), format!("text {number}")).unwrap();
        fs::write(project.join(format!("src/f{number}")), format!("more {number}")).unwrap();
    }
    run(&project, "git", &["init", "-q"]);
    run(&project, "git", &["add", "-A"]);
    run(&project, "git", &["commit", "-qm", "all"]);
    run(&project, "git", &["worktree", "add", "-q", "../tree"]);
    let tree = scene.place.path().join("tree");
    run(
        &tree,
        "find",
        &[".", "-type", "f", "-exec", "touch", "-d", "1 hour ago", "{}", "+"],
    );
    run(&tree, "git", &["update-index", "--refresh"]);
    let task = scene
        .store
        .project(&tree)
        .unwrap()
        .new_task(&NewTask::default())
        .unwrap();
    let dir = scene.place.path().join("mount");
    fs::create_dir(&dir).unwrap();
    let mounted = Mounted::new(task.vault(), dir, &MountOptions::default());
    assert_eq!(run(&mounted.dir, "git", &["status", "--porcelain"]), "");
    let taken = scene.store.objects().files_taken();
    assert!(taken < 60, "{taken} files were read, most of them tracked ones");
    fs::write(mounted.dir.join("f1"), "changed").unwrap();
    run(&mounted.dir, "git", &["commit", "-qam", "inside"]);
    assert_eq!(run(&mounted.dir, "git", &["rev-list", "--count", "HEAD"]), "2\n");
    assert_eq!(run(&tree, "git", &["rev-list", "--count", "HEAD"]), "1\n");
}

#[test]
fn a_mount_that_is_alone_takes_a_file_when_it_is_looked_at() {
    let scene = Scene::new();
    let mounted = scene.mounted_with(&MountOptions {
        exclusive: true,
        ..MountOptions::default()
    });
    let names = fs::read_dir(&mounted.dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["README", "src"]);
    assert_eq!(scene.store.objects().files_taken(), 0, "a listing takes nothing");
    fs::write(scene.project().join("README"), "a longer text, by the user").unwrap();
    let readme = mounted.dir.join("README");
    assert_eq!(fs::read_to_string(&readme).unwrap(), "a longer text, by the user");
    assert_eq!(fs::metadata(&readme).unwrap().len(), 26);

    let main = mounted.dir.join("src/main.c");
    assert_eq!(fs::metadata(&main).unwrap().len(), 13);
    fs::write(scene.project().join("src/main.c"), "int main() { return 1; }").unwrap();
    assert_eq!(
        fs::read_to_string(&main).unwrap(),
        "int main() {}",
        "as at the first read"
    );
    fs::remove_file(scene.project().join("src/main.c")).unwrap();
    assert_eq!(fs::read_to_string(&main).unwrap(), "int main() {}");
}

#[test]
fn a_mount_shows_the_version_that_the_user_has_by_now_and_never_half_of_one() {
    let scene = Scene::new();
    let mounted = scene.mounted();
    let readme = mounted.dir.join("README");
    assert_eq!(fs::metadata(&readme).unwrap().len(), 9);
    fs::write(scene.project().join("README"), "a longer text, by the user").unwrap();
    assert_eq!(fs::read_to_string(&readme).unwrap(), "a longer text, by the user");
    assert_eq!(fs::metadata(&readme).unwrap().len(), 26);
    fs::write(scene.project().join("README"), "yet another").unwrap();
    assert_eq!(fs::read_to_string(&readme).unwrap(), "a longer text, by the user");

    let gone = mounted.dir.join("src/main.c");
    assert!(gone.exists());
    fs::remove_file(scene.project().join("src/main.c")).unwrap();
    assert_eq!(
        fs::File::open(&gone).unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );
    assert!(!gone.exists());
}

#[test]
fn a_listing_with_attributes_looks_into_no_directory_below() {
    let scene = Scene::new();
    (0..50).for_each(|number| fs::create_dir(scene.project().join(format!("d{number}"))).unwrap());
    let mounted = scene.mounted();
    let shown = run(&mounted.dir, "ls", &["-l"]);
    assert_eq!(shown.lines().count(), 53, "{shown}");
    assert_eq!(
        scene.store.objects().all_kept().unwrap().ids().count(),
        1,
        "the topmost one alone"
    );
}

#[test]
fn file_in_a_mount_is_changed_there_alone() {
    let scene = Scene::new();
    let mounted = scene.mounted();
    let mut file = fs::File::options()
        .read(true)
        .write(true)
        .open(mounted.dir.join("README"))
        .unwrap();
    file.write_all(b"A").unwrap();
    fs::rename(mounted.dir.join("src"), mounted.dir.join("moved")).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, " project");
    assert_eq!(
        fs::read_to_string(mounted.dir.join("moved/main.c")).unwrap(),
        "int main() {}"
    );
    fs::remove_dir_all(mounted.dir.join("moved")).unwrap();
    assert_eq!(
        fs::read_to_string(scene.project().join("README")).unwrap(),
        "a project"
    );
    assert!(scene.project().join("src/main.c").exists());
}

/// Not a test itself: an owner that writes into promised files, and waits for its end.
#[test]
fn the_writer() {
    let Some((home, _)) = child_task() else { return };
    let open = Store::open(&home).unwrap().vault("task").unwrap().open().unwrap();
    let readme = open.stat(&path("/README")).unwrap().ino;
    open.tree().write(readme, 0, b"A").unwrap();
    open.write_bytes(&path("/src/new"), b"made").unwrap();
    open.remove(&path("/src/main.c"), false).unwrap();
    open.sync().unwrap();
    acknowledge("written");
    std::io::stdin().lock().lines().for_each(drop);
}

#[test]
fn writes_over_promises_outlive_their_owner_and_the_project() {
    let scene = Scene::new();
    let vault = scene.vault();
    let mut writer = TestChild::start("the_writer", &scene.place.path().join("store"), "");
    assert_eq!(writer.acknowledged().as_deref(), Some("written"));
    writer.kill();
    fs::write(scene.project().join("README"), "something else altogether").unwrap();
    fs::remove_dir_all(scene.project().join("src")).unwrap();
    let open = vault.begin().unwrap();
    assert_eq!(&open.read(&path("/README")).unwrap()[..], b"A project");
    assert_eq!(&open.read(&path("/src/new")).unwrap()[..], b"made");
    assert!(!open.exists(&path("/src/main.c")).unwrap());
    drop(open);
    assert!(scene.store.integrity().check(&mut |_, _| ()).unwrap().is_sound());
}

#[test]
fn what_programs_had_to_wait_for_is_in_memory_before_those_of_the_next_fork_request_it() {
    const PACKAGES: usize = 100;
    let scene = Scene::new();
    for number in 0..PACKAGES {
        let package = scene.project().join(format!("node_modules/p{number}"));
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("index.js"), format!("package {number}")).unwrap();
    }
    scene.vault().fork(&[name("first"), name("second")]).unwrap();
    // How many entries a program that reads all packages waits for.
    let waits = |fork: &str| {
        // What another process has in memory does not count.
        let store = Store::open(&scene.place.path().join("store")).unwrap();
        let vault = store.vault(fork).unwrap();
        TakingAhead::start(&vault, None, Duration::ZERO).finish();
        let dir = scene.place.path().join(fork);
        fs::create_dir(&dir).unwrap();
        let mounted = vault.mount(&dir, &MountOptions::default(), Arc::new(|_: &str| {}));
        let VaultMount::Here(service) = mounted.unwrap() else {
            panic!("nobody else owns it");
        };
        let read = run(&dir, "sh", &["-c", "cat node_modules/*/index.js"]);
        assert_eq!(read.matches("package").count(), PACKAGES);
        let waited = service.open().tree().requested_paths().len();
        service.unmount(&dir, UnmountMode::Force).unwrap();
        service.close().unwrap();
        waited
    };
    let first = waits("first");
    assert!(
        first > PACKAGES,
        "{first}: nothing below node_modules is read without a request"
    );
    let second = waits("second");
    assert!(second < 5, "{second} of {first}");
}
