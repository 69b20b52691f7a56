//! The effect of each operation. The only place where the tree in memory changes, in work and in replay.
//!
//! Operations arrive checked: the names that they use were looked up just before.

use avfs_core::map::MapRecord;
use avfs_core::{Entry, EntryKind, LinkId, LinkedFile, NodeId, Slot, Timestamp, Totals};

use crate::error::FsError;
use crate::file::EditedFile;
use crate::inodes::Ino;
use crate::op::{EntryPlace, JournalOp};
use crate::overlay::ExtentData;
use crate::promises::KeptDirectory;
use crate::reach::link_bearing_slots;
use crate::worktree::inode::{Inode, InodeBody};
use crate::worktree::state::TreeState;

impl TreeState {
    /// Applies `op`; `data` is the location of the bytes of a write.
    pub(crate) fn apply(&mut self, op: JournalOp, data: ExtentData) -> Result<(), FsError> {
        match op {
            JournalOp::Found { ino, at } => self.find_again(&at, ino),
            JournalOp::FoundLink { link } => self.load_link(link).map(|_| ()),
            JournalOp::Place {
                at,
                ino,
                entry,
                links,
                ctime,
            } => self.apply_place(&at, ino, entry, links, ctime),
            JournalOp::PlaceLink {
                at,
                link,
                links,
                time,
            } => self.apply_place_link(&at, link, links, time),
            JournalOp::Remove { at, time } => self.apply_remove(&at, time),
            JournalOp::Rename {
                from,
                to,
                exchange: false,
                time,
            } => self.apply_rename(&from, &to, time),
            JournalOp::Rename {
                from,
                to,
                exchange: true,
                time,
            } => self.apply_exchange(&from, &to, time),
            JournalOp::Link { ino, at, time } => self.apply_link(ino, &at, time),
            JournalOp::SetMode { ino, mode, time } => self.change(ino, time, |inode| inode.meta.mode = mode),
            JournalOp::SetOwner { ino, uid, gid, time } => {
                self.change(ino, time, |inode| (inode.meta.uid, inode.meta.gid) = (uid, gid))
            }
            JournalOp::SetMtime { ino, mtime, time } => {
                self.change(ino, time, |inode| inode.meta.mtime = mtime)
            }
            JournalOp::SetXattr {
                ino,
                name,
                value,
                time,
            } => self.change(ino, time, |inode| inode.meta.xattrs.set(&name, &value)),
            JournalOp::RemoveXattr { ino, name, time } => self.change(ino, time, |inode| {
                inode.meta.xattrs.remove(&name);
            }),
            JournalOp::SetLabels { ino, labels, time } => {
                self.change(ino, time, |inode| inode.meta.labels = labels)
            }
            JournalOp::Resize { ino, size, time } => self.change_file(ino, time, |file| file.resize(size)),
            JournalOp::Write {
                ino,
                offset,
                len,
                time,
            } => self.change_file(ino, time, |file| file.put(offset, len, data)),
            JournalOp::SetContent {
                ino,
                size,
                content,
                time,
            } => self.change_contents(ino, time, |inode| {
                inode.body = InodeBody::Stored { size, content };
                Ok(())
            }),
            JournalOp::Unfold { ino, kept } => self.apply_unfold(ino, kept),
            JournalOp::Fulfil { ino, entry, ctime } => self.apply_fulfil(ino, entry, ctime),
            JournalOp::Gone { at } => self.apply_gone(&at),
            JournalOp::Arrive {
                at,
                ino,
                entry,
                ctime,
            } => self.apply_arrive(&at, ino, entry, ctime),
            JournalOp::Punch {
                ino,
                offset,
                len,
                time,
            } => self.change_file(ino, time, |file| {
                let end = (offset + len).min(file.size);
                file.put(offset.min(end), end.saturating_sub(offset), ExtentData::Hole);
            }),
        }
    }

    fn change(&mut self, ino: Ino, time: Timestamp, edit: impl FnOnce(&mut Inode)) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        edit(inode);
        inode.ctime = time;
        self.mark_dirty(ino)
    }

    fn change_file(
        &mut self,
        ino: Ino,
        time: Timestamp,
        edit: impl FnOnce(&mut EditedFile),
    ) -> Result<(), FsError> {
        self.change_contents(ino, time, |inode| inode.edit_file().map(edit))
    }

    /// Changes contents, and updates times and totals.
    pub(super) fn change_contents(
        &mut self,
        ino: Ino,
        time: Timestamp,
        edit: impl FnOnce(&mut Inode) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        // The totals change by the difference: what the edit does to the contents is its own business.
        let before = inode.file_size()?;
        edit(inode)?;
        let after = inode.file_size()?;
        inode.meta.mtime = time;
        inode.ctime = time;
        if before != after {
            // Bytes of a linked file count once, for the vault and not for a directory; without a name they
            // count nowhere.
            if inode.linked && inode.names > 0 {
                self.linked_bytes = self.linked_bytes.saturating_sub(before).saturating_add(after);
            } else if let Some(parent) = inode.place.as_ref().map(|place| place.parent) {
                let resized = |below: Totals| Totals {
                    bytes: below.bytes.saturating_sub(before).saturating_add(after),
                    ..below
                };
                self.adjust(parent, resized)?;
            }
        }
        self.mark_dirty(ino)
    }

    fn touch_directory(&mut self, directory: Ino, time: Timestamp) -> Result<(), FsError> {
        let inode = self.inode_mut(directory)?;
        inode.meta.mtime = time;
        inode.ctime = time;
        self.mark_dirty(directory)
    }

    fn apply_place(
        &mut self,
        at: &EntryPlace,
        ino: Ino,
        entry: Entry,
        links: Vec<(LinkId, LinkedFile)>,
        ctime: Timestamp,
    ) -> Result<(), FsError> {
        self.add_links(links);
        self.freed.remove(&ino);
        self.inodes.insert(ino, Inode::from_entry(entry, ctime));
        self.attach(at, ino)?;
        self.mark_dirty(ino)?;
        self.touch_directory(at.parent, ctime)
    }

    fn add_links(&mut self, links: Vec<(LinkId, LinkedFile)>) {
        for (id, file) in links {
            self.linked_bytes = self.linked_bytes.saturating_add(file.totals().bytes);
            self.links.new.insert(id, file);
            self.links.dirty.insert(id);
        }
    }

    fn apply_place_link(
        &mut self,
        at: &EntryPlace,
        link: LinkId,
        links: Vec<(LinkId, LinkedFile)>,
        time: Timestamp,
    ) -> Result<(), FsError> {
        self.add_links(links);
        let ino = self.load_link(link)?;
        self.attach(at, ino)?;
        self.touch_directory(at.parent, time)
    }

    fn apply_remove(&mut self, at: &EntryPlace, time: Timestamp) -> Result<(), FsError> {
        let Some(ino) = self.detach(at)? else {
            return Ok(());
        };
        self.lose_name(ino, time)?;
        self.touch_directory(at.parent, time)
    }

    /// A name of `ino` was removed. For a directory, so were all names below it.
    pub(super) fn lose_name(&mut self, ino: Ino, time: Timestamp) -> Result<(), FsError> {
        // Before the directory itself goes, while its contents can still be walked.
        for link in self.links_lost_with(ino)? {
            self.lose_link(link, time)?;
        }
        let inode = self.inode_mut(ino)?;
        // Never below zero, whatever a replayed journal says.
        inode.names = inode.names.saturating_sub(1);
        inode.ctime = time;
        let linked = inode.linked;
        let names = inode.names;
        let size = inode.file_bytes();
        if linked {
            self.links.dirty.insert(LinkId(ino.0));
            if names == 0 {
                self.linked_bytes = self.linked_bytes.saturating_sub(size);
                // The last name is gone, so the table must not bring the file into the next snapshot.
                self.links.new.remove(&LinkId(ino.0));
            }
        }
        self.drop_if_unused(ino)
    }

    fn lose_link(&mut self, link: LinkId, time: Timestamp) -> Result<(), FsError> {
        let ino = self.load_link(link)?;
        self.lose_name(ino, time)
    }

    /// The linked files that lose names when `ino` is removed, one item for each name.
    pub(crate) fn links_lost_with(&self, ino: Ino) -> Result<Vec<LinkId>, FsError> {
        match &self.inode(ino)?.body {
            InodeBody::Directory(directory) if directory.below.links > 0 => self.links_below(ino),
            _ => Ok(Vec::new()),
        }
    }

    /// The links below a directory, one item for each name. Descends only where totals show that links exist.
    fn links_below(&self, top: Ino) -> Result<Vec<LinkId>, FsError> {
        let mut links = Vec::new();
        let mut loaded = vec![top];
        let mut stored: Vec<NodeId> = Vec::new();
        while let Some(ino) = loaded.pop() {
            let directory = self.directory(ino)?;
            for child in directory.children.values() {
                let inode = self.inode(*child)?;
                if inode.linked {
                    links.push(LinkId(child.0));
                }
                if inode.is_directory() {
                    loaded.push(*child);
                }
            }
            // Names that are in memory replace those of the stored map, and were collected above.
            let known = |name: &[u8]| directory.is_overlaid(name) || directory.children.contains_key(name);
            collect_links(self, directory.base, &known, &mut links, &mut stored)?;
        }
        while let Some(node) = stored.pop() {
            collect_links(self, Some(node), &|_| false, &mut links, &mut stored)?;
        }
        Ok(links)
    }

    fn apply_rename(&mut self, from: &EntryPlace, to: &EntryPlace, time: Timestamp) -> Result<(), FsError> {
        // The target first: both may be in one directory, and the moved entry takes the name that is free
        // then.
        if let Some(replaced) = self.detach(to)? {
            self.lose_name(replaced, time)?;
        }
        let Some(ino) = self.detach(from)? else {
            return Ok(());
        };
        self.move_to(ino, to, time)?;
        self.touch_directory(from.parent, time)?;
        self.touch_directory(to.parent, time)
    }

    fn apply_exchange(&mut self, from: &EntryPlace, to: &EntryPlace, time: Timestamp) -> Result<(), FsError> {
        // Both are taken out before either is put back, because one name cannot hold two entries in between.
        let (Some(first), Some(second)) = (self.detach(from)?, self.detach(to)?) else {
            return Ok(());
        };
        self.move_to(first, to, time)?;
        self.move_to(second, from, time)?;
        self.touch_directory(from.parent, time)?;
        self.touch_directory(to.parent, time)
    }

    fn move_to(&mut self, ino: Ino, to: &EntryPlace, time: Timestamp) -> Result<(), FsError> {
        self.attach(to, ino)?;
        self.change(ino, time, |_| {})
    }

    fn apply_link(&mut self, ino: Ino, at: &EntryPlace, time: Timestamp) -> Result<(), FsError> {
        if !self.inode(ino)?.linked {
            self.make_linked(ino)?;
        }
        let inode = self.inode_mut(ino)?;
        inode.names += 1;
        self.attach(at, ino)?;
        self.change(ino, time, |_| {})?;
        self.touch_directory(at.parent, time)
    }

    /// Moves a file's record from its directory into the link table.
    fn make_linked(&mut self, ino: Ino) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        // In its directory the file counted with its bytes; from now on it counts as one link there.
        let before = inode.totals_in_parent();
        inode.linked = true;
        let after = inode.totals_in_parent();
        let size = inode.file_bytes();
        let place = inode.place.take();
        self.linked_bytes = self.linked_bytes.saturating_add(size);
        self.links.dirty.insert(LinkId(ino.0));
        if let Some(place) = place {
            self.adjust(place.parent, |below| below.minus(before).plus(after))?;
            self.directory_mut(place.parent)?.changed.insert(place.name);
            self.mark_dirty(place.parent)?;
        }
        Ok(())
    }

    /// A directory of a source becomes part of the tree.
    pub(crate) fn apply_unfold(&mut self, ino: Ino, kept: KeptDirectory) -> Result<(), FsError> {
        let directory = self.directory_mut(ino)?;
        // Until it was listed, the directory counted with what was known of it; those above it get the difference.
        let before = std::mem::replace(&mut directory.below, kept.below);
        directory.base = kept.entries;
        directory.numbers = kept.numbers;
        if let Some(parent) = self.inode(ino)?.place.as_ref().map(|place| place.parent) {
            self.adjust(parent, |below| below.minus(before).plus(kept.below))?;
        }
        self.mark_dirty(ino)
    }

    /// A promised file, or the version that replaced it, becomes part of the tree. Not a change by a user.
    pub(crate) fn apply_fulfil(&mut self, ino: Ino, entry: Entry, ctime: Timestamp) -> Result<(), FsError> {
        let EntryKind::File { size, content } = entry.kind else {
            return Err(FsError::Invalid("not a regular file"));
        };
        let times = (entry.meta.mtime, ctime);
        self.change_contents(ino, times.0, |inode| {
            inode.body = InodeBody::Stored { size, content };
            inode.meta = entry.meta;
            Ok(())
        })?;
        let inode = self.inode_mut(ino)?;
        // Again, because changing contents has set both times, and nobody has written to this file.
        (inode.meta.mtime, inode.ctime) = times;
        Ok(())
    }

    /// An entry that the source no longer has is removed; no time changes.
    pub(crate) fn apply_gone(&mut self, at: &EntryPlace) -> Result<(), FsError> {
        let Some(ino) = self.detach(at)? else {
            return Ok(());
        };
        // Its own time again: a linked file that stays under another name was not changed by anybody.
        let ctime = self.inode(ino)?.ctime;
        self.lose_name(ino, ctime)
    }

    /// An entry that the source has by now is added; no time changes.
    pub(crate) fn apply_arrive(
        &mut self,
        at: &EntryPlace,
        ino: Ino,
        entry: Entry,
        ctime: Timestamp,
    ) -> Result<(), FsError> {
        self.freed.remove(&ino);
        self.inodes.insert(ino, Inode::from_entry(entry, ctime));
        self.attach(at, ino)?;
        self.mark_dirty(ino)
    }
}

/// Collects the links of one stored map, and the directories below it that contain links.
fn collect_links(
    state: &TreeState,
    node: Option<NodeId>,
    known: &dyn Fn(&[u8]) -> bool,
    links: &mut Vec<LinkId>,
    below: &mut Vec<NodeId>,
) -> Result<(), FsError> {
    let slots = link_bearing_slots(&state.objects, node)?;
    for (_, slot) in slots.into_iter().filter(|(name, _)| !known(name)) {
        match slot {
            Slot::Link(link) => links.push(link),
            Slot::Own(Entry {
                kind: EntryKind::Directory { entries, .. },
                ..
            }) => below.extend(entries),
            Slot::Own(_) => {}
        }
    }
    Ok(())
}
