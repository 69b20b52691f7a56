//! Checks that stored structures are consistent: for imported files, and for fsck.
//!
//! Each object can be well-formed by itself while its claims about another one are wrong. Every reference is
//! compared with its target, once, however many snapshots share it. Nothing here recurses: the author of a
//! tree controls its depth.

mod contents;
mod links;

use std::collections::HashSet;

use avfs_core::map::{ChildNode, MapNode, MapRecord, NodeSource};
use avfs_core::{
    Content, Entry, EntryKind, LinkedFile, NodeId, ObjectId, Promise, PromiseId, Slot, SnapshotId, Totals,
};

use crate::inodes::{Ino, InodeRecord};
use crate::objects::{ObjectError, Objects};
use crate::promises::KeptPromise;
use contents::ContentCheck;
use links::LinkSums;

/// An inconsistency.
#[derive(Debug, thiserror::Error)]
pub enum TreeFlaw {
    /// An object that cannot be read at all.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Nodes that are intact by themselves contradict each other.
    #[error("object {id} is inconsistent: {reason}")]
    Structure {
        /// The object at which it shows.
        id: ObjectId,
        /// The contradiction.
        reason: &'static str,
    },
}

/// Inode numbers below are not given to files.
const RESERVED: u64 = 16;
/// An upper bound for the totals of any tree; sums of values below it do not overflow undetected.
const MOST: u64 = 1 << 62;

/// Finds up to `most` flaws in these states and their inode tables.
pub fn validate(
    objects: &Objects,
    states: impl IntoIterator<Item = (SnapshotId, Option<NodeId>)>,
    most: usize,
) -> Vec<TreeFlaw> {
    let mut validator = Validator {
        objects,
        open: Vec::new(),
        seen: HashSet::new(),
        contents: ContentCheck::new(objects),
        links: LinkSums::new(objects),
        flaws: Vec::new(),
        most,
    };
    let mut done = HashSet::new();
    for (snapshot, inodes) in states {
        if done.insert(snapshot) {
            validator.snapshot(snapshot);
        }
        if let Some(id) = inodes {
            validator.map(ExpectedNode::of_root(NodeRole::Inodes, id, None));
        }
    }
    validator.flaws
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NodeRole {
    Directory,
    Links,
    Inodes,
}

/// A node of a map with the claims of its ancestors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ExpectedNode {
    role: NodeRole,
    id: NodeId,
    totals: Option<Totals>,
    /// Claims that only an inner node makes.
    above: Option<ParentClaim>,
    /// Its keys are greater than this one; empty: it is the first.
    after: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ParentClaim {
    level: u8,
    records: u64,
    last_key: Box<[u8]>,
}

impl ExpectedNode {
    fn of_root(role: NodeRole, id: NodeId, totals: Option<Totals>) -> ExpectedNode {
        ExpectedNode {
            role,
            id,
            totals,
            above: None,
            after: Box::default(),
        }
    }

    /// The claims of a node of `level` about its child after the key `after`.
    fn of_child(&self, level: u8, child: &ChildNode, after: &[u8]) -> ExpectedNode {
        let above = ParentClaim {
            level: level.saturating_sub(1),
            records: child.records,
            last_key: child.last_key.clone(),
        };
        let totals = Some(child.totals);
        ExpectedNode {
            role: self.role,
            id: child.id,
            totals,
            above: Some(above),
            after: after.into(),
        }
    }

    /// Why the node does not match the claims.
    fn contradiction<V: MapRecord>(&self, node: &MapNode<V>) -> Option<&'static str> {
        let (first, last) = ends(node);
        if first <= &self.after[..] {
            return Some("a node holds keys that belong before it");
        }
        if self.totals.is_some_and(|expected| expected != node.totals()) {
            return Some("the totals above a node are not its own");
        }
        let above = self.above.as_ref()?;
        if above.level != node.level() {
            return Some("a node has the wrong depth");
        }
        if above.records != node.records() {
            return Some("the number of records above a node is not its own");
        }
        (&above.last_key[..] != last).then_some("the last key above a node is not its own")
    }
}

/// The smallest key of a node that is known without its children, and the greatest.
fn ends<V>(node: &MapNode<V>) -> (&[u8], &[u8]) {
    let ends = match node {
        MapNode::Leaf(records) => records
            .first()
            .zip(records.last())
            .map(|(a, b)| (&a.0[..], &b.0[..])),
        MapNode::Inner { children, .. } => children
            .first()
            .zip(children.last())
            .map(|(a, b)| (&a.last_key[..], &b.last_key[..])),
    };
    ends.unwrap_or_default()
}

struct Validator<'a> {
    objects: &'a Objects,
    open: Vec<ExpectedNode>,
    seen: HashSet<ExpectedNode>,
    contents: ContentCheck<'a>,
    links: LinkSums<'a>,
    flaws: Vec<TreeFlaw>,
    most: usize,
}

impl Validator<'_> {
    fn is_full(&self) -> bool {
        self.flaws.len() >= self.most
    }

    fn flaw(&mut self, id: ObjectId, reason: &'static str) {
        self.note(Err(TreeFlaw::Structure { id, reason }));
    }

    fn note(&mut self, result: Result<(), TreeFlaw>) {
        let room = !self.is_full();
        self.flaws.extend(result.err().filter(|_| room));
    }

    fn snapshot(&mut self, id: SnapshotId) {
        if self.is_full() {
            return;
        }
        let known = self.flaws.len();
        let root = match self.objects.snapshot(id) {
            Ok(snapshot) => snapshot.root,
            Err(error) => return self.flaws.push(error.into()),
        };
        self.entry(&root.directory);
        if let Some(links) = root.links {
            self.open
                .push(ExpectedNode::of_root(NodeRole::Links, links, None));
        }
        self.run();
        // Sums over an inconsistent structure mean nothing.
        if self.flaws.len() == known {
            let checked = self.links.check(id, &root);
            self.note(checked);
        }
    }

    fn map(&mut self, root: ExpectedNode) {
        self.open.push(root);
        self.run();
    }

    fn run(&mut self) {
        while let Some(expected) = self.open.pop() {
            if self.is_full() {
                return self.open.clear();
            }
            if !self.seen.contains(&expected) {
                let checked = match expected.role {
                    NodeRole::Directory => self.node(&expected, Validator::slot),
                    NodeRole::Links => self.node(&expected, Validator::linked_file),
                    NodeRole::Inodes => self.node(&expected, Validator::inode),
                };
                self.note(checked);
                self.seen.insert(expected);
            }
        }
    }

    /// Compares a node with the claims about it, and checks its records or queues its children.
    fn node<V: MapRecord>(
        &mut self,
        expected: &ExpectedNode,
        look: fn(&mut Self, NodeId, &[u8], &V),
    ) -> Result<(), TreeFlaw>
    where
        Objects: NodeSource<V, Error = ObjectError>,
    {
        let node = NodeSource::<V>::load(self.objects, expected.id)?;
        if let Some(reason) = expected.contradiction(&node) {
            return Err(TreeFlaw::Structure {
                id: expected.id.object(),
                reason,
            });
        }
        match &*node {
            MapNode::Leaf(records) => {
                records
                    .iter()
                    .for_each(|(key, record)| look(self, expected.id, key, record));
            }
            MapNode::Inner { level, children } => {
                let mut after = &expected.after[..];
                for child in children {
                    self.open.push(expected.of_child(*level, child, after));
                    after = &child.last_key;
                }
            }
        }
        Ok(())
    }

    fn slot(&mut self, node: NodeId, _name: &[u8], slot: &Slot) {
        match slot {
            Slot::Own(entry) => self.entry(entry),
            Slot::Link(link) if link.0 < RESERVED => self.flaw(node.object(), "a link has a reserved number"),
            Slot::Link(_) => {}
        }
    }

    fn linked_file(&mut self, node: NodeId, key: &[u8], file: &LinkedFile) {
        if links::link_of(key).is_none_or(|link| link.0 < RESERVED) {
            self.flaw(node.object(), "a link has a reserved number");
        }
        self.entry(&file.entry);
    }

    fn inode(&mut self, node: NodeId, _key: &[u8], record: &InodeRecord) {
        if record.ino.is_some_and(|Ino(ino)| ino < RESERVED) {
            self.flaw(node.object(), "a file has a reserved inode number");
        }
    }

    /// Checks the result of a promise; returns whether the id is one of a promise.
    fn promise(&mut self, id: ObjectId, size: u64) -> Result<bool, ObjectError> {
        let Some(promise) = self.objects.promise(id)? else {
            return Ok(false);
        };
        match self.objects.kept(PromiseId::from_object(id))?.as_deref() {
            Some(KeptPromise::Directory(kept)) => {
                let root = |role, id, totals| ExpectedNode::of_root(role, id, totals);
                let entries = kept
                    .entries
                    .map(|id| root(NodeRole::Directory, id, Some(kept.below)));
                self.open.extend(entries);
                self.open
                    .extend(kept.numbers.map(|id| root(NodeRole::Inodes, id, None)));
            }
            Some(KeptPromise::File(content)) => {
                let checked = self.contents.check(*content, size);
                self.note(checked);
            }
            Some(KeptPromise::Moved { entry, .. }) => self.entry(entry),
            Some(KeptPromise::Gone) | None => {}
        }
        if let Promise::File { stamp, .. } = &*promise
            && stamp.size != size
        {
            self.flaw(id, "a file is not as long as its promise says");
        }
        Ok(true)
    }

    /// Whether an id is one of a promise, which is then checked.
    fn is_promise(&mut self, id: ObjectId, size: u64) -> bool {
        // If it cannot be read, the code that reads the object reports the problem.
        self.promise(id, size).unwrap_or(false)
    }

    fn entry(&mut self, entry: &Entry) {
        match &entry.kind {
            EntryKind::Directory {
                entries: Some(id),
                below,
            } if self.is_promise(id.object(), 0) => {
                if *below != Promise::BELOW {
                    self.flaw(id.object(), "a promised directory says what is in it");
                }
            }
            EntryKind::File {
                size,
                content: Content::Blob(id),
            } if self.is_promise(id.object(), *size) => {}
            EntryKind::File {
                size,
                content: Content::Chunks(id),
            } if self.is_promise(id.object(), *size) => {}
            EntryKind::Directory {
                entries: Some(id),
                below,
            } => {
                if below.inodes > MOST || below.bytes > MOST || below.links > MOST {
                    self.flaw(
                        id.object(),
                        "a directory says that it holds more than is possible",
                    );
                }
                self.open
                    .push(ExpectedNode::of_root(NodeRole::Directory, *id, Some(*below)));
            }
            EntryKind::File { size, content } if *content != Content::Empty => {
                let checked = self.contents.check(*content, *size);
                self.note(checked);
            }
            EntryKind::File { .. }
            | EntryKind::Directory { entries: None, .. }
            | EntryKind::Symlink { .. }
            | EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice { .. }
            | EntryKind::BlockDevice { .. } => {}
        }
    }
}
