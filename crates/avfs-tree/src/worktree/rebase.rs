//! Moves a tree in memory onto another stored state: only loaded inodes that differ are touched.

mod moves;

use std::collections::BTreeSet;

use avfs_core::diff::TreeChange;
use avfs_core::map::{self, MapDifference, NodeSource};
use avfs_core::{Entry, EntryKind, LinkId, LinkedFile, Slot, Timestamp, TreePath};

use crate::error::FsError;
use crate::inodes::{Ino, InoMap, link_key};
use crate::objects::ObjectError;
use crate::op::EntryPlace;
use crate::worktree::inode::{Inode, InodeBody};
use crate::worktree::relabel::{labels_changed, relabelled};
use crate::worktree::state::{BaseTree, TreeState};
use crate::worktree::watch::Invalidation;

/// A tree on its way from one base to another.
pub(crate) struct Rebase<'a> {
    pub state: &'a mut TreeState,
    /// The other base is of another point in time: handles on files whose contents change become stale.
    pub renew: bool,
}

impl Rebase<'_> {
    /// Makes `to` the base of the tree; `changes` are the differences between the old base and `to`.
    pub(super) fn run(mut self, to: BaseTree, changes: &[TreeChange]) -> Result<(), FsError> {
        self.state.stand_ins = self.find_stand_ins()?;
        let moved = self.move_to_base(to, changes);
        // Even after a failure: the numbers mean something only while two bases are involved.
        self.state.stand_ins = InoMap::default();
        moved
    }

    /// The creator of the other state knows these inodes by the numbers of the common base.
    fn find_stand_ins(&mut self) -> Result<InoMap<Ino>, FsError> {
        let mut stand_ins = InoMap::default();
        // Rebuilt while it is walked: an inode that is no longer known anywhere drops out.
        for ino in std::mem::take(&mut self.state.renumbered) {
            let loaded = self.state.inodes.get(&ino).and_then(|inode| inode.place.clone());
            let Some(place) = loaded.or_else(|| self.state.stubs.place_of(ino)) else {
                continue;
            };
            self.state.renumbered.insert(ino);
            if let Some(number) = self.state.number_at(&place)? {
                stand_ins.insert(number, ino);
            }
        }
        Ok(stand_ins)
    }

    fn move_to_base(&mut self, to: BaseTree, changes: &[TreeChange]) -> Result<(), FsError> {
        self.state.layout += 1;
        // Both look things up in the old base, so they come before it is replaced.
        self.revive_changed(changes)?;
        let relinked = self.relinked(&to)?;
        self.state.base = to;
        self.state.linked_bytes = match self.state.base.root.links {
            Some(id) => {
                NodeSource::<LinkedFile>::load(&self.state.objects, id)?
                    .totals()
                    .bytes
            }
            None => 0,
        };
        if !relinked.is_empty() {
            let unlinked = self.rebase_links(relinked)?;
            self.reread_directories()?;
            for (ino, names) in unlinked {
                self.leave_one_name(ino, names)?;
            }
        }
        self.rebase_directories(changes)?;
        // Contents of another point in time are not the held ones, wherever they lie.
        let moved = if self.renew {
            Vec::new()
        } else {
            self.follow_moves(changes)?
        };
        if !moved.is_empty() {
            self.rebase_directories(changes)?;
        }
        for ino in &moved {
            self.drop_strangers(*ino)?;
        }
        for change in changes {
            self.rebase_path(change)?;
        }
        // Not earlier: an inode that returns to a place may just have lost another one.
        if self.renew {
            for change in changes.iter().filter(|change| change.after.is_some()) {
                self.bring_back(&change.path)?;
            }
        }
        let relabelled = relabelled(self.state, changes);
        labels_changed(self.state, &[relabelled, moved].concat());
        // The new state decides which numbers are free.
        self.state.freed.clear();
        Ok(())
    }

    /// Loads, as they were, the changed files that doors know by number.
    fn revive_changed(&mut self, changes: &[TreeChange]) -> Result<(), FsError> {
        for change in changes {
            let Some((parent, name)) = change.path.split_last() else {
                continue;
            };
            let Some(parent) = self
                .state
                .loaded(&parent)
                .filter(|ino| self.state.directory(*ino).is_ok())
            else {
                continue;
            };
            let place = EntryPlace::new(parent, name);
            if let Some(ino) = self.state.number_at(&place)?
                && self.state.stubs.contains(ino)
            {
                self.state.revive(ino)?;
            }
        }
        Ok(())
    }

    /// The linked files whose records differ in another state, with the new records. Those that doors know
    /// are loaded as they were.
    fn relinked(&mut self, to: &BaseTree) -> Result<InoMap<Option<LinkedFile>>, FsError> {
        let mut differing = InoMap::default();
        let before = self.state.base.root.links;
        let after = to.root.links;
        map::diff(
            &self.state.objects,
            before,
            after,
            |found: MapDifference<LinkedFile>| {
                if let Ok(key) = <[u8; 8]>::try_from(&found.key[..]) {
                    differing.insert(Ino(u64::from_be_bytes(key)), found.after);
                }
                Ok::<(), ObjectError>(())
            },
        )?;
        for ino in differing.keys() {
            self.state.revive(*ino)?;
        }
        Ok(differing)
    }

    /// Files in memory whose records in the link table differ take the new ones. Their places as children are
    /// looked up again, because a linked file does not record its names. Returns files that no longer have a
    /// record, with the names that they had.
    fn rebase_links(
        &mut self,
        mut differing: InoMap<Option<LinkedFile>>,
    ) -> Result<InoMap<Vec<EntryPlace>>, FsError> {
        // The others are read from the new table when they are looked up.
        differing.retain(|ino, _| self.state.inodes.contains_key(ino));
        let mut names = self.forget_names(|child| differing.contains_key(&child));
        let mut unlinked = InoMap::default();
        for (ino, after) in differing {
            let Some(file) = after else {
                unlinked.insert(ino, names.remove(&ino).unwrap_or_default());
                continue;
            };
            let ctime = self
                .state
                .record(&link_key(LinkId(ino.0)))?
                .and_then(|record| record.ctime);
            let ctime = ctime.unwrap_or(file.entry.meta.mtime);
            let new = Inode {
                linked: true,
                names: file.names,
                ..Inode::from_entry(file.entry, ctime)
            };
            self.state.nameless.remove(&ino);
            self.state.abandoned.remove(&ino);
            self.replace_inode(ino, new)?;
        }
        Ok(unlinked)
    }

    /// A file that had several names has one of them in the base, or none.
    fn leave_one_name(&mut self, ino: Ino, names: Vec<EntryPlace>) -> Result<(), FsError> {
        self.state.inode_mut(ino)?.linked = false;
        for place in names {
            if let Some(entry) = self.own_entry(&place)?
                && self.state.number_at(&place)? == Some(ino)
                && self.has_kind(ino, Some(&entry))
            {
                return self.put_back(place, ino, entry);
            }
        }
        self.lose_place(ino)
    }

    /// Puts an inode in memory at this place of the base, where nothing is loaded.
    fn put_back(&mut self, place: EntryPlace, ino: Ino, entry: Entry) -> Result<(), FsError> {
        let ctime = self.state.place_ctime(&place)?.unwrap_or(entry.meta.mtime);
        let mut new = Inode::from_entry(entry, ctime);
        new.place = Some(place.clone());
        self.state
            .directory_mut(place.parent)?
            .children
            .insert(place.name.clone(), ino);
        // It has a name again, so the next release of its last handle must not free it.
        self.state.nameless.remove(&ino);
        self.state.abandoned.remove(&ino);
        self.replace_inode(ino, new)?;
        self.state.watchers.tell(
            None,
            Invalidation::Name {
                parent: place.parent,
                name: place.name,
            },
        );
        Ok(())
    }

    /// The base's entry at a place, unless it is a file with several names.
    fn own_entry(&self, place: &EntryPlace) -> Result<Option<Entry>, FsError> {
        let Ok(directory) = self.state.directory(place.parent) else {
            return Ok(None);
        };
        let slot: Option<Slot> = map::get(&self.state.objects, directory.base, place.name.as_bytes())?;
        Ok(match slot {
            Some(Slot::Own(entry)) => Some(entry),
            Some(Slot::Link(_)) | None => None,
        })
    }

    /// Removes children from all directories in memory; they are looked up again on demand. Returns the
    /// places of each.
    fn forget_names(&mut self, is_meant: impl Fn(Ino) -> bool) -> InoMap<Vec<EntryPlace>> {
        let mut forgotten = Vec::new();
        let mut names: InoMap<Vec<EntryPlace>> = InoMap::default();
        for (parent, inode) in self.state.inodes.iter_mut() {
            if let InodeBody::Directory(directory) = &mut inode.body {
                directory.children.retain(|name, child| {
                    if is_meant(*child) {
                        // After the loop: telling watchers needs the state that the loop borrows.
                        forgotten.push(Invalidation::Name {
                            parent: *parent,
                            name: name.clone(),
                        });
                        names
                            .entry(*child)
                            .or_default()
                            .push(EntryPlace::new(*parent, name.clone()));
                    }
                    !is_meant(*child)
                });
            }
        }
        forgotten
            .into_iter()
            .for_each(|invalidation| self.state.watchers.tell(None, invalidation));
        names
    }

    /// A name can change from a linked file to the same file unlinked, or vice versa, and the diff does not
    /// report that as a change: all directories in memory take their new entries, and such names are looked
    /// up again.
    fn reread_directories(&mut self) -> Result<(), FsError> {
        let root = self.state.base.root.directory.clone();
        let ctime = root.meta.mtime;
        let mut open = vec![(Ino::ROOT, root, ctime)];
        while let Some((ino, entry, ctime)) = open.pop() {
            self.take_entry(ino, entry, ctime)?;
            let directory = self.state.directory(ino)?;
            let base = directory.base;
            let children = directory.children.clone();
            for (name, child) in children {
                let slot: Option<Slot> = map::get(&self.state.objects, base, name.as_bytes())?;
                let Some(inode) = self.state.inodes.get(&child) else {
                    continue;
                };
                let place = EntryPlace::new(ino, name);
                match slot {
                    Some(Slot::Own(entry)) if entry.is_directory() && inode.is_directory() => {
                        let ctime = self.state.place_ctime(&place)?.unwrap_or(entry.meta.mtime);
                        open.push((child, entry, ctime));
                    }
                    Some(Slot::Own(_)) if inode.linked => self.forget_child(&place, child)?,
                    Some(Slot::Link(link)) if !inode.linked || Ino::of_link(link) != child => {
                        self.forget_child(&place, child)?;
                    }
                    Some(_) | None => {}
                }
            }
        }
        Ok(())
    }

    fn forget_child(&mut self, place: &EntryPlace, child: Ino) -> Result<(), FsError> {
        self.state
            .directory_mut(place.parent)?
            .children
            .remove(&place.name);
        self.lose_place(child)?;
        self.state.watchers.tell(
            None,
            Invalidation::Name {
                parent: place.parent,
                name: place.name.clone(),
            },
        );
        Ok(())
    }

    /// Replaces the stored entry of a directory in memory.
    fn take_entry(&mut self, ino: Ino, entry: Entry, ctime: Timestamp) -> Result<(), FsError> {
        let EntryKind::Directory { entries, below } = entry.kind else {
            return Ok(());
        };
        let InodeBody::Directory(directory) = &mut self.state.inode_mut(ino)?.body else {
            return Ok(());
        };
        directory.base = entries;
        directory.below = below;
        directory.directories = None;
        directory.numbers = None;
        let inode = self.state.inode_mut(ino)?;
        inode.meta = entry.meta;
        inode.ctime = ctime;
        self.state.watchers.tell(None, Invalidation::Attributes(ino));
        Ok(())
    }

    /// The directories above the changes take their new entries.
    fn rebase_directories(&mut self, changes: &[TreeChange]) -> Result<(), FsError> {
        let mut above: BTreeSet<TreePath> = BTreeSet::from([TreePath::root()]);
        for change in changes {
            let mut path = change.path.clone();
            if change.after.as_ref().is_some_and(Entry::is_directory) {
                above.insert(path.clone());
            }
            while let Some((parent, _)) = path.split_last() {
                // The rest of the way up was inserted with an earlier change.
                if !above.insert(parent.clone()) {
                    break;
                }
                path = parent;
            }
        }
        for path in above {
            if let Some(ino) = self.state.loaded(&path)
                && let Some((entry, ctime)) = self.stored_at(&path)?
            {
                self.take_entry(ino, entry, ctime)?;
            }
        }
        Ok(())
    }

    fn rebase_path(&mut self, change: &TreeChange) -> Result<(), FsError> {
        let Some((parent, name)) = change.path.split_last() else {
            return Ok(());
        };
        let Some(parent) = self.state.loaded(&parent) else {
            return Ok(());
        };
        let place = EntryPlace::new(parent, name);
        let loaded = self
            .state
            .directory(parent)
            .ok()
            .and_then(|above| above.children.get(&place.name).copied());
        let Some(ino) = loaded else {
            self.state.watchers.tell(
                None,
                Invalidation::Name {
                    parent,
                    name: place.name,
                },
            );
            return Ok(());
        };
        // The same number for the same kind of entry is the same inode to programs; anything else is
        // another file at the same name.
        let is_kept = self.state.number_at(&place)? == Some(ino) && self.has_kind(ino, change.after.as_ref());
        if !is_kept {
            self.state.directory_mut(parent)?.children.remove(&place.name);
            self.lose_place(ino)?;
            self.state.watchers.tell(
                None,
                Invalidation::Name {
                    parent,
                    name: place.name,
                },
            );
            return Ok(());
        }
        match &change.after {
            Some(entry) if !entry.is_directory() && !self.state.inode(ino)?.linked => {
                let ctime = self.state.place_ctime(&place)?.unwrap_or(entry.meta.mtime);
                let mut new = Inode::from_entry(entry.clone(), ctime);
                new.place = Some(place.clone());
                if self.replace_inode(ino, new)? {
                    self.state.watchers.tell(
                        None,
                        Invalidation::Name {
                            parent,
                            name: place.name,
                        },
                    );
                }
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// After a step in time, a removed file exists again under its number. If programs still have it open, it
    /// is in memory without a name, and gets its name back.
    fn bring_back(&mut self, path: &TreePath) -> Result<(), FsError> {
        let Some((parent, name)) = path.split_last() else {
            return Ok(());
        };
        let Some(parent) = self
            .state
            .loaded(&parent)
            .filter(|ino| self.state.directory(*ino).is_ok())
        else {
            return Ok(());
        };
        let place = EntryPlace::new(parent, name);
        if !self.state.directory(parent)?.children.contains_key(&place.name)
            && let Some(entry) = self.own_entry(&place)?
            && let Some(ino) = self.state.number_at(&place)?
            && self.state.is_nameless(ino)
            && self.has_kind(ino, Some(&entry))
        {
            return self.put_back(place, ino, entry);
        }
        Ok(())
    }

    /// Replaces the state of an inode in memory; returns whether its contents changed and handles are stale.
    fn replace_inode(&mut self, ino: Ino, new: Inode) -> Result<bool, FsError> {
        let old = self.state.inode(ino)?;
        let same = match (&old.body, &new.body) {
            (
                InodeBody::Stored { size, content },
                InodeBody::Stored {
                    size: new_size,
                    content: new_content,
                },
            ) => size == new_size && content == new_content,
            (InodeBody::Symlink(old), InodeBody::Symlink(new)) => old == new,
            _ => false,
        };
        let stale = self.renew && !same;
        let replaced = if stale { self.state.moment } else { old.replaced };
        let holds = old.holds;
        let atime = old.atime.clone();
        self.state.inodes.insert(
            ino,
            Inode {
                holds,
                atime,
                replaced,
                ..new
            },
        );
        self.state.watchers.tell(None, Invalidation::Attributes(ino));
        match (same, stale) {
            (true, _) => {}
            (false, true) => self.state.watchers.tell(None, Invalidation::Replaced(ino)),
            (false, false) => self.state.watchers.tell(
                None,
                Invalidation::Contents {
                    ino,
                    offset: 0,
                    len: 0,
                },
            ),
        }
        Ok(stale)
    }

    /// The place of an inode now belongs to another inode. Without a name, the old one lives as long as it is held.
    fn lose_place(&mut self, ino: Ino) -> Result<(), FsError> {
        // The record of a linked file has the number of its names.
        let Some(inode) = self.state.inodes.get_mut(&ino).filter(|inode| !inode.linked) else {
            return Ok(());
        };
        inode.place = None;
        inode.names = 0;
        // A step in time: handles become stale, and the number is free for the inode that the other state
        // has here.
        if self.renew {
            inode.replaced = self.state.moment;
            self.state.abandoned.insert(ino);
        }
        self.state.watchers.tell(
            None,
            if self.renew {
                Invalidation::Replaced(ino)
            } else {
                Invalidation::Attributes(ino)
            },
        );
        self.state.drop_if_unused(ino)
    }

    fn has_kind(&self, ino: Ino, entry: Option<&Entry>) -> bool {
        let (Ok(inode), Some(entry)) = (self.state.inode(ino), entry) else {
            return false;
        };
        match (&inode.body, &entry.kind) {
            (InodeBody::Stored { .. } | InodeBody::Edited(_), EntryKind::File { .. }) => true,
            (InodeBody::Directory(_), EntryKind::Directory { .. }) => true,
            (InodeBody::Symlink(_), EntryKind::Symlink { .. }) => true,
            (InodeBody::Fifo, EntryKind::Fifo) | (InodeBody::Socket, EntryKind::Socket) => true,
            (InodeBody::CharDevice(old), EntryKind::CharDevice { device }) => old == device,
            (InodeBody::BlockDevice(old), EntryKind::BlockDevice { device }) => old == device,
            _ => false,
        }
    }

    /// The entry at a path of the base, with its change time. All directories on the way are in memory.
    fn stored_at(&self, path: &TreePath) -> Result<Option<(Entry, Timestamp)>, FsError> {
        let root = self.state.base.root.directory.clone();
        let mut found = (root.clone(), root.meta.mtime);
        let mut parent = Ino::ROOT;
        for name in path.components() {
            let EntryKind::Directory { entries, .. } = found.0.kind else {
                return Ok(None);
            };
            let slot: Option<Slot> = map::get(&self.state.objects, entries, name.as_bytes())?;
            let Some(Slot::Own(entry)) = slot else {
                return Ok(None);
            };
            let place = EntryPlace::new(parent, name);
            let ctime = self.state.place_ctime(&place)?.unwrap_or(entry.meta.mtime);
            let Some(child) = self.state.directory(parent)?.children.get(&place.name) else {
                return Ok(None);
            };
            found = (entry, ctime);
            parent = *child;
        }
        Ok(Some(found))
    }
}
