//! Copying inside a tree: the copy shares its stored parts with the original.

use std::collections::{BTreeMap, HashMap};

use avfs_core::map::{self, Edits};
use avfs_core::rules::Level;
use avfs_core::{Entry, EntryKind, EntryName, LinkId, LinkedFile, NodeId, Slot};

use super::guard::Ask;
use super::{Attr, StoredTree, WorkTree};
use crate::error::FsError;
use crate::inodes::Ino;
use crate::objects::ObjectWriter;
use crate::reach::link_bearing_slots;
use crate::worktree::freeze::store_entry;
use crate::worktree::state::State;

impl WorkTree {
    /// Copies an entry, with everything below it, to a free place. Costs what differs from the head, not
    /// what is copied; names of files with several names inside become names of one new file.
    pub fn copy(&self, from: Ino, parent: Ino, name: &EntryName) -> Result<Attr, FsError> {
        let tree = self.stored(from, parent, name)?;
        self.graft(parent, name, tree)
    }

    /// The same with a directory of another stored tree, whose linked files stand in the table `links`.
    pub fn copy_stored(
        &self,
        from: &Entry,
        links: Option<NodeId>,
        parent: Ino,
        name: &EntryName,
    ) -> Result<Attr, FsError> {
        let tree = {
            let state = self.state();
            let writer = ObjectWriter::new(&state.objects);
            let mut files = BTreeMap::new();
            for (link, count) in count_links(&state, from)? {
                let file: Option<LinkedFile> = map::get(&state.objects, links, &link.key())?;
                let entry = file.ok_or(FsError::Invalid("a linked file is not in its table"))?.entry;
                files.insert(link, LinkedFile { entry, names: count });
            }
            let tree = state.with_new_links(from.clone(), files, Ino::derived(parent, name, 0), &writer)?;
            writer.flush()?;
            tree
        };
        self.graft(parent, name, tree)
    }

    /// Gives a file the contents of another one.
    pub fn copy_content(&self, from: Ino, to: Ino) -> Result<(), FsError> {
        let entry = {
            let mut state = self.state_with(from)?;
            self.ask(&mut state, Ask::Use(from, Level::Read))?;
            let writer = ObjectWriter::new(&state.objects);
            state.freeze_entry(from, &writer)?
        };
        match entry.kind {
            EntryKind::File { size, content } => self.set_content(to, size, content),
            _ => Err(FsError::Invalid("not a regular file")),
        }
    }

    /// Stores what was written to a file, so that memory holds no more of it.
    pub fn store_content(&self, ino: Ino) -> Result<(), FsError> {
        self.copy_content(ino, ino)
    }

    fn stored(&self, from: Ino, parent: Ino, name: &EntryName) -> Result<StoredTree, FsError> {
        let mut state = self.state_with(from)?;
        self.ask(&mut state, Ask::Copy(from))?;
        let writer = ObjectWriter::new(&state.objects);
        let entry = state.freeze_entry(from, &writer)?;
        let mut files = BTreeMap::new();
        for (link, count) in count_links(&state, &entry)? {
            let ino = state.load_link(link)?;
            files.insert(link, LinkedFile { entry: state.freeze_entry(ino, &writer)?, names: count });
        }
        let tree = state.with_new_links(entry, files, Ino::derived(parent, name, 0), &writer)?;
        writer.flush()?;
        Ok(tree)
    }

    /// Whether a number is in use, so that an import cannot take it for a linked file.
    pub fn is_link_taken(&self, link: LinkId) -> Result<bool, FsError> {
        self.state().is_taken(Ino::of_link(link))
    }
}

impl State {
    /// Stores one entry with everything below it, as it is now, and returns it.
    fn freeze_entry(&mut self, ino: Ino, writer: &ObjectWriter) -> Result<Entry, FsError> {
        let (entry, directories) = self.capture_entry(ino)?;
        store_entry(&self.objects, writer, &entry, &directories)
    }

    /// A stored entry as a tree of its own: files that have several names in it get ids that nobody has here.
    fn with_new_links(
        &self,
        entry: Entry,
        files: BTreeMap<LinkId, LinkedFile>,
        seed: Ino,
        writer: &ObjectWriter,
    ) -> Result<StoredTree, FsError> {
        if files.is_empty() {
            return Ok(StoredTree { entry, links: Vec::new() });
        }
        let mut links = Vec::new();
        let mut renamed = HashMap::new();
        for (old, file) in files {
            let slot = match file.names {
                1 => Slot::Own(file.entry),
                _ => {
                    let new = self.free_link(seed, old)?;
                    links.push((new, file));
                    Slot::Link(new)
                }
            };
            renamed.insert(old, slot);
        }
        Ok(StoredTree { entry: relink(self, writer, &entry, &renamed)?, links })
    }

    /// A link id that nobody has, the same for the same copy.
    fn free_link(&self, seed: Ino, old: LinkId) -> Result<LinkId, FsError> {
        for attempt in 0u32.. {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&seed.0.to_le_bytes()).update(&old.key()).update(&attempt.to_le_bytes());
            let ino = Ino::from_hash(&hasher.finalize());
            if !self.is_taken(ino)? {
                return Ok(LinkId(ino.0));
            }
        }
        unreachable!("there are more numbers than inodes")
    }
}

/// The slots of a stored directory that are links or lead to some.
fn link_bearing(state: &State, entry: &Entry) -> Result<Vec<(Box<[u8]>, Slot)>, FsError> {
    match entry.kind {
        EntryKind::Directory { entries, .. } => Ok(link_bearing_slots(&state.objects, entries)?),
        _ => Ok(Vec::new()),
    }
}

/// The files that have names of links below a directory, and how many.
fn count_links(state: &State, top: &Entry) -> Result<BTreeMap<LinkId, u32>, FsError> {
    let mut names = BTreeMap::new();
    if !matches!(&top.kind, EntryKind::Directory { below, .. } if below.links > 0) {
        return Ok(names);
    }
    let mut open = vec![top.clone()];
    while let Some(entry) = open.pop() {
        for (_, slot) in link_bearing(state, &entry)? {
            match slot {
                Slot::Link(link) => *names.entry(link).or_default() += 1,
                Slot::Own(below) => open.push(below),
            }
        }
    }
    Ok(names)
}

/// The same directory with other link ids.
fn relink(
    state: &State,
    writer: &ObjectWriter,
    top: &Entry,
    renamed: &HashMap<LinkId, Slot>,
) -> Result<Entry, FsError> {
    let mut bearing = vec![Relinked { entry: top.clone(), edits: Edits::new(), parent: None }];
    let mut next = 0;
    while next < bearing.len() {
        for (name, slot) in link_bearing(state, &bearing[next].entry)? {
            match slot {
                Slot::Link(link) => {
                    let slot = renamed.get(&link).cloned().unwrap_or(Slot::Link(link));
                    bearing[next].edits.insert(name, Some(slot));
                }
                Slot::Own(entry) => {
                    bearing.push(Relinked { entry, edits: Edits::new(), parent: Some((next, name)) });
                }
            }
        }
        next += 1;
    }
    // Each directory stands behind the one above it, so from the end everything below is done already.
    while let Some(directory) = bearing.pop() {
        let entry = directory.rebuilt(state, writer)?;
        match directory.parent {
            Some((above, name)) => bearing[above].edits.insert(name, Some(Slot::Own(entry))),
            None => return Ok(entry),
        };
    }
    Ok(top.clone())
}

/// A directory with links below, and what changes in it.
struct Relinked {
    entry: Entry,
    edits: Edits<Slot>,
    parent: Option<(usize, Box<[u8]>)>,
}

impl Relinked {
    fn rebuilt(&self, state: &State, writer: &ObjectWriter) -> Result<Entry, FsError> {
        let EntryKind::Directory { entries, .. } = self.entry.kind else { return Ok(self.entry.clone()) };
        let mut sink = writer;
        let root = map::apply(&state.objects, &mut sink, entries, &self.edits)?;
        let below = root.as_ref().map(|root| root.totals).unwrap_or_default();
        let kind = EntryKind::Directory { entries: root.map(|root| root.id), below };
        Ok(Entry { meta: self.entry.meta.clone(), kind })
    }
}
