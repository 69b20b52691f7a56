//! A host directory as the base of a vault.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::Path;

use agentvfs::{Error, Store, Vault};
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
        let source = self.store.source_for(&self.project()).unwrap();
        self.store.create_vault_on(&name(called), source, agentvfs::Limits::default()).unwrap()
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
    let names: Vec<String> =
        reader.list(&path("/src")).unwrap().map(|entry| entry.unwrap().0.to_string()).collect();
    assert_eq!(names, ["deep", "main.c"]);
    assert_eq!(scene.store.objects().files_taken(), 1);
}

#[test]
fn what_was_kept_outlives_the_directory_and_the_process() {
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
    assert_eq!(Error::Read { vault: "task".into(), source: lost }.code(), "source-gone");
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
    let source = store.source_for(place.path()).unwrap();
    let vault = store.create_vault_on(&name("task"), source, agentvfs::Limits::default()).unwrap();
    let reader = vault.reader().unwrap();
    let names: Vec<String> =
        reader.list(&path("/")).unwrap().map(|entry| entry.unwrap().0.to_string()).collect();
    assert_eq!(names, ["file"]);
}

#[test]
fn directories_that_hold_more_than_a_project_are_refused() {
    let scene = Scene::new();
    let home = std::env::var_os("HOME").unwrap();
    let refused = [Path::new("/"), Path::new(&home), Path::new(&home).parent().unwrap()];
    for place in refused {
        assert_eq!(scene.store.source_for(place).unwrap_err().code(), "not-a-project", "{}", place.display());
    }
    let inside = scene.store.home().unwrap().to_owned();
    assert_eq!(scene.store.source_for(&inside).unwrap_err().code(), "not-a-project");
}
