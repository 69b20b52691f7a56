//! Whether stored structures are what they say: for files that come from elsewhere, and for checks.
//!
//! Each object can be well-formed by itself while what it says of another one is wrong. Every reference is
//! compared with what it leads to, once, however many snapshots share it. Nothing here recurses: the depth
//! of a tree is up to whoever made it.

mod contents;
mod links;

use std::collections::HashSet;

use avfs_core::map::{Child, Node, Nodes, Record};
use avfs_core::{
    Content, Entry, EntryKind, LinkedFile, NodeId, ObjectId, Promise, PromiseId, Slot, SnapshotId, Totals,
};

use crate::inodes::{Ino, InodeRecord};
use crate::objects::{ObjectError, Objects};
use crate::promises::Kept;
use contents::Contents;
use links::LinkSums;

/// Something that is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// An object that cannot be read at all.
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error("object {id} is inconsistent: {reason}")]
    Structure { id: ObjectId, reason: &'static str },
}

/// Inode numbers below are not given to files.
const RESERVED: u64 = 16;
/// No tree has so much of anything; sums of parts below it do not overflow unseen.
const MOST: u64 = 1 << 62;

/// Finds up to `most` flaws in these states and the inode tables that go with them.
pub fn validate(
    objects: &Objects,
    states: impl IntoIterator<Item = (SnapshotId, Option<NodeId>)>,
    most: usize,
) -> Vec<Flaw> {
    let mut validator = Validator {
        objects,
        open: Vec::new(),
        seen: HashSet::new(),
        contents: Contents::new(objects),
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
            validator.map(Told::of_root(Role::Inodes, id, None));
        }
    }
    validator.flaws
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    Directory,
    Links,
    Inodes,
}

/// A node of a map with what was said of it on the way there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Told {
    role: Role,
    id: NodeId,
    totals: Option<Totals>,
    /// What only a node above says.
    above: Option<Above>,
    /// Its keys come behind this one; empty: there is none before.
    after: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Above {
    level: u8,
    records: u64,
    last_key: Box<[u8]>,
}

impl Told {
    fn of_root(role: Role, id: NodeId, totals: Option<Totals>) -> Told {
        Told { role, id, totals, above: None, after: Box::default() }
    }

    /// What a node of `level` says of its child behind the key `after`.
    fn of_child(&self, level: u8, child: &Child, after: &[u8]) -> Told {
        let above = Above {
            level: level.saturating_sub(1),
            records: child.records,
            last_key: child.last_key.clone(),
        };
        let totals = Some(child.totals);
        Told { role: self.role, id: child.id, totals, above: Some(above), after: after.into() }
    }

    /// Why the node is not what it was said to be.
    fn contradiction<V: Record>(&self, node: &Node<V>) -> Option<&'static str> {
        let (first, last) = ends(node);
        if first <= &self.after[..] {
            return Some("a node holds keys that belong before it");
        }
        if self.totals.is_some_and(|told| told != node.totals()) {
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

/// The first key of a node that is known without its children, and the last one.
fn ends<V>(node: &Node<V>) -> (&[u8], &[u8]) {
    let ends = match node {
        Node::Leaf(records) => records.first().zip(records.last()).map(|(a, b)| (&a.0[..], &b.0[..])),
        Node::Inner { children, .. } => {
            children.first().zip(children.last()).map(|(a, b)| (&a.last_key[..], &b.last_key[..]))
        }
    };
    ends.unwrap_or_default()
}

struct Validator<'a> {
    objects: &'a Objects,
    open: Vec<Told>,
    seen: HashSet<Told>,
    contents: Contents<'a>,
    links: LinkSums<'a>,
    flaws: Vec<Flaw>,
    most: usize,
}

impl Validator<'_> {
    fn is_full(&self) -> bool {
        self.flaws.len() >= self.most
    }

    fn flaw(&mut self, id: ObjectId, reason: &'static str) {
        self.note(Err(Flaw::Structure { id, reason }));
    }

    fn note(&mut self, result: Result<(), Flaw>) {
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
            self.open.push(Told::of_root(Role::Links, links, None));
        }
        self.run();
        // Sums over a structure that is wrong say nothing more.
        if self.flaws.len() == known {
            let checked = self.links.check(id, &root);
            self.note(checked);
        }
    }

    fn map(&mut self, root: Told) {
        self.open.push(root);
        self.run();
    }

    fn run(&mut self) {
        while let Some(told) = self.open.pop() {
            if self.is_full() {
                return self.open.clear();
            }
            if !self.seen.contains(&told) {
                let checked = match told.role {
                    Role::Directory => self.node(&told, Validator::slot),
                    Role::Links => self.node(&told, Validator::linked_file),
                    Role::Inodes => self.node(&told, Validator::inode),
                };
                self.note(checked);
                self.seen.insert(told);
            }
        }
    }

    /// Compares a node with what was said of it, and looks at its records or queues its children.
    fn node<V: Record>(&mut self, told: &Told, look: fn(&mut Self, NodeId, &[u8], &V)) -> Result<(), Flaw>
    where
        Objects: Nodes<V, Error = ObjectError>,
    {
        let node = Nodes::<V>::load(self.objects, told.id)?;
        if let Some(reason) = told.contradiction(&node) {
            return Err(Flaw::Structure { id: told.id.object(), reason });
        }
        match &*node {
            Node::Leaf(records) => {
                records.iter().for_each(|(key, record)| look(self, told.id, key, record));
            }
            Node::Inner { level, children } => {
                let mut after = &told.after[..];
                for child in children {
                    self.open.push(told.of_child(*level, child, after));
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

    /// Looks at what a promise was kept as; says whether the id is one of a promise.
    fn promise(&mut self, id: ObjectId, size: u64) -> Result<bool, ObjectError> {
        let Some(promise) = self.objects.promise(id)? else { return Ok(false) };
        match self.objects.kept(PromiseId::from_object(id))?.as_deref() {
            Some(Kept::Directory(kept)) => {
                let root = |role, id, totals| Told::of_root(role, id, totals);
                let entries = kept.entries.map(|id| root(Role::Directory, id, Some(kept.below)));
                self.open.extend(entries);
                self.open.extend(kept.numbers.map(|id| root(Role::Inodes, id, None)));
            }
            Some(Kept::File(content)) => {
                let checked = self.contents.check(*content, size);
                self.note(checked);
            }
            Some(Kept::Moved { entry, .. }) => self.entry(entry),
            Some(Kept::Gone) | None => {}
        }
        if let Promise::File { stamp, .. } = &*promise
            && stamp.size != size
        {
            self.flaw(id, "a file is not as long as its promise says");
        }
        Ok(true)
    }

    /// Whether an id is one of a promise, which is then looked at.
    fn is_promise(&mut self, id: ObjectId, size: u64) -> bool {
        // Whoever reads the object says what is wrong with it.
        self.promise(id, size).unwrap_or(false)
    }

    fn entry(&mut self, entry: &Entry) {
        match &entry.kind {
            EntryKind::Directory { entries: Some(id), below } if self.is_promise(id.object(), 0) => {
                if *below != Promise::BELOW {
                    self.flaw(id.object(), "a promised directory says what is in it");
                }
            }
            EntryKind::File { size, content: Content::Blob(id) } if self.is_promise(id.object(), *size) => {}
            EntryKind::File { size, content: Content::Chunks(id) } if self.is_promise(id.object(), *size) => {
            }
            EntryKind::Directory { entries: Some(id), below } => {
                if below.inodes > MOST || below.bytes > MOST || below.links > MOST {
                    self.flaw(id.object(), "a directory says that it holds more than is possible");
                }
                self.open.push(Told::of_root(Role::Directory, *id, Some(*below)));
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
