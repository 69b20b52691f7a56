//! Turning what changed into objects: the work of a snapshot, in the time of what changed.

use std::collections::HashMap;

use avfs_core::map::{self, Child, Edits};
use avfs_core::{Content, Entry, EntryKind, LinkedFile, NodeId, Root, Slot, Totals};

use crate::error::FsError;
use crate::file::FileBody;
use crate::inodes::{Ino, InodeRecord, link_key, place_key, place_mark, taken_key};
use crate::objects::ObjectWriter;
use crate::op::Place;
use crate::worktree::inode::{Body, Inode};
use crate::worktree::state::{Base, State};

/// A tree whose every part is stored, and what to note in memory once it is the head.
pub(crate) struct Frozen {
    pub base: Base,
    directories: HashMap<Ino, Option<Child>>,
    files: HashMap<Ino, Content>,
}

impl State {
    pub fn freeze(&self, writer: &ObjectWriter) -> Result<Frozen, FsError> {
        let mut freeze = Freeze::new(self, writer);
        for ino in freeze.dirty_directories(Ino::ROOT)? {
            freeze.directory(ino)?;
        }
        let links = freeze.links()?;
        freeze.nameless_files()?;
        freeze.finish(links)
    }

    /// Stores one entry with everything below it, as it is now, and returns it.
    pub fn freeze_entry(&self, ino: Ino, writer: &ObjectWriter) -> Result<Entry, FsError> {
        let mut freeze = Freeze::new(self, writer);
        if self.inode(ino)?.is_directory() {
            for below in freeze.dirty_directories(ino)? {
                freeze.directory(below)?;
            }
        }
        let entry = freeze.entry(ino)?;
        writer.flush()?;
        Ok(entry)
    }

    /// Notes that the frozen tree is the head now: nothing differs from it.
    pub fn settle(&mut self, frozen: Frozen) {
        for (ino, root) in frozen.directories {
            if let Some(inode) = self.inodes.get_mut(&ino)
                && let Body::Directory(directory) = &mut inode.body
            {
                directory.base = root.map(|root| root.id);
                directory.changed.clear();
            }
        }
        for (ino, content) in frozen.files {
            if let Some(inode) = self.inodes.get_mut(&ino)
                && let Body::File(file) = &mut inode.body
            {
                *file = FileBody::stored(file.size, content);
            }
        }
        for ino in self.dirty.drain() {
            if let Some(inode) = self.inodes.get_mut(&ino) {
                inode.dirty = false;
            }
        }
        self.dirty_links.clear();
        self.new_links.clear();
        self.freed.clear();
        self.base = frozen.base;
    }
}

struct Freeze<'a> {
    state: &'a State,
    writer: &'a ObjectWriter,
    directories: HashMap<Ino, Option<Child>>,
    files: HashMap<Ino, Content>,
    table: Edits<InodeRecord>,
}

impl<'a> Freeze<'a> {
    fn new(state: &'a State, writer: &'a ObjectWriter) -> Freeze<'a> {
        Freeze { state, writer, directories: HashMap::new(), files: HashMap::new(), table: Edits::new() }
    }

    /// The changed directories from `top` on, each behind those below it.
    fn dirty_directories(&self, top: Ino) -> Result<Vec<Ino>, FsError> {
        let mut order = Vec::new();
        let mut open = vec![top];
        while let Some(ino) = open.pop() {
            let directory = self.state.directory(ino)?;
            order.push(ino);
            for child in directory.changed.iter().filter_map(|name| directory.children.get(name)) {
                let inode = self.state.inode(*child)?;
                if inode.dirty && inode.is_directory() {
                    open.push(*child);
                }
            }
        }
        order.reverse();
        Ok(order)
    }

    fn directory(&mut self, ino: Ino) -> Result<(), FsError> {
        let state = self.state;
        let directory = state.directory(ino)?;
        let mut edits = Edits::new();
        for name in &directory.changed {
            let place = Place::new(ino, name.clone());
            let slot = match directory.children.get(name) {
                Some(child) => Some(self.slot(*child)?),
                None => None,
            };
            self.note_place(&place, directory.children.get(name).copied())?;
            edits.insert(name.as_bytes().into(), slot);
        }
        let mut sink = self.writer;
        let root = map::apply(&state.objects, &mut sink, directory.base, &edits)?;
        debug_assert_eq!(
            root.as_ref().map_or(Totals::default(), |root| root.totals),
            directory.below,
            "the totals of directory {ino:?} are kept up to date"
        );
        self.directories.insert(ino, root);
        Ok(())
    }

    fn slot(&mut self, ino: Ino) -> Result<Slot, FsError> {
        match self.state.inode(ino)?.link {
            Some(link) => Ok(Slot::Link(link)),
            None => Ok(Slot::Own(self.entry(ino)?)),
        }
    }

    fn entry(&mut self, ino: Ino) -> Result<Entry, FsError> {
        let inode = self.state.inode(ino)?;
        let kind = match &inode.body {
            Body::File(file) => EntryKind::File { size: file.size, content: self.content(ino, file)? },
            Body::Directory(directory) => match self.directories.get(&ino) {
                Some(root) => directory_kind(root.as_ref()),
                None => EntryKind::Directory { entries: directory.base, below: directory.below },
            },
            Body::Symlink(target) => EntryKind::Symlink { target: target.clone() },
            Body::Fifo => EntryKind::Fifo,
            Body::Socket => EntryKind::Socket,
            Body::CharDevice(device) => EntryKind::CharDevice { device: *device },
            Body::BlockDevice(device) => EntryKind::BlockDevice { device: *device },
        };
        Ok(Entry { meta: inode.meta.clone(), kind })
    }

    fn content(&mut self, ino: Ino, file: &FileBody) -> Result<Content, FsError> {
        let content = file.freeze(self.state.sources(), self.writer)?;
        if file.unchanged().is_none() {
            self.files.insert(ino, content);
        }
        Ok(content)
    }

    fn links(&mut self) -> Result<Option<Child>, FsError> {
        let mut edits = Edits::new();
        for link in &self.state.dirty_links {
            let ino = Ino::of_link(*link);
            let alive = self.state.inodes.get(&ino).filter(|inode| inode.link == Some(*link));
            let file = match alive {
                Some(inode) if inode.names > 0 => {
                    let names = inode.names;
                    Some(LinkedFile { entry: self.entry(ino)?, names })
                }
                Some(_) => None,
                None => self.state.new_links.get(link).cloned(),
            };
            let record = alive.and_then(|inode| ctime_record(inode, None));
            self.edit_table(link_key(*link), record.filter(|_| file.is_some()));
            edits.insert(link.key().into(), file);
        }
        let mut sink = self.writer;
        Ok(map::apply(&self.state.objects, &mut sink, self.state.base.root.links, &edits)?)
    }

    /// Files that live only through open handles: their bytes leave the journal too.
    fn nameless_files(&mut self) -> Result<(), FsError> {
        for ino in &self.state.nameless {
            if let Body::File(file) = &self.state.inode(*ino)?.body {
                self.content(*ino, file)?;
            }
        }
        Ok(())
    }

    /// Writes down what the table must say about a place that changed.
    fn note_place(&mut self, place: &Place, child: Option<Ino>) -> Result<(), FsError> {
        let mut record = None;
        if let Some(ino) = child {
            let inode = self.state.inode(ino)?;
            if inode.link.is_none() {
                let moved = (ino != Ino::derived(place.parent, &place.name, 0)).then_some(ino);
                record = ctime_record(inode, moved);
                let mark = place_mark(&place_key(place.parent, &place.name));
                let taken = moved.map(|_| InodeRecord { ino: Some(mark), ctime: None });
                self.edit_table(taken_key(ino), taken);
            }
        }
        self.edit_table(place_key(place.parent, &place.name), record);
        Ok(())
    }

    fn edit_table(&mut self, key: Box<[u8]>, record: Option<InodeRecord>) {
        if record.is_some() || self.state.base.inodes.is_some() {
            self.table.insert(key, record);
        }
    }

    fn finish(mut self, links: Option<Child>) -> Result<Frozen, FsError> {
        for ino in &self.state.freed {
            if self.state.base.inodes.is_some() {
                self.table.entry(taken_key(*ino)).or_insert(None);
            }
        }
        let mut sink = self.writer;
        let inodes = map::apply(&self.state.objects, &mut sink, self.state.base.inodes, &self.table)?;
        let directory = self.entry(Ino::ROOT)?;
        self.writer.flush()?;
        let root = Root { directory, links: links.map(|links| links.id), totals: self.state.totals() };
        let inodes = inodes.map(|inodes| inodes.id);
        Ok(Frozen { base: Base { root, inodes }, directories: self.directories, files: self.files })
    }
}

fn directory_kind(root: Option<&Child>) -> EntryKind {
    let entries: Option<NodeId> = root.map(|root| root.id);
    EntryKind::Directory { entries, below: root.map_or(Totals::default(), |root| root.totals) }
}

/// A record, if there is anything that the rule does not say.
fn ctime_record(inode: &Inode, moved: Option<Ino>) -> Option<InodeRecord> {
    let ctime = (inode.ctime != inode.meta.mtime).then_some(inode.ctime);
    (moved.is_some() || ctime.is_some()).then_some(InodeRecord { ino: moved, ctime })
}
