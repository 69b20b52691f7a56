//! Files that doors know by number and that are not in use: memory keeps only their places. The kernel may
//! know a million files; only recently used ones are loaded.

mod table;

use std::collections::VecDeque;

use avfs_core::Slot;
use avfs_core::map;

use self::table::{Stub, StubTable};
use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::{EntryPlace, JournalOp};
use crate::worktree::inode::InodeBody;
use crate::worktree::state::TreeState;

/// How many unchanged files stay loaded.
const LOADED_FILES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Stubs {
    keep: usize,
    by_number: StubTable,
    /// The loaded and held files, oldest first; some may have been unloaded since.
    loaded: VecDeque<Ino>,
}

impl Default for Stubs {
    fn default() -> Stubs {
        Stubs {
            keep: LOADED_FILES,
            by_number: StubTable::default(),
            loaded: VecDeque::new(),
        }
    }
}

impl Stubs {
    /// Sets how many unchanged files stay loaded.
    pub(crate) fn set_loaded_files(&mut self, count: usize) {
        self.keep = count;
    }

    /// Whether a number belongs to a file at another place.
    pub(crate) fn is_elsewhere(&self, ino: Ino, place: &EntryPlace) -> bool {
        self.by_number.get(ino).is_some_and(|stub| !stub.is_at(place))
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = (Ino, EntryPlace)> + '_ {
        self.by_number.iter().map(|(ino, stub)| (ino, stub.place()))
    }

    pub(crate) fn place_of(&self, ino: Ino) -> Option<EntryPlace> {
        self.by_number.get(ino).map(|stub| stub.place())
    }

    pub(crate) fn contains(&self, ino: Ino) -> bool {
        self.by_number.get(ino).is_some()
    }

    /// The holds on a file that is being loaded.
    pub(crate) fn take_holds(&mut self, ino: Ino) -> u32 {
        let Some(stub) = self.by_number.remove(ino) else {
            return 0;
        };
        self.loaded.push_back(ino);
        stub.holds()
    }
}

impl TreeState {
    /// Loads a file that is known by number only.
    pub(crate) fn revive(&mut self, ino: Ino) -> Result<(), FsError> {
        if self.inodes.contains_key(&ino) {
            return Ok(());
        }
        let Some(stub) = self.stubs.by_number.get(ino) else {
            return Ok(());
        };
        let place = stub.place();
        let base = self.directory(place.parent)?.base;
        let slot: Option<Slot> = map::get(&self.objects, base, place.name.as_bytes())?;
        match slot {
            Some(slot) => self.load_as(&place, slot, Some(ino))?,
            None => return Ok(()),
        };
        Ok(())
    }

    /// Loads the files that an operation removes with a directory above them: they stay, without a name, for
    /// the doors that know them by number.
    pub(crate) fn revive_lost(&mut self, op: &JournalOp) -> Result<(), FsError> {
        let (JournalOp::Remove { at, .. } | JournalOp::Gone { at }) = op else {
            return Ok(());
        };
        if self.stubs.by_number.is_empty() {
            return Ok(());
        }
        let Some(top) = self.lookup(at)? else {
            return Ok(());
        };
        if !self.inode(top)?.is_directory() || self.is_empty_directory(top)? {
            return Ok(());
        }
        let stubs = self.stubs.by_number.iter();
        let lost: Vec<Ino> = stubs
            .filter(|(_, stub)| self.is_below(stub.parent(), top))
            .map(|(ino, _)| ino)
            .collect();
        lost.into_iter().try_for_each(|ino| self.revive(ino))
    }

    /// Whether a directory is `top` or lies below it.
    pub(crate) fn is_below(&self, directory: Ino, top: Ino) -> bool {
        let mut current = Some(directory);
        while let Some(ino) = current.filter(|ino| *ino != top) {
            current = self
                .inodes
                .get(&ino)
                .and_then(|inode| inode.place.as_ref())
                .map(|place| place.parent);
        }
        current.is_some()
    }

    pub(crate) fn hold(&mut self, ino: Ino) -> Result<(), FsError> {
        if let Some(stub) = self.stubs.by_number.get_mut(ino) {
            stub.set_holds(stub.holds() + 1);
            return Ok(());
        }
        let inode = self.inode_mut(ino)?;
        inode.holds += 1;
        inode.forgotten = false;
        match inode.holds {
            1 => self.note_idle(ino),
            _ => self.unload_oldest(),
        }
        Ok(())
    }

    /// Releases holds. Inodes that are no longer needed are unloaded.
    pub(crate) fn release(&mut self, ino: Ino, count: u32) -> Result<(), FsError> {
        if let Some(stub) = self.stubs.by_number.get_mut(ino) {
            let holds = stub.holds().saturating_sub(count);
            stub.set_holds(holds);
            if holds == 0 {
                self.stubs.by_number.remove(ino);
            }
            return Ok(());
        }
        let inode = self.inode_mut(ino)?;
        inode.holds = inode.holds.saturating_sub(count);
        inode.forgotten = inode.holds == 0;
        self.drop_if_unused(ino)?;
        self.evict(ino);
        Ok(())
    }

    /// Records that a file is held and unchanged. Only at the end of an operation, as
    /// [`TreeState::unload_oldest`].
    pub(crate) fn note_idle(&mut self, ino: Ino) {
        self.stubs.loaded.push_back(ino);
        self.unload_oldest();
    }

    /// Turns the files that have been held and unchanged for longest into stubs. Only at the beginning or the
    /// end of an operation, which may use any of them.
    pub(crate) fn unload_oldest(&mut self) {
        while self.stubs.loaded.len() > self.stubs.keep {
            if let Some(oldest) = self.stubs.loaded.pop_front() {
                self.make_stub(oldest);
            }
        }
    }

    fn make_stub(&mut self, ino: Ino) {
        let Some(inode) = self.inodes.get(&ino) else {
            return;
        };
        let holds = inode.holds;
        let is_file = matches!(inode.body, InodeBody::Stored { .. });
        // Without holds, a caller may be using it by a number that it looked up.
        if holds == 0 || !is_file || inode.atime.is_some() || !self.is_reloadable(ino) {
            return;
        }
        // Rules may match its labels.
        if !inode.meta.labels.is_empty() {
            return;
        }
        let place = inode.place.clone();
        self.unload(ino);
        if let Some(place) = place {
            self.stubs.by_number.insert(ino, Stub::new(&place, holds));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use avfs_core::{Entry, EntryName, Meta, Root, Totals};
    use avfs_store::MemoryStore;

    use crate::objects::Objects;
    use crate::worktree::{BaseTree, NewEntry, SystemClock, WorkTree};

    use super::*;

    #[test]
    fn files_that_were_stubs_become_stubs_again() {
        let objects = Objects::new(Arc::new(MemoryStore::new()));
        let root = Entry::empty_directory(Meta::default());
        let root = Root {
            directory: root,
            links: None,
            totals: Totals::default(),
        };
        let tree =
            WorkTree::in_memory(objects, BaseTree { root, inodes: None }, Arc::new(SystemClock)).unwrap();
        tree.set_loaded_files(5);
        let kernel = tree.holding_door();
        let names: Vec<EntryName> = (0..100)
            .map(|number| EntryName::new(format!("f{number}").as_bytes()).unwrap())
            .collect();
        let numbers: Vec<Ino> = names
            .iter()
            .map(|name| kernel.create(Ino::ROOT, name, NewEntry::file(0o644)).unwrap().ino)
            .collect();
        tree.freeze().unwrap().settle();
        let loaded = || tree.state().inodes.len();
        assert!(loaded() < 10, "{} at first", loaded());
        numbers
            .iter()
            .for_each(|ino| assert_eq!(kernel.attr(*ino).unwrap().ino, *ino));
        assert!(loaded() < 10, "{} known by number", loaded());
        names
            .iter()
            .for_each(|name| drop(kernel.lookup(Ino::ROOT, name).unwrap()));
        assert!(loaded() < 10, "{} known by name", loaded());
    }
}
