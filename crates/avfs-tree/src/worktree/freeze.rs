//! Stores captured changes as objects: the work of a snapshot, in time proportional to the changes. It does
//! not need the tree, which remains usable.

use std::collections::HashMap;
use std::sync::Arc;

use avfs_core::map::{self, ChildNode, Edits};
use avfs_core::{Content, Entry, EntryKind, EntryName, LinkedFile, NodeId, Root, Slot, Timestamp, Totals};

use crate::error::FsError;
use crate::file::EditedFile;
use crate::inodes::{Ino, InodeRecord, link_key, place_key, place_mark, taken_key};
use crate::objects::{ObjectWriter, Objects};
use crate::worktree::capture::{
    CapturedBody, CapturedChild, CapturedDirectory, CapturedEntry, CapturedLink, CapturedTree,
};
use crate::worktree::inode::InodeBody;
use crate::worktree::state::{BaseTree, TreeState};

/// A tree whose every part is stored, and the updates to make in memory once it is the head.
pub(crate) struct Frozen {
    pub base: BaseTree,
    directories: HashMap<Ino, Option<ChildNode>>,
    files: Vec<(Ino, Arc<EditedFile>, Content)>,
}

impl CapturedTree {
    pub(super) fn store(&self, objects: &Objects, writer: &ObjectWriter) -> Result<Frozen, FsError> {
        let mut freeze = Freeze::new(objects, writer);
        // Deepest first: a directory needs the roots of the directories below it.
        for directory in &self.directories {
            freeze.directory(directory)?;
            freeze.note_numbers(directory)?;
            freeze.note_places(directory);
        }
        let links = freeze.links(self)?;
        freeze.finish(self, links)
    }
}

/// Stores an entry that was captured with everything below it.
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

impl Frozen {
    /// Records that the frozen tree is the head now: only changes after its capture differ from it. The
    /// remaining work can be done in parts, while the tree is in use.
    pub(super) fn settle(self, state: &mut TreeState) -> SettledFiles {
        for (ino, root) in self.directories {
            if let Some(inode) = state.inodes.get_mut(&ino)
                && let InodeBody::Directory(directory) = &mut inode.body
            {
                directory.numbers = None;
                // Otherwise nothing in it was captured; or that directory is gone, and another has its
                // number.
                if !directory.settling.is_empty() {
                    directory.base = root.map(|root| root.id);
                    directory.settling.clear();
                }
            }
        }
        // From here on, lookups of what is not in memory go to the new tree.
        state.base = self.base;
        let inodes = state
            .settling
            .take()
            .map(|settling| settling.dirty)
            .unwrap_or_default();
        SettledFiles {
            files: self.files,
            inodes,
        }
    }
}

/// The remaining updates of settled files and inodes. Until they are done, a file has its captured state as
/// its base, which has the same bytes, and inodes that could be unloaded stay.
#[must_use = "memory is kept until it is done"]
pub(crate) struct SettledFiles {
    files: Vec<(Ino, Arc<EditedFile>, Content)>,
    inodes: Vec<Ino>,
}

impl SettledFiles {
    /// Processes at most `count` items; returns whether more remain.
    pub(super) fn advance(&mut self, state: &mut TreeState, count: usize) -> bool {
        let files = self.files.len().saturating_sub(count);
        for (ino, captured, content) in self.files.drain(files..) {
            settle_file(state, ino, &captured, content);
        }
        if self.files.is_empty() {
            let inodes = self.inodes.len().saturating_sub(count);
            // Last: an inode whose file still lies on its captured state must not be unloaded.
            self.inodes
                .drain(inodes..)
                .for_each(|ino| settle_inode(state, ino));
        }
        !self.inodes.is_empty() || !self.files.is_empty()
    }

    pub(super) fn finish(mut self, state: &mut TreeState) {
        while self.advance(state, usize::MAX) {}
    }
}

fn settle_file(state: &mut TreeState, ino: Ino, captured: &Arc<EditedFile>, content: Content) {
    if let Some(inode) = state.inodes.get_mut(&ino)
        && let InodeBody::Edited(file) = &mut inode.body
    {
        file.now_stored(captured, content);
        if let Some(content) = file.unchanged() {
            inode.body = InodeBody::Stored {
                size: file.size,
                content,
            };
        }
    }
}

fn settle_inode(state: &mut TreeState, ino: Ino) {
    state.evict(ino);
    // It could not be unloaded now; it is a candidate for later.
    if state.inodes.contains_key(&ino) {
        state.note_idle(ino);
    }
}

struct Freeze<'a> {
    objects: &'a Objects,
    writer: &'a ObjectWriter,
    directories: HashMap<Ino, Option<ChildNode>>,
    files: Vec<(Ino, Arc<EditedFile>, Content)>,
    table: Edits<InodeRecord>,
}

impl<'a> Freeze<'a> {
    fn new(objects: &'a Objects, writer: &'a ObjectWriter) -> Freeze<'a> {
        let directories = HashMap::new();
        let files = Vec::new();
        let table = Edits::new();
        Freeze {
            objects,
            writer,
            directories,
            files,
            table,
        }
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
                EntryKind::File {
                    size: file.size,
                    content,
                }
            }
            CapturedBody::Directory(ino) => {
                let root = self.directories.get(ino).and_then(Option::as_ref);
                directory_kind(root)
            }
        };
        Ok(Entry {
            meta: captured.meta.clone(),
            kind,
        })
    }

    fn links(&mut self, captured: &CapturedTree) -> Result<Option<ChildNode>, FsError> {
        let mut edits = Edits::new();
        for (link, file) in &captured.links {
            let (file, record) = match file {
                Some(CapturedLink::InMemory { entry, names }) => {
                    let file = LinkedFile {
                        entry: self.entry(entry)?,
                        names: *names,
                    };
                    (Some(file), ctime_record(entry, None))
                }
                Some(CapturedLink::AsItCame(file)) => (Some(file.clone()), None),
                None => (None, None),
            };
            self.table.insert(link_key(*link), record);
            edits.insert(link.key().into(), file);
        }
        let mut sink = self.writer;
        Ok(map::apply(
            self.objects,
            &mut sink,
            captured.base.root.links,
            &edits,
        )?)
    }

    /// Records the source's numbers of the entries of a directory.
    fn note_numbers(&mut self, directory: &CapturedDirectory) -> Result<(), FsError> {
        let mut walk = map::walk_after(self.objects, directory.numbers, None)?;
        while let Some((name, record)) = walk.advance()? {
            let record: InodeRecord = record;
            let Ok(name) = EntryName::new(&name) else { continue };
            // Before the changed places, whose records overwrite these.
            let key = place_key(directory.ino, &name);
            if let Some(ino) = record.ino {
                let taken = InodeRecord {
                    ino: Some(place_mark(&key)),
                    ctime: None,
                };
                self.table.insert(taken_key(ino), Some(taken));
            }
            self.table.insert(key, Some(record));
        }
        Ok(())
    }

    /// Writes the inode table's records of the changed places.
    fn note_places(&mut self, directory: &CapturedDirectory) {
        for (name, child) in &directory.names {
            let key = place_key(directory.ino, name);
            let mut record = None;
            if let Some(CapturedChild::Own(ino, entry)) = child {
                let moved = (*ino != Ino::derived(directory.ino, name, 0)).then_some(*ino);
                record = ctime_record(entry, moved);
                let taken = moved.map(|_| InodeRecord {
                    ino: Some(place_mark(&key)),
                    ctime: None,
                });
                self.table.insert(taken_key(*ino), taken);
            }
            self.table.insert(key, record);
        }
    }

    fn finish(mut self, captured: &CapturedTree, links: Option<ChildNode>) -> Result<Frozen, FsError> {
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
        let root = Root {
            directory,
            links: links.map(|links| links.id),
            totals: captured.totals,
        };
        let inodes = inodes.map(|inodes| inodes.id);
        Ok(Frozen {
            base: BaseTree { root, inodes },
            directories: self.directories,
            files: self.files,
        })
    }
}

fn directory_kind(root: Option<&ChildNode>) -> EntryKind {
    let entries: Option<NodeId> = root.map(|root| root.id);
    EntryKind::Directory {
        entries,
        below: root.map_or(Totals::default(), |root| root.totals),
    }
}

/// A record, if the entry differs from the rule.
fn ctime_record(entry: &CapturedEntry, moved: Option<Ino>) -> Option<InodeRecord> {
    let ctime: Option<Timestamp> = (entry.ctime != entry.meta.mtime).then_some(entry.ctime);
    (moved.is_some() || ctime.is_some()).then_some(InodeRecord { ino: moved, ctime })
}
