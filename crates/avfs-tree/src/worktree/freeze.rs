//! Turning what was captured into objects: the work of a snapshot, in the time of what changed. The tree is
//! not needed for it and goes on.

use std::collections::HashMap;
use std::sync::Arc;

use avfs_core::map::{self, Child, Edits};
use avfs_core::{Content, Entry, EntryKind, EntryName, LinkedFile, NodeId, Root, Slot, Timestamp, Totals};

use crate::error::FsError;
use crate::file::FileBody;
use crate::inodes::{Ino, InodeRecord, link_key, place_key, place_mark, taken_key};
use crate::objects::{ObjectWriter, Objects};
use crate::worktree::capture::{
    Captured, CapturedBody, CapturedChild, CapturedDirectory, CapturedEntry, CapturedLink,
};
use crate::worktree::inode::Body;
use crate::worktree::state::{Base, State};

/// A tree whose every part is stored, and what to note in memory once it is the head.
pub(crate) struct Frozen {
    pub base: Base,
    directories: HashMap<Ino, Option<Child>>,
    files: Vec<(Ino, Arc<FileBody>, Content)>,
}

impl Captured {
    pub fn store(&self, objects: &Objects, writer: &ObjectWriter) -> Result<Frozen, FsError> {
        let mut freeze = Freeze::new(objects, writer);
        for directory in &self.directories {
            freeze.directory(directory)?;
            freeze.note_numbers(directory)?;
            freeze.note_places(directory);
        }
        let links = freeze.links(self)?;
        freeze.finish(self, links)
    }
}

/// Stores an entry that was taken with everything below it.
pub(crate) fn store_entry(
    objects: &Objects,
    writer: &ObjectWriter,
    entry: &CapturedEntry,
    directories: &[CapturedDirectory],
) -> Result<Entry, FsError> {
    let mut freeze = Freeze::new(objects, writer);
    for directory in directories {
        freeze.directory(directory)?;
    }
    let entry = freeze.entry(entry)?;
    writer.flush()?;
    Ok(entry)
}

impl State {
    /// Notes that the frozen tree is the head now: only what changed since it was taken differs from it. What
    /// is left to be done may be done in parts, while the tree goes on.
    pub fn settle(&mut self, frozen: Frozen) -> Settled {
        for (ino, root) in frozen.directories {
            if let Some(inode) = self.inodes.get_mut(&ino)
                && let Body::Directory(directory) = &mut inode.body
            {
                directory.numbers = None;
                // Otherwise nothing in it was taken; or that one is gone, and another has its number.
                if !directory.settling.is_empty() {
                    directory.base = root.map(|root| root.id);
                    directory.settling.clear();
                }
            }
        }
        self.base = frozen.base;
        let inodes = self.settling.take().map(|settling| settling.dirty).unwrap_or_default();
        Settled { files: frozen.files, inodes }
    }
}

/// What is to be noted of files and inodes that were settled. Until then a file lies on what was captured of
/// it, which holds the same bytes, and what could leave memory stays.
#[must_use = "memory is kept until it is done"]
pub(crate) struct Settled {
    files: Vec<(Ino, Arc<FileBody>, Content)>,
    inodes: Vec<Ino>,
}

impl Settled {
    /// Does at most so much; returns whether there is more.
    pub fn advance(&mut self, state: &mut State, count: usize) -> bool {
        let files = self.files.len().saturating_sub(count);
        for (ino, captured, content) in self.files.drain(files..) {
            state.settle_file(ino, &captured, content);
        }
        if self.files.is_empty() {
            let inodes = self.inodes.len().saturating_sub(count);
            self.inodes.drain(inodes..).for_each(|ino| state.settle_inode(ino));
        }
        !self.inodes.is_empty() || !self.files.is_empty()
    }

    pub fn finish(mut self, state: &mut State) {
        while self.advance(state, usize::MAX) {}
    }
}

impl State {
    fn settle_file(&mut self, ino: Ino, captured: &Arc<FileBody>, content: Content) {
        if let Some(inode) = self.inodes.get_mut(&ino)
            && let Body::Edited(file) = &mut inode.body
        {
            file.settle(captured, content);
            if let Some(content) = file.unchanged() {
                inode.body = Body::Stored { size: file.size, content };
            }
        }
    }

    fn settle_inode(&mut self, ino: Ino) {
        self.evict(ino);
        if self.inodes.contains_key(&ino) {
            self.note_idle(ino);
        }
    }
}

struct Freeze<'a> {
    objects: &'a Objects,
    writer: &'a ObjectWriter,
    directories: HashMap<Ino, Option<Child>>,
    files: Vec<(Ino, Arc<FileBody>, Content)>,
    table: Edits<InodeRecord>,
}

impl<'a> Freeze<'a> {
    fn new(objects: &'a Objects, writer: &'a ObjectWriter) -> Freeze<'a> {
        let (directories, files, table) = (HashMap::new(), Vec::new(), Edits::new());
        Freeze { objects, writer, directories, files, table }
    }

    fn directory(&mut self, directory: &CapturedDirectory) -> Result<(), FsError> {
        let mut edits = Edits::new();
        for (name, child) in &directory.names {
            let slot = child.as_ref().map(|child| self.slot(child)).transpose()?;
            edits.insert(name.as_bytes().into(), slot);
        }
        let mut sink = self.writer;
        let root = map::apply(self.objects, &mut sink, directory.base, &edits)?;
        debug_assert_eq!(
            root.as_ref().map_or(Totals::default(), |root| root.totals),
            directory.below,
            "the totals of directory {:?} are kept up to date",
            directory.ino
        );
        self.directories.insert(directory.ino, root);
        Ok(())
    }

    fn slot(&mut self, child: &CapturedChild) -> Result<Slot, FsError> {
        match child {
            CapturedChild::Link(link) => Ok(Slot::Link(*link)),
            CapturedChild::Own(_, entry) => Ok(Slot::Own(self.entry(entry)?)),
        }
    }

    fn entry(&mut self, captured: &CapturedEntry) -> Result<Entry, FsError> {
        let kind = match &captured.body {
            CapturedBody::Known(kind) => kind.clone(),
            CapturedBody::Edited(ino, file) => {
                let content = file.freeze(self.objects, self.writer)?;
                self.files.push((*ino, Arc::clone(file), content));
                EntryKind::File { size: file.size, content }
            }
            CapturedBody::Directory(ino) => {
                let root = self.directories.get(ino).and_then(Option::as_ref);
                directory_kind(root)
            }
        };
        Ok(Entry { meta: captured.meta.clone(), kind })
    }

    fn links(&mut self, captured: &Captured) -> Result<Option<Child>, FsError> {
        let mut edits = Edits::new();
        for (link, file) in &captured.links {
            let (file, record) = match file {
                Some(CapturedLink::InMemory { entry, names }) => {
                    let file = LinkedFile { entry: self.entry(entry)?, names: *names };
                    (Some(file), ctime_record(entry, None))
                }
                Some(CapturedLink::AsItCame(file)) => (Some(file.clone()), None),
                None => (None, None),
            };
            self.table.insert(link_key(*link), record);
            edits.insert(link.key().into(), file);
        }
        let mut sink = self.writer;
        Ok(map::apply(self.objects, &mut sink, captured.base.root.links, &edits)?)
    }

    /// Writes down what the source of a directory said of its entries.
    fn note_numbers(&mut self, directory: &CapturedDirectory) -> Result<(), FsError> {
        let mut walk = map::walk_after(self.objects, directory.numbers, None)?;
        while let Some((name, record)) = walk.advance()? {
            let record: InodeRecord = record;
            let Ok(name) = EntryName::new(&name) else { continue };
            let key = place_key(directory.ino, &name);
            if let Some(ino) = record.ino {
                let taken = InodeRecord { ino: Some(place_mark(&key)), ctime: None };
                self.table.insert(taken_key(ino), Some(taken));
            }
            self.table.insert(key, Some(record));
        }
        Ok(())
    }

    /// Writes down what the table must say about the places that changed.
    fn note_places(&mut self, directory: &CapturedDirectory) {
        for (name, child) in &directory.names {
            let key = place_key(directory.ino, name);
            let mut record = None;
            if let Some(CapturedChild::Own(ino, entry)) = child {
                let moved = (*ino != Ino::derived(directory.ino, name, 0)).then_some(*ino);
                record = ctime_record(entry, moved);
                let taken = moved.map(|_| InodeRecord { ino: Some(place_mark(&key)), ctime: None });
                self.table.insert(taken_key(*ino), taken);
            }
            self.table.insert(key, record);
        }
    }

    fn finish(mut self, captured: &Captured, links: Option<Child>) -> Result<Frozen, FsError> {
        for ino in &captured.freed {
            self.table.entry(taken_key(*ino)).or_insert(None);
        }
        if captured.base.inodes.is_none() {
            self.table.retain(|_, record| record.is_some());
        }
        let mut sink = self.writer;
        let inodes = map::apply(self.objects, &mut sink, captured.base.inodes, &self.table)?;
        let directory = self.entry(&captured.root)?;
        self.writer.flush()?;
        let root = Root { directory, links: links.map(|links| links.id), totals: captured.totals };
        let inodes = inodes.map(|inodes| inodes.id);
        Ok(Frozen { base: Base { root, inodes }, directories: self.directories, files: self.files })
    }
}

fn directory_kind(root: Option<&Child>) -> EntryKind {
    let entries: Option<NodeId> = root.map(|root| root.id);
    EntryKind::Directory { entries, below: root.map_or(Totals::default(), |root| root.totals) }
}

/// A record, if there is anything that the rule does not say.
fn ctime_record(entry: &CapturedEntry, moved: Option<Ino>) -> Option<InodeRecord> {
    let ctime: Option<Timestamp> = (entry.ctime != entry.meta.mtime).then_some(entry.ctime);
    (moved.is_some() || ctime.is_some()).then_some(InodeRecord { ino: moved, ctime })
}
