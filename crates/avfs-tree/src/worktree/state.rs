//! The tree in memory: inodes loaded on demand from the head snapshot, with what changed since.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use avfs_core::map::{self, NodeSource};
use avfs_core::{
    Content, EntryName, LinkId, LinkedFile, NodeId, Promise, Root, Slot, Timestamp, Totals, TreePath,
};

use crate::error::FsError;
use crate::inodes::{Ino, InoMap, InoSet, InodeRecord, link_key, place_key, place_mark, taken_key};
use crate::journal::{Journal, LogFile};
use crate::objects::{ObjectError, Objects};
use crate::op::EntryPlace;
use crate::promises::KeptDirectory;
use crate::worktree::inode::{DirectoryBody, Inode, InodeBody};
use crate::worktree::stubs::Stubs;
use crate::worktree::view::{RuleView, RuleViews, Trail};
use crate::worktree::watch::Watchers;
use crate::worktree::{Door, KnownInode, TreeMoment};

/// A snapshot's tree with the inode table that the vault keeps beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseTree {
    /// The tree.
    pub root: Root,
    /// The table of inode numbers; `None` if the rule gives all of them.
    pub inodes: Option<NodeId>,
}

pub(crate) struct TreeState {
    pub objects: Objects,
    pub journal: Option<Journal>,
    /// How often the journals referred to objects.
    pub objects_named: u64,
    /// Journals that are complete and not part of the head, oldest first.
    pub sealed: Vec<Arc<LogFile>>,
    /// The inodes that the journal knows: those that it created and those that were introduced to it.
    pub journaled: InoSet,
    /// The temporary file for bytes of files without a name.
    pub spill: Option<Arc<LogFile>>,
    pub watchers: Watchers,
    /// Names whose lookups through doors that never wait are delayed.
    pub preparing: HashSet<EntryPlace>,
    /// The views of the doors with rules.
    pub views: RuleViews,
    /// Counts changes that may affect the rule states of inodes, other than creating names.
    pub layout: u64,
    /// How many requests were checked against the rules.
    pub asked: u64,
    pub moment: TreeMoment,
    pub base: BaseTree,
    pub inodes: InoMap<Inode>,
    /// Files that are known by number and not loaded.
    pub stubs: Stubs,
    /// The inodes that are marked as dirty.
    pub dirty: InoSet,
    /// The inodes that are alive only through open handles.
    pub nameless: InoSet,
    /// The nameless inodes that lost their names by a rebase: every handle on them is stale, so the base can
    /// reuse their numbers.
    pub abandoned: InoSet,
    /// The inodes that were loaded under a number other than the base's, because an inode without a name has
    /// that one.
    pub renumbered: InoSet,
    /// While the tree is moved to another base: the renumbered inodes, by the numbers that they have in the base.
    pub stand_ins: InoMap<Ino>,
    /// Bytes in files with several names.
    pub linked_bytes: u64,
    pub links: ChangedLinks,
    /// Numbers of inodes that are gone since the last snapshot.
    pub freed: BTreeSet<Ino>,
    /// The changes that a snapshot has captured and not stored yet.
    pub settling: Option<CapturedChanges>,
}

/// The differences from the link table of the last snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedLinks {
    /// Linked files whose record changed; `None` in the map of inodes: the file is gone.
    pub dirty: BTreeSet<LinkId>,
    /// Linked files that came with a stored tree and are not in memory: their records as they came.
    pub new: BTreeMap<LinkId, LinkedFile>,
}

/// The part of the changes that a snapshot has captured: it lies between the base and later changes.
#[derive(Debug, Default)]
pub(crate) struct CapturedChanges {
    pub links: ChangedLinks,
    pub freed: BTreeSet<Ino>,
    pub dirty: Vec<Ino>,
}

impl TreeState {
    pub(crate) fn new(objects: Objects, base: BaseTree) -> Result<TreeState, ObjectError> {
        let root = base.root.directory.clone();
        let root = Inode::from_entry(root.clone(), root.meta.mtime);
        let linked_bytes = match base.root.links {
            Some(id) => NodeSource::<LinkedFile>::load(&objects, id)?.totals().bytes,
            None => 0,
        };
        Ok(TreeState {
            objects,
            journal: None,
            objects_named: 0,
            sealed: Vec::new(),
            journaled: InoSet::default(),
            spill: None,
            watchers: Watchers::default(),
            preparing: HashSet::new(),
            views: RuleViews::default(),
            layout: 0,
            asked: 0,
            moment: TreeMoment::default(),
            base,
            inodes: InoMap::from_iter([(Ino::ROOT, root)]),
            stubs: Stubs::default(),
            dirty: InoSet::default(),
            nameless: InoSet::default(),
            abandoned: InoSet::default(),
            renumbered: InoSet::default(),
            stand_ins: InoMap::default(),
            linked_bytes,
            links: ChangedLinks::default(),
            freed: BTreeSet::new(),
            settling: None,
        })
    }

    pub(crate) fn is_dirty(&self) -> bool {
        let root_dirty = self.inodes.get(&Ino::ROOT).is_some_and(|root| root.dirty);
        root_dirty || !self.links.dirty.is_empty()
    }

    /// Changes that a snapshot has captured and not stored yet are not in the head: they count as well.
    pub(crate) fn is_dirty_beside(&self, name: &EntryName) -> bool {
        let is_other = |root: &DirectoryBody| root.changed.iter().any(|changed| changed != name);
        let is_root_changed = self.directory(Ino::ROOT).map_or(true, is_other);
        is_root_changed || !self.links.dirty.is_empty() || self.settling.is_some()
    }

    pub(crate) fn totals(&self) -> Totals {
        let root = self
            .inodes
            .get(&Ino::ROOT)
            .map_or(Totals::default(), Inode::totals_in_parent);
        // The root directory is not counted, as it can be neither created nor removed.
        let below = root.minus(Totals {
            inodes: 1,
            ..Totals::default()
        });
        below.plus(Totals {
            bytes: self.linked_bytes,
            ..Totals::default()
        })
    }

    pub(crate) fn inode(&self, ino: Ino) -> Result<&Inode, FsError> {
        self.inodes.get(&ino).ok_or(FsError::Stale(ino))
    }

    /// The inode that a handle was opened on.
    pub(crate) fn inode_at(&self, at: KnownInode) -> Result<&Inode, FsError> {
        let inode = self.inode(at.ino)?;
        // Without a moment, the caller asks about the inode as it is now.
        if at.known.is_none_or(|known| known >= inode.replaced) {
            Ok(inode)
        } else {
            Err(FsError::Stale(at.ino))
        }
    }

    pub(crate) fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, FsError> {
        self.inodes.get_mut(&ino).ok_or(FsError::Stale(ino))
    }

    pub(crate) fn directory(&self, ino: Ino) -> Result<&DirectoryBody, FsError> {
        match &self.inode(ino)?.body {
            InodeBody::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotADirectory),
        }
    }

    pub(crate) fn directory_mut(&mut self, ino: Ino) -> Result<&mut DirectoryBody, FsError> {
        match &mut self.inode_mut(ino)?.body {
            InodeBody::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotADirectory),
        }
    }

    /// The inode at a place, loaded on demand.
    pub(crate) fn lookup(&mut self, place: &EntryPlace) -> Result<Option<Ino>, FsError> {
        let directory = self.directory(place.parent)?;
        if let Some(child) = directory.children.get(&place.name) {
            return Ok(Some(*child));
        }
        // Changed and not a child: removed since the base. The base still lists it.
        if directory.is_overlaid(place.name.as_bytes()) {
            return Ok(None);
        }
        let slot: Option<Slot> = map::get(&self.objects, directory.base, place.name.as_bytes())?;
        slot.map(|slot| self.load(place, slot)).transpose()
    }

    /// Brings the inode behind a stored slot into memory.
    pub(crate) fn load(&mut self, place: &EntryPlace, slot: Slot) -> Result<Ino, FsError> {
        self.load_as(place, slot, None)
    }

    /// Replays that an inode was found at a place, with the number that it had then.
    pub(crate) fn find_again(&mut self, place: &EntryPlace, ino: Ino) -> Result<(), FsError> {
        let directory = self.directory(place.parent)?;
        if directory.children.contains_key(&place.name) || directory.is_overlaid(place.name.as_bytes()) {
            return Ok(());
        }
        let slot: Option<Slot> = map::get(&self.objects, directory.base, place.name.as_bytes())?;
        slot.map(|slot| self.load_as(place, slot, Some(ino)))
            .transpose()
            .map(|_| ())
    }

    pub(crate) fn load_as(
        &mut self,
        place: &EntryPlace,
        slot: Slot,
        number: Option<Ino>,
    ) -> Result<Ino, FsError> {
        let ino = match slot {
            Slot::Link(link) => self.load_link(link)?,
            Slot::Own(entry) => {
                let record = self.place_record(place)?;
                let ino = match number {
                    Some(ino) => ino,
                    None => self.number_of(place)?,
                };
                // Only an inode without a name can hold the number that the base gives to this place; the
                // check costs a lookup, so it is skipped in the usual case.
                if !self.nameless.is_empty() && self.number_at(place)? != Some(ino) {
                    self.renumbered.insert(ino);
                }
                let ctime = record.and_then(|record| record.ctime).unwrap_or(entry.meta.mtime);
                let mut inode = Inode::from_entry(entry, ctime);
                inode.place = Some(place.clone());
                inode.holds = self.stubs.take_holds(ino);
                if let Some(abandoned) = self.take_abandoned(ino) {
                    inode.holds = abandoned.holds;
                    inode.replaced = abandoned.replaced;
                }
                self.inodes.insert(ino, inode);
                ino
            }
        };
        self.directory_mut(place.parent)?
            .children
            .insert(place.name.clone(), ino);
        Ok(ino)
    }

    /// The number of an entry that is not loaded.
    pub(crate) fn number_of(&self, place: &EntryPlace) -> Result<Ino, FsError> {
        // Every handle on an abandoned inode is stale, so the number can go to the inode at this place.
        if !self.abandoned.is_empty()
            && let Some(ino) = self.number_at(place)?.filter(|ino| self.abandoned.contains(ino))
        {
            return Ok(ino);
        }
        match self.place_record(place)?.and_then(|record| record.ino) {
            Some(ino) => Ok(ino),
            None => self.free_number(place),
        }
    }

    fn take_abandoned(&mut self, ino: Ino) -> Option<Inode> {
        if !self.abandoned.remove(&ino) {
            return None;
        }
        self.nameless.remove(&ino);
        // Its rule state must be computed again.
        self.layout += 1;
        self.inodes.remove(&ino)
    }

    pub(crate) fn load_link(&mut self, link: LinkId) -> Result<Ino, FsError> {
        let ino = Ino::of_link(link);
        // Reached through another of its names.
        if self.inodes.contains_key(&ino) {
            return Ok(ino);
        }
        let file = self.link_record(link)?;
        let file = file.ok_or(ObjectError::Structure(avfs_core::DecodeError::Invalid(
            "a linked file has no record",
        )))?;
        let ctime = self.record(&link_key(link))?.and_then(|record| record.ctime);
        let ctime = ctime.unwrap_or(file.entry.meta.mtime);
        let inode = Inode {
            linked: true,
            names: file.names,
            ..Inode::from_entry(file.entry, ctime)
        };
        self.inodes.insert(ino, inode);
        Ok(ino)
    }

    /// The stored record of a linked file that is not in memory.
    pub(crate) fn link_record(&self, link: LinkId) -> Result<Option<LinkedFile>, FsError> {
        // The newest layer first: changes since the capture, then the captured ones, then the base.
        for layer in [
            Some(&self.links),
            self.settling.as_ref().map(|settling| &settling.links),
        ] {
            let Some(layer) = layer else { continue };
            if let Some(file) = layer.new.get(&link) {
                return Ok(Some(file.clone()));
            }
            // It was removed in this layer: if it existed, it would be in memory, and this is asked only
            // for files that are not.
            if layer.dirty.contains(&link) {
                return Ok(None);
            }
        }
        Ok(map::get(&self.objects, self.base.root.links, &link.key())?)
    }

    /// The table's record of a place, unless its number is in use in memory.
    fn place_record(&self, place: &EntryPlace) -> Result<Option<InodeRecord>, FsError> {
        let record = self.marked_record(place)?;
        let is_free = |ino: Ino| {
            !self.inodes.contains_key(&ino) && !self.is_freed(ino) && !self.stubs.is_elsewhere(ino, place)
        };
        Ok(record.filter(|record| record.ino.is_none_or(is_free)))
    }

    /// The table's record of a place. A record can outlive its directory; its number is trusted only if the
    /// mark of the number also refers to this place.
    fn marked_record(&self, place: &EntryPlace) -> Result<Option<InodeRecord>, FsError> {
        let key = place_key(place.parent, &place.name);
        let Some(record) = self.record(&key)? else {
            // No snapshot has a record of this place yet; the source may have given it a number.
            return self.listed_record(place);
        };
        let Some(ino) = record.ino else {
            return Ok(Some(record));
        };
        let taken = self.record(&taken_key(ino))?;
        Ok(taken
            .is_some_and(|taken| taken.ino == Some(place_mark(&key)))
            .then_some(record))
    }

    /// The source's record of a place in a directory.
    fn listed_record(&self, place: &EntryPlace) -> Result<Option<InodeRecord>, FsError> {
        let numbers = match self.directory(place.parent)?.numbers {
            Some(numbers) => Some(numbers),
            None => self.listing(place.parent)?.and_then(|kept| kept.numbers),
        };
        let record: Option<InodeRecord> = map::get(&self.objects, numbers, place.name.as_bytes())?;
        let Some(InodeRecord {
            ino: Some(ino),
            ctime,
        }) = record
        else {
            return Ok(record);
        };
        // The source may have reused the number of a file that is gone.
        let is_taken = self.record(&taken_key(ino))?.is_some();
        Ok(Some(InodeRecord {
            ino: (!is_taken).then_some(ino),
            ctime,
        }))
    }

    /// The number that the base gives to a place, as long as no other inode uses it; `None` if nothing is
    /// there.
    pub(crate) fn number_at(&self, place: &EntryPlace) -> Result<Option<Ino>, FsError> {
        let directory = self.directory(place.parent)?;
        let slot: Option<Slot> = map::get(&self.objects, directory.base, place.name.as_bytes())?;
        let number = match slot {
            None => return Ok(None),
            Some(Slot::Link(link)) => Ino::of_link(link),
            Some(Slot::Own(_)) => {
                let recorded = self.marked_record(place)?.and_then(|record| record.ino);
                recorded.unwrap_or_else(|| Ino::derived(place.parent, &place.name, 0))
            }
        };
        Ok(Some(self.stand_ins.get(&number).copied().unwrap_or(number)))
    }

    /// The change time that the base gives to a place, if it is not the modification time.
    pub(crate) fn place_ctime(&self, place: &EntryPlace) -> Result<Option<Timestamp>, FsError> {
        Ok(self.marked_record(place)?.and_then(|record| record.ctime))
    }

    pub(crate) fn record(&self, key: &[u8]) -> Result<Option<InodeRecord>, FsError> {
        Ok(map::get(&self.objects, self.base.inodes, key)?)
    }

    /// The first unused number that the rule derives for this place.
    pub(crate) fn free_number(&self, place: &EntryPlace) -> Result<Ino, FsError> {
        for attempt in 0.. {
            let ino = Ino::derived(place.parent, &place.name, attempt);
            // A stub at another place has the number in use although no inode is loaded for it.
            if !self.is_taken(ino)? && !self.stubs.is_elsewhere(ino, place) {
                return Ok(ino);
            }
        }
        unreachable!("there are more numbers than inodes")
    }

    fn is_freed(&self, ino: Ino) -> bool {
        self.freed.contains(&ino)
            || self
                .settling
                .as_ref()
                .is_some_and(|taken| taken.freed.contains(&ino))
    }

    pub(crate) fn is_taken(&self, ino: Ino) -> Result<bool, FsError> {
        if self.inodes.contains_key(&ino) {
            return Ok(true);
        }
        if self.link_record(LinkId(ino.0))?.is_some() {
            return Ok(true);
        }
        Ok(!self.is_freed(ino) && self.record(&taken_key(ino))?.is_some())
    }

    /// Marks an inode, and everything above it, as different from the last snapshot.
    pub(crate) fn mark_dirty(&mut self, ino: Ino) -> Result<(), FsError> {
        let mut current = ino;
        loop {
            let inode = self.inode_mut(current)?;
            if !std::mem::replace(&mut inode.dirty, true) {
                self.dirty.insert(current);
            }
            let inode = self.inode_mut(current)?;
            // It has no single place: its record in the link table is what differs, and directories are
            // unaffected.
            if inode.linked {
                self.links.dirty.insert(LinkId(current.0));
                return Ok(());
            }
            let Some(place) = inode.place.clone() else {
                return Ok(());
            };
            let above_known = self.inode(place.parent)?.dirty;
            self.directory_mut(place.parent)?.changed.insert(place.name);
            // Everything above was marked when the directory was, so a series of writes below it costs one
            // step each.
            if above_known {
                return Ok(());
            }
            current = place.parent;
        }
    }

    /// Adds to the totals of a directory and of all above it.
    pub(crate) fn adjust(
        &mut self,
        directory: Ino,
        change: impl Fn(Totals) -> Totals,
    ) -> Result<(), FsError> {
        let mut current = Some(directory);
        while let Some(ino) = current {
            let below = &mut self.directory_mut(ino)?.below;
            *below = change(*below);
            current = self.inode(ino)?.place.as_ref().map(|place| place.parent);
        }
        Ok(())
    }

    /// Makes `ino` the child at `place`, whose slot must then be written again.
    pub(crate) fn attach(&mut self, place: &EntryPlace, ino: Ino) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        // A file with several names does not record where it is.
        if !inode.linked {
            inode.place = Some(place.clone());
        }
        let totals = inode.totals_in_parent();
        let is_directory = inode.is_directory();
        let directory = self.directory_mut(place.parent)?;
        directory.children.insert(place.name.clone(), ino);
        directory.changed.insert(place.name.clone());
        directory.directories = directory.directories.map(|count| count + u32::from(is_directory));
        self.adjust(place.parent, |below| below.plus(totals))?;
        self.mark_dirty(place.parent)
    }

    /// Removes the child at `place` from its directory; its name count is unchanged.
    pub(crate) fn detach(&mut self, place: &EntryPlace) -> Result<Option<Ino>, FsError> {
        let Some(ino) = self.lookup(place)? else {
            return Ok(None);
        };
        let inode = self.inode(ino)?;
        let totals = inode.totals_in_parent();
        let is_directory = inode.is_directory();
        let directory = self.directory_mut(place.parent)?;
        directory.children.remove(&place.name);
        directory.changed.insert(place.name.clone());
        directory.directories = directory
            .directories
            .map(|count| count.saturating_sub(u32::from(is_directory)));
        self.adjust(place.parent, |below| below.minus(totals))?;
        self.mark_dirty(place.parent)?;
        self.inode_mut(ino)?.place = None;
        Ok(Some(ino))
    }

    /// Whether a directory has no entries now.
    pub(crate) fn is_empty_directory(&self, ino: Ino) -> Result<bool, FsError> {
        match self.listing(ino)? {
            Some(kept) => Ok(kept.entries.is_none()),
            None => Ok(self.directory(ino)?.below.inodes == 0),
        }
    }

    /// The names in a directory after `after`, in order, at most `limit`.
    pub(crate) fn names_after(
        &mut self,
        ino: Ino,
        after: Option<&EntryName>,
        limit: usize,
    ) -> Result<Vec<(EntryName, Option<Slot>)>, FsError> {
        let directory = self.directory(ino)?;
        let start = after.map(EntryName::as_bytes);
        let mut walk = map::walk_after(&self.objects, directory.base, start)?;
        let mut found: BTreeMap<EntryName, Option<Slot>> = BTreeMap::new();
        // Names that a snapshot has captured are not in the base before it is settled.
        for names in [&directory.changed, &directory.settling] {
            let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
            let behind = names.range::<EntryName, _>((bound, Bound::Unbounded));
            let present = behind.filter(|name| directory.children.contains_key(*name));
            found.extend(present.take(limit).map(|name| (name.clone(), None)));
        }
        // Stored names that are overlaid do not count: otherwise a directory whose first names were all
        // removed would look empty.
        let mut stored = 0;
        while stored < limit {
            let Some((key, slot)) = walk.advance()? else { break };
            let name = EntryName::new(&key)
                .map_err(|_| ObjectError::from(avfs_core::DecodeError::Invalid("a bad name is stored")))?;
            if !directory.is_overlaid(name.as_bytes()) {
                found.insert(name, Some(slot));
                stored += 1;
            }
        }
        Ok(found.into_iter().take(limit).collect())
    }

    /// Whether an inode is alive only through open handles.
    pub(crate) fn is_nameless(&self, ino: Ino) -> bool {
        ino != Ino::ROOT && self.inodes.get(&ino).is_some_and(|inode| inode.names == 0)
    }

    /// The stored contents that only open handles on files without a name still need.
    pub(crate) fn nameless_contents(&self) -> Vec<Content> {
        let inodes = self.nameless.iter().filter_map(|ino| self.inodes.get(ino));
        let contents = inodes.filter_map(|inode| match &inode.body {
            InodeBody::Stored { content, .. } => Some(*content),
            InodeBody::Edited(file) => Some(file.stored_below()),
            _ => None,
        });
        contents.filter(|content| *content != Content::Empty).collect()
    }

    /// Refuses to add entries to a removed directory.
    pub(crate) fn check_named(&self, directory: Ino) -> Result<(), FsError> {
        if self.is_nameless(directory) {
            Err(FsError::NotFound)
        } else {
            Ok(())
        }
    }

    /// Frees an inode that has neither a name nor a handle. A directory without a name is empty.
    pub(crate) fn drop_if_unused(&mut self, ino: Ino) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        if inode.names > 0 || ino == Ino::ROOT {
            return Ok(());
        }
        let is_held = inode.holds > 0;
        if let InodeBody::Directory(directory) = &mut inode.body {
            // Its entries were removed with it, by the removal of a whole tree.
            let below = std::mem::take(&mut **directory);
            self.forget_below(below);
        }
        if is_held {
            self.nameless.insert(ino);
        } else {
            self.nameless.remove(&ino);
            self.abandoned.remove(&ino);
            self.inodes.remove(&ino);
            self.freed.insert(ino);
        }
        Ok(())
    }

    /// Forgets the inodes below a removed directory; open ones stay without a name.
    fn forget_below(&mut self, directory: DirectoryBody) {
        let mut removed = vec![directory];
        while let Some(directory) = removed.pop() {
            for child in directory.children.into_values() {
                let Some(inode) = self.inodes.get_mut(&child).filter(|inode| !inode.linked) else {
                    continue;
                };
                inode.place = None;
                inode.names = 0;
                if let InodeBody::Directory(below) = &mut inode.body {
                    removed.push(std::mem::take(&mut **below));
                }
                if inode.holds > 0 {
                    self.nameless.insert(child);
                } else {
                    self.inodes.remove(&child);
                    self.freed.insert(child);
                }
            }
        }
    }

    /// The inode at a path, if all inodes on the way are in memory.
    pub(crate) fn loaded(&self, path: &TreePath) -> Option<Ino> {
        let mut ino = Ino::ROOT;
        for name in path.components() {
            ino = *self.directory(ino).ok()?.children.get(&name)?;
        }
        Some(ino)
    }

    /// Undoes a capture whose tree will not become the head.
    pub(crate) fn abandon(&mut self) -> Result<(), FsError> {
        match self.settling.take() {
            Some(settling) => settling.give_back(self),
            None => Ok(()),
        }
    }

    /// Lends out the view of a door. If a panic keeps it, it does not return: the door then sees nothing.
    pub(crate) fn with_view<T>(
        &mut self,
        door: Door,
        act: impl FnOnce(&mut RuleView, &mut TreeState) -> T,
    ) -> Option<T> {
        // Taken out, so that the view can be used beside the state that it belongs to.
        let mut view = self.views.slot(door)?.take()?;
        let result = act(&mut view, self);
        if let Some(slot) = self.views.slot(door) {
            *slot = Some(view);
        }
        Some(result)
    }

    /// Whether the name may refer to this file, as far as is known in memory.
    pub(crate) fn may_be_at(&self, ino: Ino, place: &EntryPlace) -> bool {
        let Ok(directory) = self.directory(place.parent) else {
            return false;
        };
        match directory.children.get(&place.name) {
            Some(child) => *child == ino,
            // Not loaded: the base may have it there, which only a lookup could tell.
            None => !directory.is_overlaid(place.name.as_bytes()),
        }
    }

    /// The inode at a place, if it is in memory: no door knows one that is not.
    pub(crate) fn loaded_at(&self, place: &EntryPlace) -> Option<Ino> {
        self.directory(place.parent)
            .ok()?
            .children
            .get(&place.name)
            .copied()
    }

    /// The names from the root to a directory.
    pub(crate) fn trail(&self, directory: Ino) -> Option<Trail> {
        let mut trail = Trail::new();
        let mut current = directory;
        while current != Ino::ROOT {
            let inode = self.inodes.get(&current)?;
            let place = inode.place.as_ref()?;
            trail.push((place.name.clone(), inode.meta.labels.clone()));
            current = place.parent;
        }
        trail.reverse();
        Some(trail)
    }

    /// Every name in memory whose inode a door knows, including stubs.
    pub(crate) fn known_places(&self) -> Vec<(Ino, EntryPlace)> {
        let mut known: Vec<(Ino, EntryPlace)> = self.stubs.places().collect();
        for (parent, inode) in &self.inodes {
            let InodeBody::Directory(directory) = &inode.body else {
                continue;
            };
            let children = directory.children.iter();
            known.extend(children.map(|(name, child)| (*child, EntryPlace::new(*parent, name.clone()))));
        }
        known
    }

    /// The result of the promise of an unchanged directory, if it was promised.
    pub(crate) fn listing(&self, directory: Ino) -> Result<Option<KeptDirectory>, FsError> {
        let directory = self.directory(directory)?;
        match directory.base {
            Some(base) if directory.below == Promise::BELOW => Ok(self.objects.keep_listing(base)?),
            _ => Ok(None),
        }
    }
}
