//! The tree in memory: inodes loaded on demand from the head snapshot, with what changed since.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use avfs_core::map::{self, Nodes};
use avfs_core::{Content, EntryName, LinkId, LinkedFile, NodeId, Root, Slot, Timestamp, Totals};

use crate::error::FsError;
use crate::inodes::{Ino, InoMap, InoSet, InodeRecord, link_key, place_key, place_mark, taken_key};
use crate::journal::{Journal, LogFile};
use crate::objects::{ObjectError, Objects};
use crate::op::Place;
use crate::worktree::inode::{Body, DirectoryBody, Inode};
use crate::worktree::stubs::Stubs;
use crate::worktree::view::Views;
use crate::worktree::watch::Watchers;
use crate::worktree::{At, Moment};

/// A snapshot's tree with the inode table that the vault keeps beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    pub root: Root,
    pub inodes: Option<NodeId>,
}

pub(crate) struct State {
    pub objects: Objects,
    pub journal: Option<Journal>,
    /// How often the journals named objects.
    pub objects_named: u64,
    /// Journals that are complete and not part of the head, oldest first.
    pub sealed: Vec<Arc<LogFile>>,
    /// The inodes that the journal knows: those it saw made and those it was told the place of.
    pub journaled: InoSet,
    /// Where bytes of files without a name go.
    pub spill: Option<Arc<LogFile>>,
    pub watchers: Watchers,
    /// Names that doors which never wait do not look up yet.
    pub preparing: HashSet<Place>,
    /// What the doors with rules know of the tree.
    pub views: Views,
    /// Counts what may change where inodes stand among rules, beside the making of names.
    pub layout: u64,
    /// How often the rules were asked.
    pub asked: u64,
    pub moment: Moment,
    pub base: Base,
    pub inodes: InoMap<Inode>,
    /// What is known of files that are not loaded.
    pub stubs: Stubs,
    /// The inodes that are marked as dirty.
    pub dirty: InoSet,
    /// The inodes that live through open handles alone.
    pub nameless: InoSet,
    /// Those of them that lost their names by a step in time: every handle on them is stale, so that their numbers can be
    /// had by what the base has under them.
    pub abandoned: InoSet,
    /// The inodes that were loaded under another number than the base gives them: an inode without a name has that one.
    pub renumbered: InoSet,
    /// While the tree is moved to another base: the renumbered inodes, by the numbers that they have in the base.
    pub stand_ins: InoMap<Ino>,
    /// Bytes in files with several names.
    pub linked_bytes: u64,
    pub links: ChangedLinks,
    /// Numbers of inodes that are gone since the last snapshot.
    pub freed: BTreeSet<Ino>,
    /// What a snapshot has taken and not stored yet.
    pub settling: Option<Settling>,
}

/// What differs from the link table of the last snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedLinks {
    /// Linked files whose record changed; `None` in the map of inodes: the file is gone.
    pub dirty: BTreeSet<LinkId>,
    /// Linked files that came with a stored tree and are not in memory: their records as they came.
    pub new: BTreeMap<LinkId, LinkedFile>,
}

/// The part of the changes that a snapshot has taken: it lies between the base and what changed since.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    pub links: ChangedLinks,
    pub freed: BTreeSet<Ino>,
    pub dirty: Vec<Ino>,
}

impl State {
    pub fn new(objects: Objects, base: Base) -> Result<State, ObjectError> {
        let root = base.root.directory.clone();
        let root = Inode::from_entry(root.clone(), root.meta.mtime);
        let linked_bytes = match base.root.links {
            Some(id) => Nodes::<LinkedFile>::load(&objects, id)?.totals().bytes,
            None => 0,
        };
        Ok(State {
            objects,
            journal: None,
            objects_named: 0,
            sealed: Vec::new(),
            journaled: InoSet::default(),
            spill: None,
            watchers: Watchers::new(),
            preparing: HashSet::new(),
            views: Views::default(),
            layout: 0,
            asked: 0,
            moment: Moment::default(),
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

    pub fn is_dirty(&self) -> bool {
        let root_dirty = self.inodes.get(&Ino::ROOT).is_some_and(|root| root.dirty);
        root_dirty || !self.links.dirty.is_empty()
    }

    pub fn totals(&self) -> Totals {
        let root = self.inodes.get(&Ino::ROOT).map_or(Totals::default(), Inode::totals_in_parent);
        let below = root.minus(Totals { inodes: 1, ..Totals::default() });
        below.plus(Totals { bytes: self.linked_bytes, ..Totals::default() })
    }

    pub fn inode(&self, ino: Ino) -> Result<&Inode, FsError> {
        self.inodes.get(&ino).ok_or(FsError::Stale(ino))
    }

    /// The inode that a handle was opened on.
    pub fn inode_at(&self, at: At) -> Result<&Inode, FsError> {
        let inode = self.inode(at.ino)?;
        match at.known.is_none_or(|known| known >= inode.replaced) {
            true => Ok(inode),
            false => Err(FsError::Stale(at.ino)),
        }
    }

    pub fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, FsError> {
        self.inodes.get_mut(&ino).ok_or(FsError::Stale(ino))
    }

    pub fn directory(&self, ino: Ino) -> Result<&DirectoryBody, FsError> {
        match &self.inode(ino)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotADirectory),
        }
    }

    pub fn directory_mut(&mut self, ino: Ino) -> Result<&mut DirectoryBody, FsError> {
        match &mut self.inode_mut(ino)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotADirectory),
        }
    }

    /// The inode at a place, loaded if it must be.
    pub fn lookup(&mut self, place: &Place) -> Result<Option<Ino>, FsError> {
        let directory = self.directory(place.parent)?;
        if let Some(child) = directory.children.get(&place.name) {
            return Ok(Some(*child));
        }
        if directory.is_overlaid(place.name.as_bytes()) {
            return Ok(None);
        }
        let slot: Option<Slot> = map::get(&self.objects, directory.base, place.name.as_bytes())?;
        slot.map(|slot| self.load(place, slot)).transpose()
    }

    /// Brings the inode behind a stored slot into memory.
    pub fn load(&mut self, place: &Place, slot: Slot) -> Result<Ino, FsError> {
        self.load_as(place, slot, None)
    }

    /// Replays that an inode was found at a place, with the number that it had then.
    pub fn find_again(&mut self, place: &Place, ino: Ino) -> Result<(), FsError> {
        let directory = self.directory(place.parent)?;
        if directory.children.contains_key(&place.name) || directory.is_overlaid(place.name.as_bytes()) {
            return Ok(());
        }
        let slot: Option<Slot> = map::get(&self.objects, directory.base, place.name.as_bytes())?;
        slot.map(|slot| self.load_as(place, slot, Some(ino))).transpose().map(|_| ())
    }

    pub fn load_as(&mut self, place: &Place, slot: Slot, number: Option<Ino>) -> Result<Ino, FsError> {
        let ino = match slot {
            Slot::Link(link) => self.load_link(link)?,
            Slot::Own(entry) => {
                let record = self.place_record(place)?;
                let ino = match number {
                    Some(ino) => ino,
                    None => self.number_of(place)?,
                };
                if !self.nameless.is_empty() && self.number_at(place)? != Some(ino) {
                    self.renumbered.insert(ino);
                }
                let ctime = record.and_then(|record| record.ctime).unwrap_or(entry.meta.mtime);
                let mut inode = Inode::from_entry(entry, ctime);
                inode.place = Some(place.clone());
                inode.holds = self.stubs.take_holds(ino);
                if let Some(abandoned) = self.take_abandoned(ino) {
                    (inode.holds, inode.replaced) = (abandoned.holds, abandoned.replaced);
                }
                self.inodes.insert(ino, inode);
                ino
            }
        };
        self.directory_mut(place.parent)?.children.insert(place.name.clone(), ino);
        Ok(ino)
    }

    /// The number of an entry that is not loaded.
    pub fn number_of(&self, place: &Place) -> Result<Ino, FsError> {
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
        // Where it stands among rules has to be found out again.
        self.layout += 1;
        self.inodes.remove(&ino)
    }

    pub fn load_link(&mut self, link: LinkId) -> Result<Ino, FsError> {
        let ino = Ino::of_link(link);
        if self.inodes.contains_key(&ino) {
            return Ok(ino);
        }
        let file = self.link_record(link)?;
        let file = file
            .ok_or(ObjectError::Structure(avfs_core::DecodeError::Invalid("a linked file has no record")))?;
        let ctime = self.record(&link_key(link))?.and_then(|record| record.ctime);
        let ctime = ctime.unwrap_or(file.entry.meta.mtime);
        let inode = Inode { linked: true, names: file.names, ..Inode::from_entry(file.entry, ctime) };
        self.inodes.insert(ino, inode);
        Ok(ino)
    }

    /// The stored record of a linked file that is not in memory.
    pub fn link_record(&self, link: LinkId) -> Result<Option<LinkedFile>, FsError> {
        for layer in [Some(&self.links), self.settling.as_ref().map(|settling| &settling.links)] {
            let Some(layer) = layer else { continue };
            if let Some(file) = layer.new.get(&link) {
                return Ok(Some(file.clone()));
            }
            if layer.dirty.contains(&link) {
                return Ok(None);
            }
        }
        Ok(map::get(&self.objects, self.base.root.links, &link.key())?)
    }

    /// What the table says about a place, unless its number has been given away in memory.
    fn place_record(&self, place: &Place) -> Result<Option<InodeRecord>, FsError> {
        let record = self.marked_record(place)?;
        let is_free = |ino: Ino| {
            !self.inodes.contains_key(&ino) && !self.is_freed(ino) && !self.stubs.is_elsewhere(ino, place)
        };
        Ok(record.filter(|record| record.ino.is_none_or(is_free)))
    }

    /// What the table says about a place. A record can outlive the directory that it was about; its number
    /// is believed only if the number, too, says that it is here.
    fn marked_record(&self, place: &Place) -> Result<Option<InodeRecord>, FsError> {
        let key = place_key(place.parent, &place.name);
        let Some(record) = self.record(&key)? else { return self.listed_record(place) };
        let Some(ino) = record.ino else { return Ok(Some(record)) };
        let taken = self.record(&taken_key(ino))?;
        Ok(taken.is_some_and(|taken| taken.ino == Some(place_mark(&key))).then_some(record))
    }

    /// What the source of a directory said about a place in it.
    fn listed_record(&self, place: &Place) -> Result<Option<InodeRecord>, FsError> {
        let numbers = match self.directory(place.parent)?.numbers {
            Some(numbers) => Some(numbers),
            None => self.listing(place.parent)?.and_then(|kept| kept.numbers),
        };
        let record: Option<InodeRecord> = map::get(&self.objects, numbers, place.name.as_bytes())?;
        let Some(InodeRecord { ino: Some(ino), ctime }) = record else { return Ok(record) };
        // The source may have given the number of a file that is gone to another one since.
        let is_taken = self.record(&taken_key(ino))?.is_some();
        Ok(Some(InodeRecord { ino: (!is_taken).then_some(ino), ctime }))
    }

    /// The number that the base gives to a place, as long as nobody else has it; `None` if nothing is there.
    pub fn number_at(&self, place: &Place) -> Result<Option<Ino>, FsError> {
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
    pub fn place_ctime(&self, place: &Place) -> Result<Option<Timestamp>, FsError> {
        Ok(self.marked_record(place)?.and_then(|record| record.ctime))
    }

    pub fn record(&self, key: &[u8]) -> Result<Option<InodeRecord>, FsError> {
        Ok(map::get(&self.objects, self.base.inodes, key)?)
    }

    /// The first number that the rule gives for this place and that nobody has.
    pub fn free_number(&self, place: &Place) -> Result<Ino, FsError> {
        for attempt in 0.. {
            let ino = Ino::derived(place.parent, &place.name, attempt);
            if !self.is_taken(ino)? && !self.stubs.is_elsewhere(ino, place) {
                return Ok(ino);
            }
        }
        unreachable!("there are more numbers than inodes")
    }

    fn is_freed(&self, ino: Ino) -> bool {
        self.freed.contains(&ino) || self.settling.as_ref().is_some_and(|taken| taken.freed.contains(&ino))
    }

    pub fn is_taken(&self, ino: Ino) -> Result<bool, FsError> {
        if self.inodes.contains_key(&ino) {
            return Ok(true);
        }
        if self.link_record(LinkId(ino.0))?.is_some() {
            return Ok(true);
        }
        Ok(!self.is_freed(ino) && self.record(&taken_key(ino))?.is_some())
    }

    /// Marks an inode, and everything above it, as different from the last snapshot.
    pub fn mark_dirty(&mut self, ino: Ino) -> Result<(), FsError> {
        let mut current = ino;
        loop {
            let inode = self.inode_mut(current)?;
            if !std::mem::replace(&mut inode.dirty, true) {
                self.dirty.insert(current);
            }
            let inode = self.inode_mut(current)?;
            if inode.linked {
                self.links.dirty.insert(LinkId(current.0));
                return Ok(());
            }
            let Some(place) = inode.place.clone() else { return Ok(()) };
            let above_known = self.inode(place.parent)?.dirty;
            self.directory_mut(place.parent)?.changed.insert(place.name);
            if above_known {
                return Ok(());
            }
            current = place.parent;
        }
    }

    /// Adds to the totals of a directory and of all above it.
    pub fn adjust(&mut self, directory: Ino, change: impl Fn(Totals) -> Totals) -> Result<(), FsError> {
        let mut current = Some(directory);
        while let Some(ino) = current {
            let below = &mut self.directory_mut(ino)?.below;
            *below = change(*below);
            current = self.inode(ino)?.place.as_ref().map(|place| place.parent);
        }
        Ok(())
    }

    /// Makes `ino` the child at `place`, whose slot is then to be written anew.
    pub fn attach(&mut self, place: &Place, ino: Ino) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        if !inode.linked {
            inode.place = Some(place.clone());
        }
        let (totals, is_directory) = (inode.totals_in_parent(), inode.is_directory());
        let directory = self.directory_mut(place.parent)?;
        directory.children.insert(place.name.clone(), ino);
        directory.changed.insert(place.name.clone());
        directory.directories = directory.directories.map(|count| count + u32::from(is_directory));
        self.adjust(place.parent, |below| below.plus(totals))?;
        self.mark_dirty(place.parent)
    }

    /// Takes the child at `place` out of its directory; it keeps its names as they are counted.
    pub fn detach(&mut self, place: &Place) -> Result<Option<Ino>, FsError> {
        let Some(ino) = self.lookup(place)? else { return Ok(None) };
        let inode = self.inode(ino)?;
        let (totals, is_directory) = (inode.totals_in_parent(), inode.is_directory());
        let directory = self.directory_mut(place.parent)?;
        directory.children.remove(&place.name);
        directory.changed.insert(place.name.clone());
        directory.directories =
            directory.directories.map(|count| count.saturating_sub(u32::from(is_directory)));
        self.adjust(place.parent, |below| below.minus(totals))?;
        self.mark_dirty(place.parent)?;
        self.inode_mut(ino)?.place = None;
        Ok(Some(ino))
    }

    /// Whether a directory has no entries now.
    pub fn is_empty_directory(&self, ino: Ino) -> Result<bool, FsError> {
        match self.listing(ino)? {
            Some(kept) => Ok(kept.entries.is_none()),
            None => Ok(self.directory(ino)?.below.inodes == 0),
        }
    }

    /// The names in a directory that come behind `after`, in order, at most `limit`.
    pub fn names_after(
        &mut self,
        ino: Ino,
        after: Option<&EntryName>,
        limit: usize,
    ) -> Result<Vec<(EntryName, Option<Slot>)>, FsError> {
        let directory = self.directory(ino)?;
        let start = after.map(EntryName::as_bytes);
        let mut walk = map::walk_after(&self.objects, directory.base, start)?;
        let mut found: BTreeMap<EntryName, Option<Slot>> = BTreeMap::new();
        for names in [&directory.changed, &directory.settling] {
            let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
            let behind = names.range::<EntryName, _>((bound, Bound::Unbounded));
            let present = behind.filter(|name| directory.children.contains_key(*name));
            found.extend(present.take(limit).map(|name| (name.clone(), None)));
        }
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

    /// Whether an inode lives through open handles alone.
    pub fn is_nameless(&self, ino: Ino) -> bool {
        ino != Ino::ROOT && self.inodes.get(&ino).is_some_and(|inode| inode.names == 0)
    }

    /// The stored contents that only open handles on files without a name still need.
    pub fn nameless_contents(&self) -> Vec<Content> {
        let inodes = self.nameless.iter().filter_map(|ino| self.inodes.get(ino));
        let contents = inodes.filter_map(|inode| match &inode.body {
            Body::Stored { content, .. } => Some(*content),
            Body::Edited(file) => Some(file.stored_below()),
            _ => None,
        });
        contents.filter(|content| *content != Content::Empty).collect()
    }

    /// Refuses to put anything into a directory that was removed.
    pub fn check_named(&self, directory: Ino) -> Result<(), FsError> {
        if self.is_nameless(directory) { Err(FsError::NotFound) } else { Ok(()) }
    }

    /// Frees an inode that has neither a name nor a handle. A directory without a name has nothing in it.
    pub fn drop_if_unused(&mut self, ino: Ino) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        if inode.names > 0 || ino == Ino::ROOT {
            return Ok(());
        }
        let is_held = inode.holds > 0;
        if let Body::Directory(directory) = &mut inode.body {
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

    /// Forgets the inodes below a removed directory; what is open stays without a name.
    fn forget_below(&mut self, directory: DirectoryBody) {
        let mut removed = vec![directory];
        while let Some(directory) = removed.pop() {
            for child in directory.children.into_values() {
                let Some(inode) = self.inodes.get_mut(&child).filter(|inode| !inode.linked) else {
                    continue;
                };
                inode.place = None;
                inode.names = 0;
                if let Body::Directory(below) = &mut inode.body {
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
}
