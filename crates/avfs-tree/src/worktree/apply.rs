//! The effect of each operation. The only place where the tree in memory changes, in work and in replay.
//!
//! Operations come here checked: what they name was looked up just before.

use avfs_core::map::Record;
use avfs_core::{Entry, EntryKind, LinkId, LinkedFile, NodeId, Slot, Timestamp, Totals};

use crate::error::FsError;
use crate::file::FileBody;
use crate::inodes::Ino;
use crate::op::{Op, Place};
use crate::overlay::Data;
use crate::reach::link_bearing_slots;
use crate::worktree::inode::{Body, Inode};
use crate::worktree::state::State;

impl State {
    /// Makes `op` happen; `data` is where the bytes of a write are.
    pub fn apply(&mut self, op: Op, data: Data) -> Result<(), FsError> {
        match op {
            Op::Found { ino, at } => self.find_again(&at, ino),
            Op::FoundLink { link } => self.load_link(link).map(|_| ()),
            Op::Place { at, ino, entry, links, ctime } => self.apply_place(&at, ino, entry, links, ctime),
            Op::PlaceLink { at, link, links, time } => self.apply_place_link(&at, link, links, time),
            Op::Remove { at, time } => self.apply_remove(&at, time),
            Op::Rename { from, to, exchange: false, time } => self.apply_rename(&from, &to, time),
            Op::Rename { from, to, exchange: true, time } => self.apply_exchange(&from, &to, time),
            Op::Link { ino, at, time } => self.apply_link(ino, &at, time),
            Op::SetMode { ino, mode, time } => self.change(ino, time, |inode| inode.meta.mode = mode),
            Op::SetOwner { ino, uid, gid, time } => {
                self.change(ino, time, |inode| (inode.meta.uid, inode.meta.gid) = (uid, gid))
            }
            Op::SetMtime { ino, mtime, time } => self.change(ino, time, |inode| inode.meta.mtime = mtime),
            Op::SetXattr { ino, name, value, time } => {
                self.change(ino, time, |inode| inode.meta.xattrs.set(&name, &value))
            }
            Op::RemoveXattr { ino, name, time } => self.change(ino, time, |inode| {
                inode.meta.xattrs.remove(&name);
            }),
            Op::SetLabels { ino, labels, time } => self.change(ino, time, |inode| inode.meta.labels = labels),
            Op::Resize { ino, size, time } => self.change_file(ino, time, |file| file.resize(size)),
            Op::Write { ino, offset, len, time } => {
                self.change_file(ino, time, |file| file.put(offset, len, data))
            }
            Op::SetContent { ino, size, content, time } => self.change_contents(ino, time, |inode| {
                inode.body = Body::Stored { size, content };
                Ok(())
            }),
            Op::Unfold { ino, kept } => self.apply_unfold(ino, kept),
            Op::Settle { ino, entry, ctime } => self.apply_settle(ino, entry, ctime),
            Op::Gone { at } => self.apply_gone(&at),
            Op::Arrive { at, ino, entry, ctime } => self.apply_arrive(&at, ino, entry, ctime),
            Op::Punch { ino, offset, len, time } => self.change_file(ino, time, |file| {
                let end = (offset + len).min(file.size);
                file.put(offset.min(end), end.saturating_sub(offset), Data::Hole);
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
        edit: impl FnOnce(&mut FileBody),
    ) -> Result<(), FsError> {
        self.change_contents(ino, time, |inode| inode.edit_file().map(edit))
    }

    /// Changes contents: times and totals follow.
    pub(super) fn change_contents(
        &mut self,
        ino: Ino,
        time: Timestamp,
        edit: impl FnOnce(&mut Inode) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        let before = inode.file_size()?;
        edit(inode)?;
        let after = inode.file_size()?;
        (inode.meta.mtime, inode.ctime) = (time, time);
        if before != after {
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
        (inode.meta.mtime, inode.ctime) = (time, time);
        self.mark_dirty(directory)
    }

    fn apply_place(
        &mut self,
        at: &Place,
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
        at: &Place,
        link: LinkId,
        links: Vec<(LinkId, LinkedFile)>,
        time: Timestamp,
    ) -> Result<(), FsError> {
        self.add_links(links);
        let ino = self.load_link(link)?;
        self.attach(at, ino)?;
        self.touch_directory(at.parent, time)
    }

    fn apply_remove(&mut self, at: &Place, time: Timestamp) -> Result<(), FsError> {
        let Some(ino) = self.detach(at)? else { return Ok(()) };
        self.lose_name(ino, time)?;
        self.touch_directory(at.parent, time)
    }

    /// A name of `ino` is gone. For a directory, so are all names below it.
    pub(super) fn lose_name(&mut self, ino: Ino, time: Timestamp) -> Result<(), FsError> {
        for link in self.links_lost_with(ino)? {
            self.lose_link(link, time)?;
        }
        let inode = self.inode_mut(ino)?;
        inode.names = inode.names.saturating_sub(1);
        inode.ctime = time;
        let (linked, names, size) = (inode.linked, inode.names, inode.file_bytes());
        if linked {
            self.links.dirty.insert(LinkId(ino.0));
            if names == 0 {
                self.linked_bytes = self.linked_bytes.saturating_sub(size);
                self.links.new.remove(&LinkId(ino.0));
            }
        }
        self.drop_if_unused(ino)
    }

    fn lose_link(&mut self, link: LinkId, time: Timestamp) -> Result<(), FsError> {
        let ino = self.load_link(link)?;
        self.lose_name(ino, time)
    }

    /// The linked files that lose names when `ino` goes, one for each name.
    pub fn links_lost_with(&self, ino: Ino) -> Result<Vec<LinkId>, FsError> {
        match &self.inode(ino)?.body {
            Body::Directory(directory) if directory.below.links > 0 => self.links_below(ino),
            _ => Ok(Vec::new()),
        }
    }

    /// The links below a directory, one for each name. Looks only where totals say that there are some.
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
            let known = |name: &[u8]| directory.is_overlaid(name) || directory.children.contains_key(name);
            collect_links(self, directory.base, &known, &mut links, &mut stored)?;
        }
        while let Some(node) = stored.pop() {
            collect_links(self, Some(node), &|_| false, &mut links, &mut stored)?;
        }
        Ok(links)
    }

    fn apply_rename(&mut self, from: &Place, to: &Place, time: Timestamp) -> Result<(), FsError> {
        if let Some(replaced) = self.detach(to)? {
            self.lose_name(replaced, time)?;
        }
        let Some(ino) = self.detach(from)? else { return Ok(()) };
        self.move_to(ino, to, time)?;
        self.touch_directory(from.parent, time)?;
        self.touch_directory(to.parent, time)
    }

    fn apply_exchange(&mut self, from: &Place, to: &Place, time: Timestamp) -> Result<(), FsError> {
        let (Some(first), Some(second)) = (self.detach(from)?, self.detach(to)?) else { return Ok(()) };
        self.move_to(first, to, time)?;
        self.move_to(second, from, time)?;
        self.touch_directory(from.parent, time)?;
        self.touch_directory(to.parent, time)
    }

    fn move_to(&mut self, ino: Ino, to: &Place, time: Timestamp) -> Result<(), FsError> {
        self.attach(to, ino)?;
        self.change(ino, time, |_| {})
    }

    fn apply_link(&mut self, ino: Ino, at: &Place, time: Timestamp) -> Result<(), FsError> {
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
}

/// Collects the links of one stored map, and the directories below it that hold some.
fn collect_links(
    state: &State,
    node: Option<NodeId>,
    known: &dyn Fn(&[u8]) -> bool,
    links: &mut Vec<LinkId>,
    below: &mut Vec<NodeId>,
) -> Result<(), FsError> {
    let slots = link_bearing_slots(&state.objects, node)?;
    for (_, slot) in slots.into_iter().filter(|(name, _)| !known(name)) {
        match slot {
            Slot::Link(link) => links.push(link),
            Slot::Own(Entry { kind: EntryKind::Directory { entries, .. }, .. }) => below.extend(entries),
            Slot::Own(_) => {}
        }
    }
    Ok(())
}
