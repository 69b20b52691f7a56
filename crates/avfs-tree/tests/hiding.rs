//! Hidden entries are hidden from every call: two trees that differ only in hidden entries answer alike.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;
use std::sync::Arc;

use avfs_core::rules::{Rule, Rules};
use avfs_core::{Entry, EntryName, Label, Meta, Root, Timestamp, Totals, TreePath};
use avfs_store::MemoryStore;
use avfs_tree::{
    Attr, BaseTree, EntryPlace, FsError, Ino, InodeKind, NewEntry, Objects, SetAttr, TreeClock, WorkTree,
};
use proptest::prelude::*;

/// A clock that stands still: hidden changes must not show in the times of a directory either.
struct Noon;

impl TreeClock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp {
            seconds: 1_000,
            nanos: 0,
        }
    }
}

/// Hides every name that begins with `h`, and labelled entries.
const RULES: [&str; 3] = ["/**=write", "**/h*/=none", "label:private=none@1"];

struct Pair {
    /// A tree with hidden entries, and one without.
    trees: [WorkTree; 2],
    doors: [WorkTree; 2],
}

fn name(text: &str) -> EntryName {
    EntryName::new(text.as_bytes()).unwrap()
}

fn tree() -> WorkTree {
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    let root = Entry::empty_directory(Meta {
        mode: 0o755,
        ..Meta::default()
    });
    let base = BaseTree {
        root: Root {
            directory: root,
            links: None,
            totals: Totals::default(),
        },
        inodes: None,
    };
    WorkTree::in_memory(objects, base, Arc::new(Noon)).unwrap()
}

impl Pair {
    fn new() -> Pair {
        let trees = [tree(), tree()];
        for host in &trees {
            let directory = |parent: Ino, text: &str| {
                host.create(parent, &name(text), NewEntry::directory(0o755))
                    .unwrap()
                    .ino
            };
            let a = directory(Ino::ROOT, "a");
            let b = directory(Ino::ROOT, "b");
            let file = host.create(a, &name("f"), NewEntry::file(0o644)).unwrap().ino;
            host.write(file, 0, b"text").unwrap();
            host.create(b, &name("l"), NewEntry::symlink(b"../a/f")).unwrap();
        }
        hide_things(&trees[0]);
        let doors = [&trees[0], &trees[1]].map(|host| {
            let door = host.holding_door();
            door.set_rules(Rules::new(RULES.map(|rule| Rule::parse(rule).unwrap()).to_vec()).unwrap());
            door
        });
        Pair { trees, doors }
    }

    /// Performs the same call through both doors; the answers must be equal.
    fn alike<T: Debug>(&self, act: impl Fn(&WorkTree) -> Result<T, FsError>) -> Result<(), TestCaseError> {
        let [with, without] = [&self.doors[0], &self.doors[1]].map(|door| told(act(door)));
        prop_assert_eq!(with, without);
        Ok(())
    }

    fn directory_with_hidden_things(&self, path: &TreePath) -> bool {
        self.trees[0]
            .resolve(path)
            .is_ok_and(|attr| self.hides_below(attr.ino))
    }

    fn hides_below(&self, directory: Ino) -> bool {
        let Ok(all) = self.trees[0].read_names(directory, None, 100) else {
            return false;
        };
        let seen = self.doors[0].read_names(directory, None, 100).unwrap_or_default();
        all.len() != seen.len() || all.iter().any(|(_, ino, _)| self.hides_below(*ino))
    }
}

fn told<T: Debug>(result: Result<T, FsError>) -> String {
    match result {
        // To the caller, missing and hidden entries look the same.
        Err(error) => format!("{:?}: {error}", error.errno()),
        Ok(value) => format!("{value:?}"),
    }
}

fn hide_things(host: &WorkTree) {
    for path in ["/", "/a", "/b"] {
        let parent = host
            .resolve(&TreePath::parse(path.as_bytes()).unwrap())
            .unwrap()
            .ino;
        host.create(parent, &name("h"), NewEntry::file(0o644)).unwrap();
        let below = host
            .create(parent, &name("hd"), NewEntry::directory(0o755))
            .unwrap()
            .ino;
        host.create(below, &name("f"), NewEntry::file(0o644)).unwrap();
        let labelled = host
            .create(parent, &name("p"), NewEntry::directory(0o755))
            .unwrap()
            .ino;
        host.create(labelled, &name("f"), NewEntry::file(0o644)).unwrap();
        host.set_labels(labelled, [Label::new("private").unwrap()].into_iter().collect())
            .unwrap();
    }
}

#[derive(Clone, Debug)]
enum Act {
    Look(TreePath),
    List(TreePath),
    Read(TreePath),
    Make(TreePath, u8),
    Write(TreePath, u8),
    Set(TreePath),
    Unlink(TreePath),
    RemoveDirectory(TreePath),
    RemoveTree(TreePath),
    Rename(TreePath, TreePath),
    NoReplace(TreePath, TreePath),
    Exchange(TreePath, TreePath),
    Link(TreePath, TreePath),
    Copy(TreePath, TreePath),
    Snapshot,
}

fn path() -> impl Strategy<Value = TreePath> {
    // `p` exists only as an entry that a label hides: only lookups of it are compared.
    let names = prop::sample::select(vec!["a", "b", "f", "l", "h", "hd", "hx"]);
    prop::collection::vec(names, 1..4).prop_map(|names| TreePath::parse(names.join("/").as_bytes()).unwrap())
}

fn act() -> impl Strategy<Value = Act> {
    let labelled = prop::sample::select(vec!["/p", "/p/f", "/a/p", "/a/p/f", "/b/p"]);
    prop_oneof![
        path().prop_map(Act::Look),
        labelled.prop_map(|text| Act::Look(TreePath::parse(text.as_bytes()).unwrap())),
        path().prop_map(Act::List),
        path().prop_map(Act::Read),
        (path(), 0u8..3).prop_map(|(path, kind)| Act::Make(path, kind)),
        (path(), 0u8..4).prop_map(|(path, how)| Act::Write(path, how)),
        path().prop_map(Act::Set),
        path().prop_map(Act::Unlink),
        path().prop_map(Act::RemoveDirectory),
        path().prop_map(Act::RemoveTree),
        (path(), path()).prop_map(|(from, to)| Act::Rename(from, to)),
        (path(), path()).prop_map(|(from, to)| Act::NoReplace(from, to)),
        (path(), path()).prop_map(|(from, to)| Act::Exchange(from, to)),
        (path(), path()).prop_map(|(from, to)| Act::Link(from, to)),
        (path(), path()).prop_map(|(from, to)| Act::Copy(from, to)),
        Just(Act::Snapshot),
    ]
}

fn place(door: &WorkTree, path: &TreePath) -> Result<EntryPlace, FsError> {
    let (parent, name) = path.split_last().unwrap();
    Ok(EntryPlace::new(door.resolve(&parent)?.ino, name))
}

fn list(door: &WorkTree, path: &TreePath) -> Result<Vec<(EntryName, Attr)>, FsError> {
    let ino = door.resolve(path)?.ino;
    let one_by_one = door.read_directory(ino, None, 1)?;
    let all = door.read_directory(ino, None, 100)?;
    assert_eq!(
        one_by_one.first().map(|(name, _)| name),
        all.first().map(|(name, _)| name)
    );
    let names = door.read_names(ino, None, 100)?;
    assert_eq!(names.len(), all.len());
    Ok(all)
}

fn read(door: &WorkTree, path: &TreePath) -> Result<String, FsError> {
    let attr = door.resolve(path)?;
    let bytes = match attr.kind {
        InodeKind::Symlink => door.read_link(attr.ino)?,
        _ => door.read_all(attr.ino)?.to_vec(),
    };
    Ok(format!(
        "{bytes:?} {:?} {:?}",
        door.list_xattrs(attr.ino)?,
        door.path(attr.ino)?
    ))
}

fn make(door: &WorkTree, path: &TreePath, kind: u8) -> Result<Attr, FsError> {
    let at = place(door, path)?;
    let new = match kind {
        0 => NewEntry::file(0o600),
        1 => NewEntry::directory(0o700),
        _ => NewEntry::symlink(b"x"),
    };
    door.create(at.parent, &at.name, new)
}

fn write(door: &WorkTree, path: &TreePath, how: u8) -> Result<u64, FsError> {
    let ino = door.resolve(path)?.ino;
    match how {
        0 => door.append(ino, b"more"),
        1 => door.write(ino, 1, b"x").map(|()| 0),
        2 => door
            .set_attr(
                ino,
                SetAttr {
                    size: Some(2),
                    ..SetAttr::default()
                },
            )
            .map(|attr| attr.size),
        _ => door.allocate(ino, 10).map(|()| 0),
    }
}

fn set(door: &WorkTree, path: &TreePath) -> Result<Attr, FsError> {
    let ino = door.resolve(path)?.ino;
    door.set_xattr(ino, b"user.a", b"1")?;
    door.set_attr(
        ino,
        SetAttr {
            mode: Some(0o640),
            ..SetAttr::default()
        },
    )
}

fn perform(pair: &Pair, act: &Act) -> Result<(), TestCaseError> {
    match act {
        Act::Look(path) => pair.alike(|door| door.resolve(path)),
        Act::List(path) => pair.alike(|door| list(door, path)),
        Act::Read(path) => pair.alike(|door| read(door, path)),
        Act::Make(path, kind) => pair.alike(|door| make(door, path, *kind)),
        Act::Write(path, how) => pair.alike(|door| write(door, path, *how)),
        Act::Set(path) => pair.alike(|door| set(door, path)),
        Act::Unlink(path) => pair.alike(|door| {
            let at = place(door, path)?;
            door.unlink(at.parent, &at.name)
        }),
        // A directory with hidden entries is not empty, which a caller that tries to remove it can notice.
        Act::RemoveDirectory(path) | Act::RemoveTree(path) if pair.directory_with_hidden_things(path) => {
            Ok(())
        }
        Act::Copy(path, _) if pair.directory_with_hidden_things(path) => Ok(()),
        Act::Rename(_, to) if pair.directory_with_hidden_things(to) => Ok(()),
        Act::RemoveDirectory(path) => pair.alike(|door| {
            let at = place(door, path)?;
            door.remove_directory(at.parent, &at.name)
        }),
        Act::RemoveTree(path) => pair.alike(|door| {
            let at = place(door, path)?;
            door.remove_tree(at.parent, &at.name)
        }),
        Act::Rename(from, to) => pair.alike(|door| door.rename(place(door, from)?, place(door, to)?)),
        Act::NoReplace(from, to) => {
            pair.alike(|door| door.rename_no_replace(place(door, from)?, place(door, to)?))
        }
        Act::Exchange(from, to) => pair.alike(|door| door.exchange(place(door, from)?, place(door, to)?)),
        Act::Link(from, to) => pair.alike(|door| {
            let at = place(door, to)?;
            door.link(door.resolve(from)?.ino, at.parent, &at.name)
        }),
        Act::Copy(from, to) => pair.alike(|door| {
            let at = place(door, to)?;
            door.copy(door.resolve(from)?.ino, at.parent, &at.name)
        }),
        Act::Snapshot => {
            pair.trees.iter().for_each(|tree| tree.freeze().unwrap().settle());
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn trees_that_differ_in_hidden_entries_alone_answer_alike(acts in prop::collection::vec(act(), 1..60)) {
        let pair = Pair::new();
        for act in &acts {
            perform(&pair, act)?;
        }
        pair.alike(|door| Ok(door.occupied_space()))?;
    }
}
