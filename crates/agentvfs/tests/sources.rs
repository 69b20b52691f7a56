//! A host directory as the base of a vault.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::Path;

use agentvfs::error::FileError;
use agentvfs::{Error, RetentionPolicy, SnapshotRetention, Store, StoreOptions, Vault};
use avfs_store::{EmbeddedStore, OpenOptions, RefEdit, RefRange, RefStore};
use support::{name, path};

/// A project, and a store beside it.
struct Scene {
    place: tempfile::TempDir,
    store: Store,
}

impl Scene {
    fn new() -> Scene {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("project/src/deep")).unwrap();
        let store = Store::open(&place.path().join("store")).unwrap();
        let scene = Scene { place, store };
        scene.write("README", "a project");
        scene.write("src/main.c", "int main() {}");
        scene.write("src/deep/data", "deep");
        scene
    }

    fn project(&self) -> std::path::PathBuf {
        self.place.path().join("project")
    }

    fn write(&self, at: &str, bytes: &str) {
        fs::write(self.project().join(at), bytes).unwrap();
    }

    fn vault(&self, called: &str) -> Vault {
        let source = self.store.projects().source_for(&self.project()).unwrap();
        self.store
            .projects()
            .create_vault_on(&name(called), source, agentvfs::VaultLimits::default())
            .unwrap()
    }
}

fn stored(vault: &Vault, at: &str) -> String {
    let bytes = vault.reader().unwrap().read(&path(at)).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_vault_starts_as_the_directory_is_and_reads_only_what_is_asked_for() {
    let scene = Scene::new();
    let vault = scene.vault("task");
    assert_eq!(scene.store.objects().files_taken(), 0);
    assert_eq!(stored(&vault, "/src/deep/data"), "deep");
    assert_eq!(scene.store.objects().files_taken(), 1);
    let reader = vault.reader().unwrap();
    let names: Vec<String> = reader
        .list(&path("/src"))
        .unwrap()
        .map(|entry| entry.unwrap().0.to_string())
        .collect();
    assert_eq!(names, ["deep", "main.c"]);
    assert_eq!(scene.store.objects().files_taken(), 1);
}

#[test]
fn kept_files_outlive_the_directory_and_the_process() {
    let scene = Scene::new();
    let vault = scene.vault("task");
    assert_eq!(stored(&vault, "/README"), "a project");
    let Scene { place, store } = scene;
    drop((vault, store));
    fs::remove_dir_all(place.path().join("project")).unwrap();
    let store = Store::open(&place.path().join("store")).unwrap();
    let vault = store.vault("task").unwrap();
    assert_eq!(stored(&vault, "/README"), "a project");
    let lost = vault.reader().unwrap().read(&path("/src/main.c")).unwrap_err();
    assert_eq!(
        Error::File(FileError::Read {
            vault: "task".into(),
            source: lost
        })
        .code(),
        "source-gone"
    );
}

#[test]
fn a_second_vault_shares_what_the_first_one_kept() {
    let scene = Scene::new();
    assert_eq!(stored(&scene.vault("one"), "/README"), "a project");
    let second = scene.vault("two");
    assert_eq!(stored(&second, "/README"), "a project");
    assert_eq!(scene.store.objects().files_taken(), 1);
    scene.write("README", "another text");
    assert_eq!(stored(&scene.vault("three"), "/README"), "another text");
    assert_eq!(stored(&second, "/README"), "a project");
}

#[test]
fn a_store_in_the_project_is_left_out() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "x").unwrap();
    let store = Store::open(&place.path().join(".avfs")).unwrap();
    let source = store.projects().source_for(place.path()).unwrap();
    let vault = store
        .projects()
        .create_vault_on(&name("task"), source, agentvfs::VaultLimits::default())
        .unwrap();
    let reader = vault.reader().unwrap();
    let names: Vec<String> = reader
        .list(&path("/"))
        .unwrap()
        .map(|entry| entry.unwrap().0.to_string())
        .collect();
    assert_eq!(names, ["file"]);
}

#[test]
fn directories_that_hold_more_than_a_project_are_refused() {
    let scene = Scene::new();
    let home = std::env::var_os("HOME").unwrap();
    let refused = [
        Path::new("/"),
        Path::new(&home),
        Path::new(&home).parent().unwrap(),
    ];
    for place in refused {
        assert_eq!(
            scene.store.projects().source_for(place).unwrap_err().code(),
            "not-a-project",
            "{}",
            place.display()
        );
    }
    let inside = scene.store.home().unwrap().to_owned();
    assert_eq!(
        scene.store.projects().source_for(&inside).unwrap_err().code(),
        "not-a-project"
    );
}

fn live(vault: &Vault, at: &str) -> String {
    let bytes = vault.begin().unwrap().read(&path(at)).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The changes of a task, as its user sees them.
fn changes(scene: &Scene, vault: &Vault, base: agentvfs::SnapshotId) -> Vec<String> {
    let state = |id| {
        vault
            .reader_at(scene.store.projects().with_moved(id).unwrap())
            .unwrap()
    };
    let (before, after) = (state(base), state(vault.head().unwrap()));
    let mut found = Vec::new();
    before
        .diff(&after, &path("/"), &mut |seen| {
            found.push(seen.change.path.to_string());
            Ok(())
        })
        .unwrap();
    found
}

#[test]
fn changes_lie_on_top_of_what_was_promised() {
    let scene = Scene::new();
    let vault = scene.vault("task");
    let base = vault.head().unwrap();
    support::write(&vault, "/src/deep/new", "made here");
    support::change(&vault, |open| open.remove(&path("/README"), false).unwrap());
    assert_eq!(live(&vault, "/src/deep/new"), "made here");
    assert_eq!(live(&vault, "/src/deep/data"), "deep");
    assert_eq!(
        changes(&scene, &vault, base),
        ["/", "/README", "/src/deep", "/src/deep/new"]
    );
    assert!(scene.project().join("README").exists());
    assert!(!scene.project().join("src/deep/new").exists());
}

#[test]
fn unread_directory_can_be_moved_and_removed() {
    let scene = Scene::new();
    let vault = scene.vault("task");
    support::change(&vault, |open| {
        drop(open.rename(&path("/src"), &path("/source")).unwrap())
    });
    assert_eq!(live(&vault, "/source/deep/data"), "deep");
    support::change(&vault, |open| open.remove(&path("/source"), true).unwrap());
    let report = scene.store.integrity().check(&mut |_, _| ()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(vault.info().unwrap().files, 1);
}

#[test]
fn a_file_that_the_user_changed_first_is_taken_in_its_new_version_and_is_no_change() {
    let scene = Scene::new();
    let vault = scene.vault("task");
    let base = vault.head().unwrap();
    let open = vault.begin().unwrap();
    assert_eq!(
        open.stat(&path("/README")).unwrap().size,
        "a project".len() as u64
    );
    open.stat(&path("/src/main.c")).unwrap();
    scene.write("README", "a much longer text by the user");
    fs::remove_file(scene.project().join("src/main.c")).unwrap();
    assert_eq!(
        &open.read(&path("/README")).unwrap()[..],
        b"a much longer text by the user"
    );
    assert_eq!(
        open.stat(&path("/README")).unwrap().size,
        "a much longer text by the user".len() as u64
    );
    assert_eq!(open.read(&path("/src/main.c")).unwrap_err().code(), "not-found");
    assert!(!open.exists(&path("/src/main.c")).unwrap());
    open.write_bytes(&path("/mine"), b"x").unwrap();
    open.commit("write", "/mine").unwrap();
    assert_eq!(live(&vault, "/README"), "a much longer text by the user");
    assert_eq!(changes(&scene, &vault, base), ["/", "/mine"]);
}

#[test]
fn files_have_the_numbers_and_times_of_the_host_for_as_long_as_they_are_unchanged() {
    use std::os::unix::fs::MetadataExt;
    let scene = Scene::new();
    fs::hard_link(scene.project().join("README"), scene.project().join("src/again")).unwrap();
    fs::set_permissions(
        scene.project().join("src/main.c"),
        fs::metadata("/dev/null").unwrap().permissions(),
    )
    .unwrap();
    let vault = scene.vault("task");
    let check = |at: &str| {
        let host = fs::metadata(scene.project().join(at)).unwrap();
        let here = vault.begin().unwrap().stat(&path(at)).unwrap();
        assert_eq!(here.ino.0, host.ino(), "{at}");
        assert_eq!(
            (here.ctime.seconds, here.ctime.nanos),
            (host.ctime(), host.ctime_nsec() as u32),
            "{at}"
        );
        assert_eq!((here.meta.uid, here.meta.gid), (host.uid(), host.gid()), "{at}");
    };
    ["src", "src/main.c", "src/deep", "src/deep/data"]
        .into_iter()
        .for_each(check);
    support::write(&vault, "/src/new", "x");
    ["src/main.c", "src/deep", "src/deep/data"]
        .into_iter()
        .for_each(check);
    let open = vault.begin().unwrap();
    let linked = [
        open.stat(&path("/README")).unwrap(),
        open.stat(&path("/src/again")).unwrap(),
    ];
    assert_ne!(linked[0].ino, linked[1].ino);
    assert!(linked.iter().all(|attr| attr.ino.0 >= 1 << 48 && attr.names == 1));
}

#[test]
fn a_collection_keeps_what_promises_were_kept_as_and_forgets_it_with_them() {
    let scene = Scene::new();
    let vault = scene.vault("task");
    assert_eq!(stored(&vault, "/src/deep/data"), "deep");
    let collected = scene.store.collect_garbage(&mut |_| true).unwrap();
    assert!(collected.live > 0);
    fs::remove_dir_all(scene.project().join("src")).unwrap();
    assert_eq!(stored(&vault, "/src/deep/data"), "deep");
    assert!(scene.store.integrity().check(&mut |_, _| ()).unwrap().is_sound());
    vault.delete(false).unwrap();
    scene.store.collect_garbage(&mut |_| true).unwrap();
    assert_eq!(scene.store.objects().all_kept().unwrap().ids().count(), 0);
}

/// Removes refs directly from the store, as damage does.
fn lose_refs(home: &Path, prefix: &str) {
    let store = EmbeddedStore::open(home, OpenOptions::default()).unwrap();
    let lost = store.scan(&RefRange::prefix(prefix)).unwrap();
    assert!(!lost.is_empty());
    let edits: Vec<_> = lost
        .into_iter()
        .map(|(key, value)| RefEdit::delete(key, value))
        .collect();
    store.commit(&edits).unwrap();
}

#[test]
fn collection_keeps_what_was_kept_of_a_source_whose_record_is_lost() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.project().join("src")).unwrap();
    let vault = scene.vault("task");
    assert_eq!(stored(&vault, "/README"), "a project");
    let open = vault.begin().unwrap();
    open.write_bytes(&path("/new"), b"new").unwrap();
    open.commit("write", "/new").unwrap();
    // No state is left whose directories are promised: only a file is.
    let times = SnapshotRetention {
        all: 0,
        hourly: 0,
        daily: 0,
    };
    let policy = RetentionPolicy {
        times,
        disk_share: 0.0,
    };
    scene.store.prune(&policy, false).unwrap();
    let Scene { place, store } = scene;
    drop((vault, store));
    let home = place.path().join("store");
    lose_refs(&home, "source/");
    let store = Store::open(&home).unwrap();
    store.collect_garbage(&mut |_| true).unwrap();
    drop(store);
    // Nothing of it is in memory.
    let store = Store::open(&home).unwrap();
    assert_eq!(stored(&store.vault("task").unwrap(), "/README"), "a project");
}

#[test]
fn states_with_promises_of_a_lost_source_are_recovered_and_collected() {
    let scene = Scene::new();
    let vault = scene.vault("task");
    let change = |text: &str| {
        let open = vault.begin().unwrap();
        open.write_bytes(&path("/new"), text.as_bytes()).unwrap();
        open.commit("write", "/new").unwrap();
    };
    change("one");
    change("two");
    let Scene { place, store } = scene;
    drop((vault, store));
    let home = place.path().join("store");
    for file in ["store.db", "store.db-wal", "refs.log"] {
        fs::remove_file(home.join(file)).unwrap();
    }
    let repaired = Store::repair_at(&home, &StoreOptions::default()).unwrap();
    assert_eq!((repaired.recovered.len(), repaired.unreferenced), (1, 0));
    let states = |store: &Store| {
        let vault = store.vault("recovered-1").unwrap();
        let history = vault.history().entries(None, 10).unwrap();
        let texts = history.iter().filter_map(|entry| {
            let reader = vault.reader_at(entry.snapshot).unwrap();
            reader.read(&path("/new")).ok()
        });
        texts
            .map(|text| String::from_utf8(text.to_vec()).unwrap())
            .collect::<Vec<_>>()
    };
    Store::open(&home).unwrap().integrity().accept_repair().unwrap();
    Store::open(&home)
        .unwrap()
        .collect_garbage(&mut |_| true)
        .unwrap();
    let store = Store::open(&home).unwrap();
    assert_eq!(states(&store), ["two", "one"]);
    assert!(store.integrity().check(&mut |_, _| {}).unwrap().is_sound());
}

#[test]
fn a_vault_whose_files_lie_elsewhere_is_not_written_to_one_file() {
    let scene = Scene::new();
    let vault = scene.vault("task");
    let refused = vault
        .export_bundle(&mut Vec::new(), "nowhere", &mut |_| ())
        .unwrap_err();
    assert_eq!(refused.code(), "still-promised");
}

#[test]
fn going_back_to_the_start_looks_at_nothing_that_was_not_changed() {
    let scene = Scene::new();
    let vault = scene.vault("task");
    support::write(&vault, "/src/new", "x");
    support::write(&vault, "/README", "changed here");
    vault.undo().unwrap();
    vault.undo().unwrap();
    assert_eq!(scene.store.objects().files_taken(), 0);
    assert_eq!(live(&vault, "/README"), "a project");
    assert!(!vault.begin().unwrap().exists(&path("/src/new")).unwrap());
    assert!(scene.store.integrity().check(&mut |_, _| ()).unwrap().is_sound());
}

#[test]
fn a_file_that_was_written_as_it_was_is_no_change_of_contents() {
    let scene = Scene::new();
    let vault = scene.vault("task");
    let base = vault.head().unwrap();
    let mtime = vault.begin().unwrap().stat(&path("/README")).unwrap().meta.mtime;
    assert_eq!(live(&vault, "/README"), "a project");
    support::change(&vault, |open| {
        open.write_bytes(&path("/README"), b"a project").unwrap();
        open.set_mtime(&path("/README"), mtime).unwrap();
    });
    assert_eq!(live(&vault, "/README"), "a project");
    assert_eq!(changes(&scene, &vault, base), Vec::<String>::new());
}

/// The lines of one version of a file: as many as its number, all of them the same.
fn version(number: u32) -> String {
    format!("{number:08}\n").repeat(lines_of(number))
}

fn lines_of(number: u32) -> usize {
    number as usize % 400 + 1
}

/// Whether bytes are one version, or a file that was just truncated for rewriting.
fn is_whole(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).unwrap();
    let first = text.lines().next().map(|line| line.parse::<u32>().unwrap());
    first.is_none_or(|number| text == version(number))
}

#[test]
fn files_that_the_user_writes_renames_and_deletes_meanwhile_are_taken_whole_or_not_at_all() {
    use std::sync::atomic::{AtomicBool, Ordering};
    const FILES: u32 = 12;
    const ROUNDS: u32 = 15;
    let scene = Scene::new();
    let stop = AtomicBool::new(false);
    let file = |number: u32| scene.project().join(format!("file{number}"));
    (0..FILES).for_each(|number| fs::write(file(number), version(number)).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0u32..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let at = file(number % FILES);
                match number % 3 {
                    0 => fs::write(&at, version(number)).unwrap(),
                    1 => {
                        fs::write(scene.project().join("new"), version(number)).unwrap();
                        fs::rename(scene.project().join("new"), &at).unwrap();
                    }
                    _ => drop(fs::remove_file(&at)),
                }
                // Some are left alone for long enough to be promised in one version and taken in the next.
                std::thread::yield_now();
            }
        });
        let mut seen = 0;
        for round in 0..ROUNDS {
            let vault = scene.vault(&format!("task{round}"));
            let open = vault.begin().unwrap();
            for number in 0..FILES {
                let at = path(&format!("/file{number}"));
                let Ok(bytes) = open.read(&at) else { continue };
                assert!(is_whole(&bytes), "{:?}", std::str::from_utf8(&bytes));
                assert_eq!(open.stat(&at).unwrap().size, bytes.len() as u64);
                seen += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(seen > 0);
    });
}

#[test]
fn a_directory_that_becomes_a_link_never_leads_out_of_the_project() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let scene = Scene::new();
    let outside = scene.place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("data"), "SECRET").unwrap();
    let (inside, link) = (scene.project().join("src/deep"), scene.project().join("src/link"));
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let here = rustix::fs::CWD;
            while !stop.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(here, &inside, here, &link, rustix::fs::RenameFlags::EXCHANGE)
                    .unwrap();
            }
        });
        for round in 0..60 {
            let open = scene.vault(&format!("task{round}")).begin().unwrap();
            for at in ["/src/deep/data", "/src/link/data"] {
                let read = open.read(&path(at));
                assert!(
                    read.as_ref().map_or(true, |bytes| &bytes[..] != b"SECRET"),
                    "{at}"
                );
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn repository_and_small_files_are_read_ahead_but_not_unreadable_ones() {
    let scene = Scene::new();
    fs::create_dir_all(scene.project().join(".git/objects/pack")).unwrap();
    fs::create_dir_all(scene.project().join("node_modules/left-pad")).unwrap();
    scene.write(".git/objects/pack/one.pack", &"p".repeat(300 << 10));
    scene.write("node_modules/left-pad/index.js", "made by a tool");
    scene.write(".env", "SECRET=1");
    scene.write("large", &"x".repeat(300 << 10));
    let vault = scene.vault("task");
    let rules = ["/**=write", "/.env=none"].map(|rule| agentvfs::rules::Rule::parse(rule).unwrap());
    agentvfs::TakingAhead::start(&vault, Some(rules.to_vec()), std::time::Duration::ZERO).finish();
    let taken = scene.store.objects().files_taken();
    fs::remove_dir_all(scene.project()).unwrap();
    assert_eq!(stored(&vault, "/.git/objects/pack/one.pack").len(), 300 << 10);
    assert_eq!(stored(&vault, "/README"), "a project");
    assert_eq!(stored(&vault, "/src/deep/data"), "deep");
    for never in ["/.env", "/large"] {
        assert!(vault.reader().unwrap().read(&path(never)).is_err(), "{never}");
    }
    assert_eq!(taken, 4, "the pack, README, main.c and data");
}
