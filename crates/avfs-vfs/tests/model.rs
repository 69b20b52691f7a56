//! A filesystem and its forks behave as plain maps of their own, whatever is done to them.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;

use avfs_vfs::{Change, ChangeKind, Kind, Snapshot, Vfs};
use proptest::prelude::*;

/// `None` is a directory.
type Model = BTreeMap<String, Option<Vec<u8>>>;

const NAMES: [&str; 4] = ["a", "b", "c", "dd"];

#[derive(Clone, Debug)]
enum Op {
    Write(String, Vec<u8>),
    Append(String, Vec<u8>),
    Mkdir(String),
    Remove(String),
    Rename(String, String),
    Copy(String, String),
    Snapshot,
    Restore(usize),
    Fork,
    Switch(usize),
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&NAMES[..]), 1..4)
        .prop_map(|names| format!("/{}", names.join("/")))
}

fn op() -> impl Strategy<Value = Op> {
    let data = prop::collection::vec(any::<u8>(), 0..4);
    prop_oneof![
        6 => (path(), data.clone()).prop_map(|(path, data)| Op::Write(path, data)),
        2 => (path(), data).prop_map(|(path, data)| Op::Append(path, data)),
        2 => path().prop_map(Op::Mkdir),
        3 => path().prop_map(Op::Remove),
        3 => (path(), path()).prop_map(|(from, to)| Op::Rename(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Op::Copy(from, to)),
        1 => Just(Op::Snapshot),
        1 => (0usize..8).prop_map(Op::Restore),
        1 => Just(Op::Fork),
        1 => (0usize..8).prop_map(Op::Switch),
    ]
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn is_directory(model: &Model, path: &str) -> bool {
    path.is_empty() || model.get(path) == Some(&None)
}

fn below<'a>(model: &'a Model, path: &'a str) -> impl Iterator<Item = (&'a String, &'a Option<Vec<u8>>)> {
    let prefix = format!("{path}/");
    model
        .iter()
        .filter(move |(other, _)| *other == path || other.starts_with(&prefix))
}

/// Whether a file or directory can be put at a path, with the directories above made as needed.
fn can_make_parents(model: &Model, path: &str) -> bool {
    let mut above = parent(path);
    while !above.is_empty() {
        if matches!(model.get(above), Some(Some(_))) {
            return false;
        }
        above = parent(above);
    }
    true
}

fn make_parents(model: &mut Model, path: &str) {
    let mut above = parent(path).to_owned();
    while !above.is_empty() {
        model.insert(above.clone(), None);
        above = parent(&above).to_owned();
    }
}

/// What the call answers, as success or not; a failed one changes nothing.
fn apply_to_model(model: &mut Model, op: &Op) -> bool {
    match op {
        Op::Write(path, data) | Op::Append(path, data) => {
            if is_directory(model, path) || !can_make_parents(model, path) {
                return false;
            }
            make_parents(model, path);
            let old = model.insert(path.clone(), None).flatten();
            let mut content = old.filter(|_| matches!(op, Op::Append(..))).unwrap_or_default();
            content.extend(data);
            model.insert(path.clone(), Some(content));
            true
        }
        Op::Mkdir(path) => {
            if model.contains_key(path) || !can_make_parents(model, path) {
                return is_directory(model, path);
            }
            make_parents(model, path);
            model.insert(path.clone(), None);
            true
        }
        Op::Remove(path) => {
            let gone: Vec<String> = below(model, path).map(|(path, _)| path.clone()).collect();
            model.retain(|path, _| !gone.contains(path));
            !gone.is_empty()
        }
        Op::Rename(from, to) => transfer(model, from, to, true),
        Op::Copy(from, to) => {
            // Into the directory that is there.
            let name = from.rsplit_once('/').map_or("", |(_, name)| name);
            let inside = format!("{to}/{name}");
            let to = if is_directory(model, to) { &inside } else { to };
            !model.contains_key(to) && transfer(model, from, to, false)
        }
        Op::Snapshot | Op::Restore(_) | Op::Fork | Op::Switch(_) => true,
    }
}

fn transfer(model: &mut Model, from: &str, to: &str, is_move: bool) -> bool {
    let Some(node) = model.get(from).cloned() else {
        return false;
    };
    if from == to && is_move {
        return true;
    }
    let is_into_itself = to == from || to.starts_with(&format!("{from}/"));
    let fits = match (model.get(to), &node) {
        (None, _) => can_make_parents(model, to),
        (Some(None), None) => below(model, to).count() == 1,
        (Some(Some(_)), Some(_)) => true,
        (Some(_), _) => false,
    };
    if is_into_itself || !fits {
        return false;
    }
    let moved: Vec<_> = below(model, from)
        .map(|(path, node)| (path.clone(), node.clone()))
        .collect();
    if is_move {
        model.retain(|path, _| !moved.iter().any(|(moved, _)| moved == path));
    }
    make_parents(model, to);
    for (path, node) in moved {
        model.insert(format!("{to}{}", &path[from.len()..]), node);
    }
    true
}

fn apply(vfs: &Vfs, op: &Op) -> bool {
    match op {
        Op::Write(path, data) => vfs.write_file(path, data.clone(), None).is_ok(),
        Op::Append(path, data) => vfs.append_file(path, data.clone(), None).is_ok(),
        Op::Mkdir(path) => vfs.mkdir(path, true, true).is_ok(),
        Op::Remove(path) => vfs.remove(path, true).is_ok(),
        Op::Rename(from, to) => vfs.rename(from, to).is_ok(),
        Op::Copy(from, to) => vfs.copy(from, to, false).is_ok(),
        Op::Snapshot | Op::Restore(_) | Op::Fork | Op::Switch(_) => true,
    }
}

fn seen(vfs: &Vfs) -> Model {
    let node = |(path, entry): (avfs_vfs::TreePath, avfs_vfs::DirEntry)| {
        let path = path.to_string();
        let content = (entry.kind == Kind::File).then(|| vfs.read_file(&path).unwrap().to_vec());
        (path, content)
    };
    vfs.walk("/").unwrap().into_iter().map(node).collect()
}

fn differences(before: &Model, after: &Model) -> Vec<(String, ChangeKind)> {
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let mut changes = Vec::new();
    for path in paths {
        match (before.get(path), after.get(path)) {
            (Some(old), Some(new)) if old == new => {}
            (Some(Some(_)), Some(Some(_))) => changes.push((path.clone(), ChangeKind::Updated)),
            (Some(_), Some(_)) => {
                changes.push((path.clone(), ChangeKind::Deleted));
                changes.push((path.clone(), ChangeKind::Created));
            }
            (Some(_), None) => changes.push((path.clone(), ChangeKind::Deleted)),
            (None, _) => changes.push((path.clone(), ChangeKind::Created)),
        }
    }
    changes
}

fn told(changes: Vec<Change>) -> Vec<(String, ChangeKind)> {
    changes
        .into_iter()
        .map(|change| (change.path.to_string(), change.change))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_filesystem_and_its_forks_behave_as_maps(ops in prop::collection::vec(op(), 1..60)) {
        let mut systems = vec![(Vfs::new(), Model::new())];
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        let mut current = 0;
        // The versions that each path had, by filesystem.
        let mut versions: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new()];
        for op in ops {
            match &op {
                Op::Snapshot => snapshots.push((systems[current].0.snapshot().unwrap(), systems[current].1.clone())),
                Op::Restore(index) if !snapshots.is_empty() => {
                    let (snapshot, model) = &snapshots[index % snapshots.len()];
                    systems[current].0.restore(snapshot).unwrap();
                    systems[current].1 = model.clone();
                }
                Op::Fork => {
                    let (vfs, model) = &systems[current];
                    let fork = (vfs.fork().unwrap(), model.clone());
                    systems.push(fork);
                    versions.push(versions[current].clone());
                }
                Op::Switch(index) => current = index % systems.len(),
                _ => {
                    let (vfs, model) = &mut systems[current];
                    prop_assert_eq!(apply(vfs, &op), apply_to_model(model, &op), "{:?}", op);
                }
            }
            let (vfs, model) = &systems[current];
            prop_assert_eq!(&seen(vfs), model, "after {:?}", op);
            let usage = vfs.usage();
            let bytes: usize = model.values().flatten().map(Vec::len).sum();
            prop_assert_eq!((usage.entries, usage.bytes), (model.len() as u64, bytes as u64));
            for (path, entry) in vfs.walk("/").unwrap() {
                if entry.kind == Kind::File {
                    let last = versions[current].entry(path.to_string()).or_default();
                    prop_assert!(entry.version >= *last && entry.version > 0, "{} went back", path);
                    *last = entry.version;
                }
            }
        }
        for (vfs, model) in &systems {
            prop_assert_eq!(&seen(vfs), model);
            for (snapshot, old) in &snapshots {
                let mut expected = differences(old, model);
                let mut found = told(vfs.changes(snapshot).unwrap());
                expected.sort_by(|a, b| (&a.0, a.1.as_str()).cmp(&(&b.0, b.1.as_str())));
                found.sort_by(|a, b| (&a.0, a.1.as_str()).cmp(&(&b.0, b.1.as_str())));
                prop_assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn changes_and_restores_cost_what_differs() {
    let vfs = Vfs::new();
    for number in 0..20_000 {
        vfs.write_file(format!("/d{}/{number}", number % 10), "x", None)
            .unwrap();
    }
    let before = vfs.snapshot().unwrap();
    let fork = vfs.fork().unwrap();
    fork.write_file("/d3/13", "y", None).unwrap();
    assert_eq!(
        told(fork.changes(&before).unwrap()),
        [("/d3/13".to_owned(), ChangeKind::Updated)]
    );
    assert!(vfs.changes(&before).unwrap().is_empty());
    fork.restore(&before).unwrap();
    assert!(fork.changes(&before).unwrap().is_empty());
    assert_eq!(fork.stat("/d3/13").unwrap().version, 3);
}
