//! Moving a tree in memory onto another stored state: only what is loaded and differs is touched.

mod moves;

use std::collections::BTreeSet;

use avfs_core::diff::Change;
use avfs_core::map::{self, Difference, Nodes};
use avfs_core::{Entry, EntryKind, LinkId, LinkedFile, Slot, Timestamp, TreePath};

use crate::error::FsError;
use crate::inodes::{Ino, InoMap, link_key};
use crate::objects::ObjectError;
use crate::op::Place;
use crate::worktree::inode::{Body, Inode};
use crate::worktree::state::{Base, State};
use crate::worktree::watch::Seen;

impl State {
    pub fn rebase(&mut self, to: Base, changes: &[Change], renew: bool) -> Result<(), FsError> {
        self.stand_ins = self.find_stand_ins()?;
        let moved = self.move_to_base(to, changes, renew);
        self.stand_ins = InoMap::default();
        moved
    }

    /// Whoever made the other state knows these inodes by the numbers of the base that both came from.
    fn find_stand_ins(&mut self) -> Result<InoMap<Ino>, FsError> {
        let mut stand_ins = InoMap::default();
        for ino in std::mem::take(&mut self.renumbered) {
            let loaded = self.inodes.get(&ino).and_then(|inode| inode.place.clone());
            let Some(place) = loaded.or_else(|| self.stubs.place_of(ino)) else { continue };
            self.renumbered.insert(ino);
            if let Some(number) = self.number_at(&place)? {
                stand_ins.insert(number, ino);
            }
        }
        Ok(stand_ins)
    }

    fn move_to_base(&mut self, to: Base, changes: &[Change], renew: bool) -> Result<(), FsError> {
        self.layout += 1;
        self.revive_changed(changes)?;
        let relinked = self.relinked(&to)?;
        self.base = to;
        self.linked_bytes = match self.base.root.links {
            Some(id) => Nodes::<LinkedFile>::load(&self.objects, id)?.totals().bytes,
            None => 0,
        };
        if !relinked.is_empty() {
            let unlinked = self.rebase_links(relinked, renew)?;
            self.reread_directories(renew)?;
            for (ino, names) in unlinked {
                self.leave_one_name(ino, names, renew)?;
            }
        }
        self.rebase_directories(changes)?;
        // What comes from another time is not what is held, wherever it lies.
        let moved = if renew { Vec::new() } else { self.follow_moves(changes)? };
        if !moved.is_empty() {
            self.rebase_directories(changes)?;
        }
        for ino in &moved {
            self.drop_strangers(*ino)?;
        }
        for change in changes {
            self.rebase_path(change, renew)?;
        }
        // Not before: what comes back to a place may just have lost another one.
        for change in changes.iter().filter(|change| renew && change.after.is_some()) {
            self.bring_back(&change.path)?;
        }
        let relabelled = self.relabelled(changes);
        self.labels_changed(&[relabelled, moved].concat());
        // Numbers are free or taken as this state says.
        self.freed.clear();
        Ok(())
    }

    /// Loads, as they were, the changed files that doors know by number.
    fn revive_changed(&mut self, changes: &[Change]) -> Result<(), FsError> {
        for change in changes {
            let Some((parent, name)) = change.path.split_last() else { continue };
            let Some(parent) = self.loaded(&parent).filter(|ino| self.directory(*ino).is_ok()) else {
                continue;
            };
            let place = Place::new(parent, name);
            if let Some(ino) = self.number_at(&place)?
                && self.stubs.contains(ino)
            {
                self.revive(ino)?;
            }
        }
        Ok(())
    }

    /// The linked files whose records differ in another state, with the new ones. Those that doors know are
    /// loaded, as they were.
    fn relinked(&mut self, to: &Base) -> Result<InoMap<Option<LinkedFile>>, FsError> {
        let mut differing = InoMap::default();
        let (before, after) = (self.base.root.links, to.root.links);
        map::diff(&self.objects, before, after, |found: Difference<LinkedFile>| {
            if let Ok(key) = <[u8; 8]>::try_from(&found.key[..]) {
                differing.insert(Ino(u64::from_be_bytes(key)), found.after);
            }
            Ok::<(), ObjectError>(())
        })?;
        for ino in differing.keys() {
            self.revive(*ino)?;
        }
        Ok(differing)
    }

    /// Files in memory whose records in the link table differ take the new ones. Where they are children is
    /// found anew: names of a file with several are not known from it. Returns those that have no record any more, with
    /// the names that they had.
    fn rebase_links(
        &mut self,
        mut differing: InoMap<Option<LinkedFile>>,
        renew: bool,
    ) -> Result<InoMap<Vec<Place>>, FsError> {
        differing.retain(|ino, _| self.inodes.contains_key(ino));
        let mut names = self.forget_names(|child| differing.contains_key(&child));
        let mut unlinked = InoMap::default();
        for (ino, after) in differing {
            let Some(file) = after else {
                unlinked.insert(ino, names.remove(&ino).unwrap_or_default());
                continue;
            };
            let ctime = self.record(&link_key(LinkId(ino.0)))?.and_then(|record| record.ctime);
            let ctime = ctime.unwrap_or(file.entry.meta.mtime);
            let new = Inode { linked: true, names: file.names, ..Inode::from_entry(file.entry, ctime) };
            self.nameless.remove(&ino);
            self.abandoned.remove(&ino);
            self.replace_inode(ino, new, renew)?;
        }
        Ok(unlinked)
    }

    /// A file that had several names has one of them in the base, or none.
    fn leave_one_name(&mut self, ino: Ino, names: Vec<Place>, renew: bool) -> Result<(), FsError> {
        self.inode_mut(ino)?.linked = false;
        for place in names {
            if let Some(entry) = self.own_entry(&place)?
                && self.number_at(&place)? == Some(ino)
                && self.has_kind(ino, Some(&entry))
            {
                return self.put_back(place, ino, entry, renew);
            }
        }
        self.lose_place(ino, renew)
    }

    /// An inode in memory is at this place in the base, and nothing in memory is there.
    fn put_back(&mut self, place: Place, ino: Ino, entry: Entry, renew: bool) -> Result<(), FsError> {
        let ctime = self.place_ctime(&place)?.unwrap_or(entry.meta.mtime);
        let mut new = Inode::from_entry(entry, ctime);
        new.place = Some(place.clone());
        self.directory_mut(place.parent)?.children.insert(place.name.clone(), ino);
        self.nameless.remove(&ino);
        self.abandoned.remove(&ino);
        self.replace_inode(ino, new, renew)?;
        self.tell(None, Seen::Name { parent: place.parent, name: place.name });
        Ok(())
    }

    /// What the base has at a place, unless that is a file with several names.
    fn own_entry(&self, place: &Place) -> Result<Option<Entry>, FsError> {
        let Ok(directory) = self.directory(place.parent) else { return Ok(None) };
        let slot: Option<Slot> = map::get(&self.objects, directory.base, place.name.as_bytes())?;
        Ok(match slot {
            Some(Slot::Own(entry)) => Some(entry),
            Some(Slot::Link(_)) | None => None,
        })
    }

    /// Takes children out of all directories in memory; they are looked up again when they are needed. Returns where
    /// each was.
    fn forget_names(&mut self, is_meant: impl Fn(Ino) -> bool) -> InoMap<Vec<Place>> {
        let mut forgotten = Vec::new();
        let mut names: InoMap<Vec<Place>> = InoMap::default();
        for (parent, inode) in self.inodes.iter_mut() {
            if let Body::Directory(directory) = &mut inode.body {
                directory.children.retain(|name, child| {
                    if is_meant(*child) {
                        forgotten.push(Seen::Name { parent: *parent, name: name.clone() });
                        names.entry(*child).or_default().push(Place::new(*parent, name.clone()));
                    }
                    !is_meant(*child)
                });
            }
        }
        forgotten.into_iter().for_each(|seen| self.tell(None, seen));
        names
    }

    /// A name can stand for a linked file where it stood for the same one alone, or the other way round, and
    /// nobody calls that a change: all directories in memory take their new entries, and such names are
    /// looked up again.
    fn reread_directories(&mut self, renew: bool) -> Result<(), FsError> {
        let root = self.base.root.directory.clone();
        let ctime = root.meta.mtime;
        let mut open = vec![(Ino::ROOT, root, ctime)];
        while let Some((ino, entry, ctime)) = open.pop() {
            self.take_entry(ino, entry, ctime)?;
            let directory = self.directory(ino)?;
            let (base, children) = (directory.base, directory.children.clone());
            for (name, child) in children {
                let slot: Option<Slot> = map::get(&self.objects, base, name.as_bytes())?;
                let Some(inode) = self.inodes.get(&child) else { continue };
                let place = Place::new(ino, name);
                match slot {
                    Some(Slot::Own(entry)) if entry.is_directory() && inode.is_directory() => {
                        let ctime = self.place_ctime(&place)?.unwrap_or(entry.meta.mtime);
                        open.push((child, entry, ctime));
                    }
                    Some(Slot::Own(_)) if inode.linked => self.forget_child(&place, child, renew)?,
                    Some(Slot::Link(link)) if !inode.linked || Ino::of_link(link) != child => {
                        self.forget_child(&place, child, renew)?;
                    }
                    Some(_) | None => {}
                }
            }
        }
        Ok(())
    }

    fn forget_child(&mut self, place: &Place, child: Ino, renew: bool) -> Result<(), FsError> {
        self.directory_mut(place.parent)?.children.remove(&place.name);
        self.lose_place(child, renew)?;
        self.tell(None, Seen::Name { parent: place.parent, name: place.name.clone() });
        Ok(())
    }

    /// A directory in memory takes its stored entry.
    fn take_entry(&mut self, ino: Ino, entry: Entry, ctime: Timestamp) -> Result<(), FsError> {
        let EntryKind::Directory { entries, below } = entry.kind else { return Ok(()) };
        let Body::Directory(directory) = &mut self.inode_mut(ino)?.body else { return Ok(()) };
        (directory.base, directory.below, directory.directories) = (entries, below, None);
        directory.numbers = None;
        let inode = self.inode_mut(ino)?;
        (inode.meta, inode.ctime) = (entry.meta, ctime);
        self.tell(None, Seen::Attributes(ino));
        Ok(())
    }

    /// The directories above what changed take their new entries.
    fn rebase_directories(&mut self, changes: &[Change]) -> Result<(), FsError> {
        let mut above: BTreeSet<TreePath> = BTreeSet::from([TreePath::root()]);
        for change in changes {
            let mut path = change.path.clone();
            if change.after.as_ref().is_some_and(Entry::is_directory) {
                above.insert(path.clone());
            }
            while let Some((parent, _)) = path.split_last() {
                if !above.insert(parent.clone()) {
                    break;
                }
                path = parent;
            }
        }
        for path in above {
            if let Some(ino) = self.loaded(&path)
                && let Some((entry, ctime)) = self.stored_at(&path)?
            {
                self.take_entry(ino, entry, ctime)?;
            }
        }
        Ok(())
    }

    fn rebase_path(&mut self, change: &Change, renew: bool) -> Result<(), FsError> {
        let Some((parent, name)) = change.path.split_last() else { return Ok(()) };
        let Some(parent) = self.loaded(&parent) else { return Ok(()) };
        let place = Place::new(parent, name);
        let loaded = self.directory(parent).ok().and_then(|above| above.children.get(&place.name).copied());
        let Some(ino) = loaded else {
            self.tell(None, Seen::Name { parent, name: place.name });
            return Ok(());
        };
        let is_kept = self.number_at(&place)? == Some(ino) && self.has_kind(ino, change.after.as_ref());
        if !is_kept {
            self.directory_mut(parent)?.children.remove(&place.name);
            self.lose_place(ino, renew)?;
            self.tell(None, Seen::Name { parent, name: place.name });
            return Ok(());
        }
        match &change.after {
            Some(entry) if !entry.is_directory() && !self.inode(ino)?.linked => {
                let ctime = self.place_ctime(&place)?.unwrap_or(entry.meta.mtime);
                let mut new = Inode::from_entry(entry.clone(), ctime);
                new.place = Some(place.clone());
                if self.replace_inode(ino, new, renew)? {
                    self.tell(None, Seen::Name { parent, name: place.name });
                }
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// After a step in time, what was removed is there again under its number. If programs still have it open, it is in
    /// memory without a name, and gets its name back.
    fn bring_back(&mut self, path: &TreePath) -> Result<(), FsError> {
        let Some((parent, name)) = path.split_last() else { return Ok(()) };
        let Some(parent) = self.loaded(&parent).filter(|ino| self.directory(*ino).is_ok()) else {
            return Ok(());
        };
        let place = Place::new(parent, name);
        if !self.directory(parent)?.children.contains_key(&place.name)
            && let Some(entry) = self.own_entry(&place)?
            && let Some(ino) = self.number_at(&place)?
            && self.is_nameless(ino)
            && self.has_kind(ino, Some(&entry))
        {
            return self.put_back(place, ino, entry, true);
        }
        Ok(())
    }

    /// Gives an inode in memory another state; says whether its contents did change and handles are stale.
    fn replace_inode(&mut self, ino: Ino, new: Inode, renew: bool) -> Result<bool, FsError> {
        let old = self.inode(ino)?;
        let same = match (&old.body, &new.body) {
            (Body::Stored { size, content }, Body::Stored { size: new_size, content: new_content }) => {
                size == new_size && content == new_content
            }
            (Body::Symlink(old), Body::Symlink(new)) => old == new,
            _ => false,
        };
        let stale = renew && !same;
        let replaced = if stale { self.moment } else { old.replaced };
        let (holds, atime) = (old.holds, old.atime.clone());
        self.inodes.insert(ino, Inode { holds, atime, replaced, ..new });
        self.tell(None, Seen::Attributes(ino));
        match (same, stale) {
            (true, _) => {}
            (false, true) => self.tell(None, Seen::Replaced(ino)),
            (false, false) => self.tell(None, Seen::Contents { ino, offset: 0, len: 0 }),
        }
        Ok(stale)
    }

    /// The place of an inode is another's now. Without a name, it lives as long as it is held.
    fn lose_place(&mut self, ino: Ino, renew: bool) -> Result<(), FsError> {
        // The record of a linked file says how many names it has.
        let Some(inode) = self.inodes.get_mut(&ino).filter(|inode| !inode.linked) else { return Ok(()) };
        (inode.place, inode.names) = (None, 0);
        if renew {
            inode.replaced = self.moment;
            self.abandoned.insert(ino);
        }
        self.tell(None, if renew { Seen::Replaced(ino) } else { Seen::Attributes(ino) });
        self.drop_if_unused(ino)
    }

    fn has_kind(&self, ino: Ino, entry: Option<&Entry>) -> bool {
        let (Ok(inode), Some(entry)) = (self.inode(ino), entry) else { return false };
        match (&inode.body, &entry.kind) {
            (Body::Stored { .. } | Body::Edited(_), EntryKind::File { .. }) => true,
            (Body::Directory(_), EntryKind::Directory { .. }) => true,
            (Body::Symlink(_), EntryKind::Symlink { .. }) => true,
            (Body::Fifo, EntryKind::Fifo) | (Body::Socket, EntryKind::Socket) => true,
            (Body::CharDevice(old), EntryKind::CharDevice { device }) => old == device,
            (Body::BlockDevice(old), EntryKind::BlockDevice { device }) => old == device,
            _ => false,
        }
    }

    /// The inode at a path, if every step to it is in memory.
    pub(crate) fn loaded(&self, path: &TreePath) -> Option<Ino> {
        let mut ino = Ino::ROOT;
        for name in path.components() {
            ino = *self.directory(ino).ok()?.children.get(&name)?;
        }
        Some(ino)
    }

    /// The entry at a path of the base, with its change time. Every step to it is in memory.
    fn stored_at(&self, path: &TreePath) -> Result<Option<(Entry, Timestamp)>, FsError> {
        let root = self.base.root.directory.clone();
        let mut found = (root.clone(), root.meta.mtime);
        let mut parent = Ino::ROOT;
        for name in path.components() {
            let EntryKind::Directory { entries, .. } = found.0.kind else { return Ok(None) };
            let slot: Option<Slot> = map::get(&self.objects, entries, name.as_bytes())?;
            let Some(Slot::Own(entry)) = slot else { return Ok(None) };
            let place = Place::new(parent, name);
            let ctime = self.place_ctime(&place)?.unwrap_or(entry.meta.mtime);
            let Some(child) = self.directory(parent)?.children.get(&place.name) else { return Ok(None) };
            (found, parent) = ((entry, ctime), *child);
        }
        Ok(Some(found))
    }
}
