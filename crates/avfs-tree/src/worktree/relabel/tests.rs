//! Views obey changed labels immediately, wherever they were changed.

use std::sync::{Arc, Mutex};

use avfs_core::diff::diff_trees;
use avfs_core::rules::{Level, Rule, Rules};
use avfs_core::{Entry, EntryName, Label, Labels, Meta, Root, Totals, TreePath};
use avfs_store::MemoryStore;

use super::*;
use crate::FsError;
use crate::objects::{ObjectError, Objects};
use crate::worktree::{BaseTree, NewEntry, SystemClock, Watcher, WorkTree};

#[derive(Default)]
struct HeardInvalidations(Mutex<Vec<Invalidation>>);

impl Watcher for HeardInvalidations {
    fn invalidate(&self, invalidation: Invalidation) {
        self.0.lock().unwrap().push(invalidation);
    }
}

fn name(text: &str) -> EntryName {
    EntryName::new(text.as_bytes()).unwrap()
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

fn private() -> Labels {
    [Label::new("private").unwrap()].into_iter().collect()
}

/// A tree with `/a/b/c`, and a door to it for a kernel, which does not see private entries.
struct LabelScene {
    host: WorkTree,
    door: WorkTree,
    heard: Arc<HeardInvalidations>,
    inos: [Ino; 3],
}

impl LabelScene {
    fn new() -> LabelScene {
        let objects = Objects::new(Arc::new(MemoryStore::new()));
        let directory = Entry::empty_directory(Meta::default());
        let root = Root {
            directory,
            links: None,
            totals: Totals::default(),
        };
        let base = BaseTree { root, inodes: None };
        let host = WorkTree::in_memory(objects, base, Arc::new(SystemClock)).unwrap();
        let a = host
            .create(Ino::ROOT, &name("a"), NewEntry::directory(0o755))
            .unwrap()
            .ino;
        let b = host
            .create(a, &name("b"), NewEntry::directory(0o755))
            .unwrap()
            .ino;
        let c = host.create(b, &name("c"), NewEntry::file(0o644)).unwrap().ino;
        host.write(c, 0, b"secret").unwrap();
        let frozen = host.freeze().unwrap();
        frozen.settle();
        let door = host.holding_door();
        let list = ["/**=write", "label:private=none"].map(|text| Rule::parse(text).unwrap());
        door.set_rules(Rules::new(list.to_vec()).unwrap());
        let heard = Arc::new(HeardInvalidations::default());
        door.watch(Arc::clone(&heard) as _);
        let scene = LabelScene {
            host,
            door,
            heard,
            inos: [a, b, c],
        };
        scene.walk();
        scene
    }

    /// Visits everything, as a kernel that then caches the answers.
    fn walk(&self) {
        let [a, b, _] = self.inos;
        for (parent, text) in [(Ino::ROOT, "a"), (a, "b"), (b, "c")] {
            self.door.lookup(parent, &name(text)).unwrap();
        }
    }

    fn read(&self) -> Result<usize, FsError> {
        self.door.read(self.inos[2], 0, &mut [0; 6])
    }

    /// Whether the door was notified to forget the file's name, its bytes, and the listing that contains it.
    #[track_caller]
    fn check_told_to_forget(&self) {
        let heard = std::mem::take(&mut *self.heard.0.lock().unwrap());
        let [a, b, c] = self.inos;
        let all_of = |ino| Invalidation::Contents {
            ino,
            offset: 0,
            len: 0,
        };
        let named = |parent, text| Invalidation::Name {
            parent,
            name: name(text),
        };
        let expected = [
            named(Ino::ROOT, "a"),
            named(a, "b"),
            named(b, "c"),
            all_of(a),
            all_of(b),
            all_of(c),
        ];
        for invalidation in expected {
            assert!(heard.contains(&invalidation), "{invalidation:?} in {heard:?}");
        }
    }

    /// Moves to a stored state as the owner of a vault does.
    fn go_to(&self, to: BaseTree) {
        let objects = self.host.objects();
        let mut exclusive = self.host.exclusive();
        let mut changes = Vec::new();
        let before = exclusive.base().root.clone();
        diff_trees(&objects, &before, &to.root, &mut |change| {
            changes.push(change);
            Ok::<(), ObjectError>(())
        })
        .unwrap();
        exclusive.rebase(to, &changes, false).unwrap();
    }
}

#[test]
fn a_label_on_a_directory_closes_open_files_below_it_at_once() {
    let scene = LabelScene::new();
    assert_eq!(scene.read().unwrap(), 6);
    scene.host.set_labels(scene.inos[0], private()).unwrap();
    assert!(matches!(
        scene.read(),
        Err(FsError::Denied {
            level: Level::None,
            ..
        })
    ));
    assert!(matches!(
        scene.door.resolve(&path("/a/b/c")),
        Err(FsError::Hidden)
    ));
    scene.check_told_to_forget();
    scene.host.set_labels(scene.inos[0], Labels::default()).unwrap();
    assert_eq!(scene.read().unwrap(), 6);
    scene.check_told_to_forget();
}

#[test]
fn a_stored_state_with_other_labels_is_obeyed_at_once() {
    let scene = LabelScene::new();
    let plain = scene.host.exclusive().base().clone();
    let other = WorkTree::in_memory(scene.host.objects(), plain.clone(), Arc::new(SystemClock)).unwrap();
    let a = other.resolve(&path("/a")).unwrap().ino;
    other.set_labels(a, private()).unwrap();
    let labelled = other.freeze().unwrap().base().clone();
    scene.go_to(labelled);
    assert!(matches!(
        scene.read(),
        Err(FsError::Denied {
            level: Level::None,
            ..
        })
    ));
    assert!(matches!(scene.door.resolve(&path("/a")), Err(FsError::Hidden)));
    scene.check_told_to_forget();
    scene.go_to(plain);
    assert_eq!(scene.read().unwrap(), 6);
    scene.check_told_to_forget();
}

#[test]
fn a_stored_state_with_a_label_on_one_file_closes_that_file() {
    let scene = LabelScene::new();
    let plain = scene.host.exclusive().base().clone();
    let other = WorkTree::in_memory(scene.host.objects(), plain, Arc::new(SystemClock)).unwrap();
    other
        .set_labels(other.resolve(&path("/a/b/c")).unwrap().ino, private())
        .unwrap();
    scene.go_to(other.freeze().unwrap().base().clone());
    assert!(matches!(
        scene.read(),
        Err(FsError::Denied {
            level: Level::None,
            ..
        })
    ));
    assert!(scene.door.resolve(&path("/a/b")).is_ok());
    let listed = scene.door.read_directory(scene.inos[1], None, 9).unwrap();
    assert!(listed.is_empty(), "{listed:?}");
}

#[test]
fn doors_without_rules_are_told_of_the_attributes_only() {
    let scene = LabelScene::new();
    let plain = scene.host.another_door();
    let heard = Arc::new(HeardInvalidations::default());
    plain.watch(Arc::clone(&heard) as _);
    scene.host.set_labels(scene.inos[0], private()).unwrap();
    assert_eq!(
        *heard.0.lock().unwrap(),
        [Invalidation::Attributes(scene.inos[0])]
    );
}
