//! Random operations on a working tree and on a simple model of one, compared after every step; with
//! snapshots, reopening and crashes in between.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod model;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use avfs_core::diff::diff_trees;
use avfs_core::{Entry, EntryName, Meta, Root, Snapshot, Timestamp, Totals};
use avfs_store::MemoryStore;
use avfs_tree::{
    Attr, BaseTree, EntryPlace, FrozenTree, FsError, Ino, InodeKind as TreeKind, JournalPlace, NewEntry,
    ObjectWriter, Objects, SetAttr, TreeClock, WorkTree, validate,
};
use model::{Kind, Listing, MapNode, Model, Path};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Create(Path, u16),
    MakeDirectory(Path),
    Symlink(Path, Vec<u8>),
    Write(Path, u32, Vec<u8>),
    Resize(Path, u32),
    Punch(Path, u32, u32),
    Unlink(Path),
    RemoveDirectory(Path),
    RemoveTree(Path),
    Rename(Path, Path),
    Exchange(Path, Path),
    Link(Path, Path),
    SetMode(Path, u16),
    SetXattr(Path, Option<Vec<u8>>),
    Snapshot,
    Reopen,
    Sync,
    Crash,
    /// Every file is held, as by a kernel that knows it.
    Hold,
    /// Releases everything.
    Forget,
    /// Makes an earlier state the current one.
    Travel(usize),
    /// A snapshot that is being stored while other operations run.
    SlowSnapshot(Vec<Op>, End),
}

/// How a slow snapshot ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Settled,
    Abandoned,
    /// The process dies before the new head is committed, or right after that.
    CrashedBefore,
    CrashedAfter,
}

fn path() -> impl Strategy<Value = Path> {
    proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'c')], 1..4)
}

fn offset() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..100, 2 => 0u32..20_000, 1 => 0u32..2_000_000]
}

fn operation() -> impl Strategy<Value = Op> {
    let ends = prop_oneof![
        Just(End::Settled),
        Just(End::Abandoned),
        Just(End::CrashedBefore),
        Just(End::CrashedAfter)
    ];
    let slow = (proptest::collection::vec(change(), 0..20), ends)
        .prop_map(|(meanwhile, end)| Op::SlowSnapshot(meanwhile, end));
    prop_oneof![
        50 => change(),
        2 => Just(Op::Snapshot),
        1 => Just(Op::Reopen),
        1 => Just(Op::Crash),
        2 => any::<usize>().prop_map(Op::Travel),
        3 => slow,
    ]
}

fn change() -> impl Strategy<Value = Op> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        6 => (path(), 0u16..0o1000).prop_map(|(path, mode)| Op::Create(path, mode)),
        4 => path().prop_map(Op::MakeDirectory),
        1 => (path(), bytes()).prop_map(|(path, target)| Op::Symlink(path, target)),
        8 => (path(), offset(), bytes()).prop_map(|(path, at, bytes)| Op::Write(path, at, bytes)),
        3 => (path(), offset()).prop_map(|(path, size)| Op::Resize(path, size)),
        2 => (path(), offset(), offset()).prop_map(|(path, at, len)| Op::Punch(path, at, len)),
        3 => path().prop_map(Op::Unlink),
        1 => path().prop_map(Op::RemoveDirectory),
        2 => path().prop_map(Op::RemoveTree),
        5 => (path(), path()).prop_map(|(from, to)| Op::Rename(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Op::Exchange(from, to)),
        4 => (path(), path()).prop_map(|(from, to)| Op::Link(from, to)),
        2 => (path(), 0u16..0o1000).prop_map(|(path, mode)| Op::SetMode(path, mode)),
        2 => (path(), proptest::option::of(bytes())).prop_map(|(path, value)| Op::SetXattr(path, value)),
        2 => Just(Op::Sync),
        2 => Just(Op::Hold),
        2 => Just(Op::Forget),
    ]
}

/// Every reading is one second later.
struct Ticking(AtomicI64);

impl TreeClock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp {
            seconds: self.0.fetch_add(1, Ordering::Relaxed),
            nanos: 7,
        }
    }
}

struct Subject {
    objects: Objects,
    clock: Arc<Ticking>,
    directory: tempfile::TempDir,
    base: BaseTree,
    included: u64,
    tree: Arc<WorkTree>,
    held: Vec<Ino>,
}

impl Subject {
    fn new() -> Subject {
        let objects = Objects::new(Arc::new(MemoryStore::new()));
        let clock = Arc::new(Ticking(AtomicI64::new(1000)));
        let directory = tempfile::tempdir().unwrap();
        let root = Entry::empty_directory(Meta {
            mode: 0o755,
            ..Meta::default()
        });
        let root = Root {
            directory: root,
            links: None,
            totals: Totals::default(),
        };
        let base = BaseTree { root, inodes: None };
        let place = JournalPlace {
            directory: directory.path().into(),
            included: 0,
            reserve: None,
        };
        let tree = WorkTree::journaled(objects.clone(), base.clone(), clock.clone(), place).unwrap();
        tree.set_loaded_files(2);
        let tree = Arc::new(tree);
        let held = Vec::new();
        Subject {
            objects,
            clock,
            directory,
            base,
            included: 0,
            tree,
            held,
        }
    }

    fn snapshot(&mut self) {
        let tree = Arc::clone(&self.tree);
        let frozen = tree.freeze().unwrap();
        self.commit(&frozen);
        frozen.settle();
    }

    fn commit(&mut self, frozen: &FrozenTree<'_>) {
        self.base = frozen.base().clone();
        self.included = frozen.journal();
        self.assert_valid();
    }

    /// The claims of stored structures are true.
    fn assert_valid(&self) {
        let writer = ObjectWriter::new(&self.objects);
        let author = String::new();
        let reason = String::new();
        let root = self.base.root.clone();
        let snapshot = Snapshot {
            root,
            parents: Vec::new(),
            time: Timestamp::default(),
            author,
            reason,
        };
        let id = writer.put_snapshot(&snapshot).unwrap();
        writer.flush().unwrap();
        let flaws = validate(&self.objects, [(id, self.base.inodes)], 10);
        assert!(flaws.is_empty(), "{flaws:?}");
    }

    /// Reopens the tree from the last snapshot and the journal.
    fn open_again(&mut self) {
        let place = JournalPlace {
            directory: self.directory.path().into(),
            included: self.included,
            reserve: None,
        };
        let objects = self.objects.clone();
        let base = self.base.clone();
        let clock = self.clock.clone();
        self.tree = Arc::new(WorkTree::journaled(objects, base, clock, place).unwrap());
        self.tree.set_loaded_files(2);
        self.held.clear();
    }

    fn hold(&mut self) {
        for ino in self.listing().1.into_values() {
            self.tree.hold(ino).unwrap();
            self.held.push(ino);
        }
    }

    /// As a kernel does it: a directory is not forgotten before the inodes that the kernel knows in it.
    fn forget(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        let depth = |ino: &Ino| {
            self.tree
                .path(*ino)
                .unwrap()
                .map_or(0, |path| path.components().count())
        };
        held.sort_by_cached_key(|ino| std::cmp::Reverse(depth(ino)));
        for ino in held {
            self.tree.attr(ino).unwrap();
            self.tree.release(ino, 1).unwrap();
        }
    }

    fn place(&self, path: &[u8]) -> Result<EntryPlace, FsError> {
        let mut parent = Ino::ROOT;
        for name in &path[..path.len() - 1] {
            parent = self.tree.lookup(parent, &name_of(*name))?.ino;
        }
        Ok(EntryPlace::new(parent, name_of(path[path.len() - 1])))
    }

    fn find(&self, path: &[u8]) -> Result<Attr, FsError> {
        let place = self.place(path)?;
        self.tree.lookup(place.parent, &place.name)
    }

    /// The whole tree, and the inode number of every path.
    fn listing(&self) -> (Listing, HashMap<Path, Ino>) {
        let root = self.tree.attr(Ino::ROOT).unwrap();
        let mut found = vec![(Path::new(), root)];
        let mut next = 0;
        while let Some((path, attr)) = found.get(next).cloned() {
            next += 1;
            if attr.kind != TreeKind::Directory {
                continue;
            }
            let mut after: Option<EntryName> = None;
            loop {
                // Small pages, so that listing continues after a name.
                let page = self.tree.read_directory(attr.ino, after.as_ref(), 2).unwrap();
                let Some((last, _)) = page.last() else { break };
                after = Some(last.clone());
                found.extend(
                    page.into_iter()
                        .map(|(name, attr)| ([&path[..], name.as_bytes()].concat(), attr)),
                );
            }
        }
        let mut names: HashMap<Ino, usize> = HashMap::new();
        found
            .iter()
            .for_each(|(_, attr)| *names.entry(attr.ino).or_default() += 1);
        let directories: Vec<Path> = found
            .iter()
            .filter(|(_, attr)| attr.kind == TreeKind::Directory)
            .map(|(path, _)| path.clone())
            .collect();
        let is_in = |path: &Path, above: &Path| path.split_last().is_some_and(|(_, parent)| parent == above);
        let numbers = found
            .iter()
            .map(|(path, attr)| (path.clone(), attr.ino))
            .collect();
        let listing = found.into_iter().map(|(path, attr)| {
            let count = names[&attr.ino];
            // A directory also has a name in itself, and one in each of its subdirectories.
            let links = match attr.kind {
                TreeKind::Directory => 2 + directories.iter().filter(|below| is_in(below, &path)).count(),
                _ => count,
            };
            assert_eq!(attr.names as usize, links, "the link count of {path:?}");
            (path, (self.node(&attr), count))
        });
        (listing.collect(), numbers)
    }

    fn node(&self, attr: &Attr) -> MapNode {
        let kind = match attr.kind {
            TreeKind::File => {
                let bytes = self.tree.read_all(attr.ino).unwrap().to_vec();
                assert_eq!(bytes.len() as u64, attr.size);
                Kind::File(bytes)
            }
            TreeKind::Directory => Kind::Directory,
            TreeKind::Symlink => Kind::Symlink(self.tree.read_link(attr.ino).unwrap()),
            other => panic!("no operation creates a {other:?}"),
        };
        let xattr = attr.meta.xattrs.get(b"user.x").map(<[u8]>::to_vec);
        MapNode {
            kind,
            mode: attr.meta.mode,
            xattr,
        }
    }
}

fn name_of(byte: u8) -> EntryName {
    EntryName::new(&[byte]).unwrap()
}

/// Performs one operation on both; returns whether the model changed.
fn perform(model: &mut Model, subject: &mut Subject, op: &Op) -> Result<(), FsError> {
    let tree = &subject.tree;
    match op {
        Op::Create(path, mode) => {
            let place = subject.place(path)?;
            tree.create(place.parent, &place.name, NewEntry::file(u32::from(*mode)))?;
            model.create(path, Kind::File(Vec::new()), u32::from(*mode));
        }
        Op::MakeDirectory(path) => {
            let place = subject.place(path)?;
            tree.create(place.parent, &place.name, NewEntry::directory(0o755))?;
            model.create(path, Kind::Directory, 0o755);
        }
        Op::Symlink(path, target) => {
            let place = subject.place(path)?;
            tree.create(place.parent, &place.name, NewEntry::symlink(target))?;
            model.create(path, Kind::Symlink(target.clone()), 0o777);
        }
        Op::Write(path, at, bytes) => {
            tree.write(subject.find(path)?.ino, u64::from(*at), bytes)?;
            edit_file(model, path, |file| {
                let end = *at as usize + bytes.len();
                if !bytes.is_empty() {
                    file.resize(file.len().max(end), 0);
                    file[*at as usize..end].copy_from_slice(bytes);
                }
            });
        }
        Op::Resize(path, size) => {
            let set = SetAttr {
                size: Some(u64::from(*size)),
                ..SetAttr::default()
            };
            tree.set_attr(subject.find(path)?.ino, set)?;
            edit_file(model, path, |file| file.resize(*size as usize, 0));
        }
        Op::Punch(path, at, len) => {
            tree.punch_hole(subject.find(path)?.ino, u64::from(*at), u64::from(*len))?;
            edit_file(model, path, |file| {
                let end = (*at as usize + *len as usize).min(file.len());
                file[(*at as usize).min(end)..end].fill(0);
            });
        }
        Op::Unlink(path) => {
            let place = subject.place(path)?;
            tree.unlink(place.parent, &place.name)?;
            model.remove_tree(path);
        }
        Op::RemoveDirectory(path) => {
            let place = subject.place(path)?;
            tree.remove_directory(place.parent, &place.name)?;
            assert!(model.below(path).is_empty(), "only an empty directory is removed");
            model.remove_tree(path);
        }
        Op::RemoveTree(path) => {
            let place = subject.place(path)?;
            tree.remove_tree(place.parent, &place.name)?;
            model.remove_tree(path);
        }
        Op::Rename(from, to) => {
            tree.rename(subject.place(from)?, subject.place(to)?)?;
            if model.names.get(from) != model.names.get(to) {
                let taken = model.take(from);
                model.remove_tree(to);
                model.put(to, taken);
            }
        }
        Op::Exchange(from, to) => {
            tree.exchange(subject.place(from)?, subject.place(to)?)?;
            if from != to {
                let first = model.take(from);
                let second = model.take(to);
                model.put(to, first);
                model.put(from, second);
            }
        }
        Op::Link(from, to) => {
            let place = subject.place(to)?;
            tree.link(subject.find(from)?.ino, place.parent, &place.name)?;
            let index = model.names[from];
            model.names.insert(to.clone(), index);
        }
        Op::SetMode(path, mode) => {
            let set = SetAttr {
                mode: Some(u32::from(*mode)),
                ..SetAttr::default()
            };
            tree.set_attr(subject.find(path)?.ino, set)?;
            if let Some(node) = model.node_mut(path) {
                node.mode = u32::from(*mode);
            }
        }
        Op::SetXattr(path, value) => {
            let ino = subject.find(path)?.ino;
            match value {
                Some(value) => tree.set_xattr(ino, b"user.x", value)?,
                None => tree.remove_xattr(ino, b"user.x")?,
            }
            if let Some(node) = model.node_mut(path) {
                node.xattr = value.clone();
            }
        }
        Op::Snapshot => subject.snapshot(),
        Op::Reopen => {
            subject.snapshot();
            subject.open_again();
        }
        Op::Sync => tree.sync()?,
        Op::Crash | Op::Travel(_) | Op::SlowSnapshot(..) => subject.open_again(),
        Op::Hold => subject.hold(),
        Op::Forget => subject.forget(),
    }
    Ok(())
}

fn edit_file(model: &mut Model, path: &[u8], edit: impl FnOnce(&mut Vec<u8>)) {
    match model.node_mut(path).map(|node| &mut node.kind) {
        Some(Kind::File(bytes)) => edit(bytes),
        other => panic!("{path:?} was written, but is {other:?}"),
    }
}

/// Checks that the model expects a refusal: the operation must be impossible.
fn check_refusal(model: &Model, op: &Op, error: &FsError) {
    let possible = match op {
        Op::Create(path, _) | Op::MakeDirectory(path) | Op::Symlink(path, _) => model.is_free(path),
        Op::Write(path, ..) | Op::Resize(path, _) | Op::Punch(path, ..) => model
            .node(path)
            .is_some_and(|node| matches!(node.kind, Kind::File(_))),
        Op::Unlink(path) => model.node(path).is_some() && !model.is_directory(path),
        Op::RemoveDirectory(path) => model.is_directory(path) && model.below(path).is_empty(),
        Op::RemoveTree(path) | Op::SetMode(path, _) | Op::SetXattr(path, Some(_)) => {
            model.node(path).is_some()
        }
        Op::SetXattr(path, None) => model.node(path).is_some_and(|node| node.xattr.is_some()),
        Op::Rename(from, to) => {
            let kinds_fit = model
                .node(to)
                .is_none_or(|_| model.is_directory(from) == model.is_directory(to));
            let target_free = model.is_free(to) || model.node(to).is_some();
            let into_itself = to.len() > from.len() && to.starts_with(from);
            let non_empty = model.is_directory(to) && !model.below(to).is_empty() && from != to;
            model.node(from).is_some() && target_free && kinds_fit && !into_itself && !non_empty
        }
        Op::Exchange(from, to) => {
            let nested = from != to && (to.starts_with(from) || from.starts_with(to));
            model.node(from).is_some() && model.node(to).is_some() && !nested
        }
        Op::Link(from, to) => model.node(from).is_some() && !model.is_directory(from) && model.is_free(to),
        Op::Snapshot
        | Op::Reopen
        | Op::Sync
        | Op::Crash
        | Op::Hold
        | Op::Forget
        | Op::Travel(_)
        | Op::SlowSnapshot(..) => true,
    };
    assert!(!possible, "{op:?} was refused: {error}");
}

fn run(operations: &[Op]) {
    let mut run = Run {
        model: Model::new(),
        subject: Subject::new(),
        candidates: Vec::new(),
        kept: Vec::new(),
        numbers_lent: false,
    };
    run.candidates.push(run.model.clone());
    for op in operations {
        match op {
            Op::SlowSnapshot(meanwhile, end) => run.slow_snapshot(meanwhile, *end),
            Op::Travel(seed) => run.travel(*seed),
            op => run.step(op),
        }
    }
    assert_eq!(
        same_tree_at_once(&mut run.subject),
        run.subject.base.root.directory.kind,
        "equal trees have equal ids"
    );
}

struct Run {
    model: Model,
    subject: Subject,
    /// The states that a crash may leave: those since the last guarantee of durability.
    candidates: Vec<Model>,
    /// Earlier states, and whether numbers were lent in them.
    kept: Vec<(BaseTree, Model, bool)>,
    /// A file that is held without a name may have a number that another one gets back when the tree is
    /// reopened.
    numbers_lent: bool,
}

impl Run {
    fn step(&mut self, op: &Op) {
        let before = self.subject.listing().1;
        let outcome = perform(&mut self.model, &mut self.subject, op);
        if let Err(error) = &outcome {
            check_refusal(&self.model, op, error);
        }
        match op {
            Op::Crash => self.survive(),
            Op::Snapshot | Op::Reopen | Op::Sync => self.candidates = vec![self.model.clone()],
            _ => self.candidates.push(self.model.clone()),
        }
        let numbers = self.check(op);
        let lent = matches!(op, Op::Reopen) && std::mem::take(&mut self.numbers_lent);
        if matches!(op, Op::Snapshot | Op::Reopen | Op::Sync) && !lent {
            assert_eq!(numbers, before, "inode numbers are the same after {op:?}");
        }
    }

    /// The tree was reopened: it must show one of the candidate states.
    fn survive(&mut self) {
        let listing = self.subject.listing().0;
        let survivor = self
            .candidates
            .iter()
            .rev()
            .find(|candidate| candidate.listing() == listing);
        self.model = survivor
            .expect("a crash brings back a state since the last sync")
            .clone();
        self.candidates = vec![self.model.clone()];
    }

    fn check(&self, after: &Op) -> HashMap<Path, Ino> {
        let (listing, numbers) = self.subject.listing();
        assert_eq!(listing, self.model.listing(), "after {after:?}");
        let totals = self.subject.tree.totals();
        assert_eq!(
            (totals.inodes, totals.bytes),
            (self.model.names.len() as u64 - 1, self.model.bytes()),
            "totals after {after:?}"
        );
        let mut distinct: HashMap<Ino, usize> = HashMap::new();
        for (path, ino) in &numbers {
            let node = self.model.names[path];
            assert_eq!(
                *distinct.entry(*ino).or_insert(node),
                node,
                "two files share inode {ino:?}"
            );
        }
        numbers
    }

    /// Moves to a kept state, and keeps the current one.
    fn travel(&mut self, seed: usize) {
        let tree = Arc::clone(&self.subject.tree);
        self.numbers_lent |= !self.subject.held.is_empty();
        let mut exclusive = tree.exclusive();
        let stored = exclusive.freeze().unwrap();
        self.subject.base = stored.base().clone();
        self.subject.included = stored.journal();
        self.subject.assert_valid();
        exclusive.settle(stored);
        self.kept
            .push((self.subject.base.clone(), self.model.clone(), self.numbers_lent));
        let (to, model, were_lent) = self.kept[seed % self.kept.len()].clone();
        self.numbers_lent |= were_lent;
        let mut changes = Vec::new();
        diff_trees(
            &self.subject.objects,
            &self.subject.base.root,
            &to.root,
            &mut |change| {
                changes.push(change);
                Ok::<(), avfs_tree::ObjectError>(())
            },
        )
        .unwrap();
        exclusive
            .rebase(to.clone(), &changes, seed.is_multiple_of(2))
            .unwrap();
        drop(exclusive);
        self.subject.base = to;
        self.model = model;
        self.candidates = vec![self.model.clone()];
        self.check(&Op::Travel(seed));
    }

    fn slow_snapshot(&mut self, meanwhile: &[Op], end: End) {
        let tree = Arc::clone(&self.subject.tree);
        let frozen = tree.freeze().unwrap();
        let taken = self.model.clone();
        let before = self.candidates.len();
        meanwhile.iter().for_each(|op| self.step(op));
        match end {
            End::Settled => {
                self.subject.commit(&frozen);
                frozen.settle();
            }
            End::Abandoned => drop(frozen),
            End::CrashedBefore => std::mem::forget(frozen),
            End::CrashedAfter => {
                self.subject.commit(&frozen);
                std::mem::forget(frozen);
            }
        }
        let synced = meanwhile.iter().any(|op| matches!(op, Op::Sync));
        if matches!(end, End::Settled | End::CrashedAfter) && !synced {
            self.candidates.drain(..before);
            self.candidates.insert(0, taken);
        }
        if matches!(end, End::CrashedBefore | End::CrashedAfter) {
            self.subject.open_again();
            self.survive();
        }
        self.check(&Op::SlowSnapshot(meanwhile.to_vec(), end));
    }
}

/// The id of the tree when its last snapshot is loaded, touched everywhere and stored again.
fn same_tree_at_once(subject: &mut Subject) -> avfs_core::EntryKind {
    subject.snapshot();
    subject.open_again();
    let (_, numbers) = subject.listing();
    for ino in numbers.values() {
        let attr = subject.tree.attr(*ino).unwrap();
        let set = SetAttr {
            mode: Some(attr.meta.mode),
            ..SetAttr::default()
        };
        subject.tree.set_attr(*ino, set).unwrap();
    }
    let frozen = subject.tree.freeze().unwrap();
    frozen.base().root.directory.kind.clone()
}

/// A soak run sets a higher number.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn a_working_tree_behaves_like_the_model(operations in proptest::collection::vec(operation(), 1..120)) {
        run(&operations);
    }
}
