//! Rules filter a stored tree in the same way as a working tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use avfs_core::rules::{Rule, Rules};
use avfs_core::{Label, Meta, Totals};
use avfs_store::MemoryStore;
use proptest::prelude::*;

use super::*;
use crate::worktree::{BaseTree, InodeKind, NewEntry, SystemClock, WorkTree};
use crate::{FsError, Ino};

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

fn rules(texts: &[&str]) -> Rules {
    Rules::new(texts.iter().map(|text| Rule::parse(text).unwrap()).collect()).unwrap()
}

fn empty() -> WorkTree {
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    let root = Root {
        directory: Entry::empty_directory(Meta::default()),
        links: None,
        totals: Totals::default(),
    };
    WorkTree::in_memory(objects, BaseTree { root, inodes: None }, Arc::new(SystemClock)).unwrap()
}

/// Creates a file, or a directory if the path ends in `/`, with its parents.
fn put(tree: &WorkTree, text: &str, contents: &str) {
    let names: Vec<EntryName> = path(text.trim_end_matches('/')).components().collect();
    let mut at = Ino::ROOT;
    for (index, name) in names.iter().enumerate() {
        let is_file = index + 1 == names.len() && !text.ends_with('/');
        let new = if is_file {
            NewEntry::file(0o644)
        } else {
            NewEntry::directory(0o755)
        };
        at = match tree.create(at, name, new) {
            Ok(attr) => attr.ino,
            Err(FsError::Exists) => tree.lookup(at, name).unwrap().ino,
            Err(FsError::NotADirectory) => return,
            Err(error) => panic!("{text}: {error}"),
        };
        if is_file && tree.attr(at).unwrap().kind == InodeKind::File {
            tree.write(at, 0, contents.as_bytes()).unwrap();
        }
    }
}

fn stored(tree: &WorkTree) -> TreeReader {
    let objects = tree.objects();
    let frozen = tree.freeze().unwrap();
    TreeReader::new(objects, frozen.base().root.clone())
}

/// What a reader can learn about an entry: kind, mode, size of a file, and its bytes if they are readable.
type Learnt = (String, u32, u64, Option<Vec<u8>>);

fn learnt_from_stored(reader: &TreeReader) -> BTreeMap<TreePath, Learnt> {
    let mut all = BTreeMap::new();
    let mut open = vec![TreePath::root()];
    while let Some(at) = open.pop() {
        let Ok(found) = reader.find(&at) else { continue };
        let is_file = matches!(found.entry.kind, EntryKind::File { .. });
        let size = if is_file { found.entry.size() } else { 0 };
        let bytes = reader.read(&at).ok().map(|bytes| bytes.to_vec());
        let kind = format!("{:?}", InodeKind::from(&found.entry.kind));
        all.insert(at.clone(), (kind, found.entry.meta.mode, size, bytes));
        if found.entry.is_directory() {
            let names = reader.list(&at).unwrap().map(|next| next.unwrap().0);
            open.extend(names.map(|name| at.join(&name)));
        }
    }
    all
}

fn learnt_from_living(door: &WorkTree) -> BTreeMap<TreePath, Learnt> {
    let mut all = BTreeMap::new();
    let mut open = vec![TreePath::root()];
    while let Some(at) = open.pop() {
        let Ok(attr) = door.resolve(&at) else { continue };
        let is_file = attr.kind == InodeKind::File;
        let size = if is_file { attr.size } else { 0 };
        let bytes = if is_file {
            door.read_all(attr.ino).ok().map(|bytes| bytes.to_vec())
        } else {
            None
        };
        all.insert(
            at.clone(),
            (format!("{:?}", attr.kind), attr.meta.mode, size, bytes),
        );
        if attr.kind == InodeKind::Directory {
            let names = door.read_directory(attr.ino, None, usize::MAX).unwrap();
            open.extend(names.iter().map(|(name, _)| at.join(name)));
        }
    }
    all
}

fn any_path() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof!["[ab]", Just(".env".to_owned()), Just("k.pem".to_owned())],
        1..4,
    )
    .prop_map(|names| names.join("/"))
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let name = prop_oneof![
        "[ab]",
        Just("*".to_owned()),
        Just("**".to_owned()),
        Just(".env".to_owned())
    ];
    let pattern = proptest::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let subject = prop_oneof![4 => pattern, 1 => Just("label:x".to_owned())];
    let level = prop_oneof![
        Just("none"),
        Just("view"),
        Just("read"),
        Just("append"),
        Just("write")
    ];
    (subject, level, 0..2)
        .prop_map(|(subject, level, priority)| Rule::parse(&format!("{subject}={level}@{priority}")).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn stored_and_living_trees_are_seen_alike(
        paths in proptest::collection::vec((any_path(), any::<bool>(), 0..6), 0..14),
        list in proptest::collection::vec(any_rule(), 0..6),
    ) {
        let tree = empty();
        for (text, is_directory, label) in &paths {
            put(&tree, &format!("{text}{}", if *is_directory { "/" } else { "" }), text);
            if *label == 0 && let Ok(attr) = tree.resolve(&path(text)) {
                tree.set_labels(attr.ino, [Label::new("x").unwrap()].into_iter().collect()).unwrap();
            }
        }
        let rules = Rules::new(list).unwrap();
        let reader = stored(&tree).through(rules.clone());
        let door = tree.another_door();
        door.set_rules(rules);
        prop_assert_eq!(learnt_from_stored(&reader), learnt_from_living(&door));
        for (text, _, _) in &paths {
            let at = path(text);
            prop_assert_eq!(reader.find(&at).is_ok(), door.resolve(&at).is_ok(), "{}", text);
        }
    }
}

fn changes(from: &TreeReader, to: &TreeReader) -> Vec<String> {
    let mut all = Vec::new();
    from.diff(to, &TreePath::root(), &mut |seen| {
        let side = |entry: &Option<Entry>| entry.is_some();
        let before = side(&seen.change.before);
        let after = side(&seen.change.after);
        all.push(format!(
            "{} {before} {after} {}",
            seen.change.path, seen.changes_content
        ));
        Ok(())
    })
    .unwrap();
    all
}

#[test]
fn hidden_entry_is_in_no_difference() {
    let tree = empty();
    put(&tree, "src/a", "1");
    put(&tree, "secret/k", "1");
    put(&tree, "log/x", "1");
    let before = stored(&tree);
    put(&tree, "src/a", "2");
    put(&tree, "secret/k", "2");
    put(&tree, "secret/new", "2");
    put(&tree, "log/x", "2");
    let after = stored(&tree);
    let rules = rules(&["/**=read", "/secret/**=none", "/log/**=view"]);
    let before = before.through(rules.clone());
    let after = after.through(rules);
    assert_eq!(
        changes(&before, &after),
        ["/log/x true true true", "/src/a true true true"]
    );
}

#[test]
fn file_that_becomes_hidden_does_not_count_as_removed() {
    let tree = empty();
    put(&tree, "a", "1");
    let before = stored(&tree);
    let ino = tree.resolve(&path("a")).unwrap().ino;
    tree.set_labels(ino, [Label::new("x").unwrap()].into_iter().collect())
        .unwrap();
    let after = stored(&tree);
    let rules = rules(&["/**=read", "label:x=none@1"]);
    let before = before.through(rules.clone());
    let after = after.through(rules);
    assert_eq!(changes(&before, &after), Vec::<String>::new());
    assert_eq!(changes(&after, &before), ["/a false true true"]);
}

#[test]
fn contents_that_may_not_be_read_are_not_given_out() {
    let tree = empty();
    put(&tree, "a/b", "secret");
    let ino = tree.resolve(&path("a/b")).unwrap().ino;
    tree.set_xattr(ino, b"user.x", b"1").unwrap();
    tree.create(
        Ino::ROOT,
        &path("l").components().next().unwrap(),
        NewEntry::symlink(b"a/b"),
    )
    .unwrap();
    let reader = stored(&tree).through(rules(&["/**=view"]));
    let found = reader.find(&path("a/b")).unwrap();
    assert_eq!(
        found.entry.kind,
        EntryKind::File {
            size: 6,
            content: Content::Empty
        }
    );
    assert!(found.entry.meta.xattrs.is_empty());
    assert_eq!(
        reader.find(&path("l")).unwrap().entry.kind,
        EntryKind::Symlink {
            target: Box::default()
        }
    );
    let refused = reader.read(&path("a/b")).unwrap_err().to_string();
    assert_eq!(refused, "/a/b: the rules give view there, and this takes read");
    assert_eq!(
        reader.totals(),
        Some(stored(&tree).root().totals),
        "nothing is hidden"
    );
    assert_eq!(reader.through(rules(&["/a/**=read"])).totals(), None);
}

#[test]
fn a_directory_with_hidden_entries_only_is_empty() {
    let tree = empty();
    put(&tree, "a/k", "1");
    let reader = stored(&tree).through(rules(&["/**=read", "**/k=none"]));
    let found = reader.find(&path("a")).unwrap();
    assert_eq!(
        found.entry.kind,
        EntryKind::Directory {
            entries: None,
            below: Totals::default()
        }
    );
    assert_eq!(reader.list(&path("a")).unwrap().count(), 0);
}
