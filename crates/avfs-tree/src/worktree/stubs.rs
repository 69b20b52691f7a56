//! Files that doors know by number and that nobody uses just now: all that stays of them in memory is where
//! they are. The kernel may know a million files; only those used lately are loaded.

mod table;

use std::collections::VecDeque;

use avfs_core::Slot;
use avfs_core::map;

use self::table::{Stub, StubTable};
use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::Place;
use crate::worktree::WorkTree;
use crate::worktree::inode::Body;
use crate::worktree::state::State;

/// How many unchanged files stay loaded.
const LOADED_FILES: usize = 16 << 10;

impl WorkTree {
    /// Sets how many files that doors know stay loaded without being changed.
    pub fn set_loaded_files(&self, count: usize) {
        self.state().stubs.keep = count;
    }
}

#[derive(Debug)]
pub(crate) struct Stubs {
    keep: usize,
    by_number: StubTable,
    /// The files that are loaded and held, oldest first; some have left memory since.
    loaded: VecDeque<Ino>,
}

impl Default for Stubs {
    fn default() -> Stubs {
        Stubs { keep: LOADED_FILES, by_number: StubTable::default(), loaded: VecDeque::new() }
    }
}

impl Stubs {
    /// Whether a number belongs to a file that is elsewhere.
    pub fn is_elsewhere(&self, ino: Ino, place: &Place) -> bool {
        self.by_number.get(ino).is_some_and(|stub| !stub.is_at(place))
    }

    pub fn contains(&self, ino: Ino) -> bool {
        self.by_number.get(ino).is_some()
    }

    /// The holds on a file that is being loaded.
    pub fn take_holds(&mut self, ino: Ino) -> u32 {
        self.by_number.remove(ino).map_or(0, |stub| stub.holds())
    }
}

impl State {
    /// Loads a file that is known by number only.
    pub fn revive(&mut self, ino: Ino) -> Result<(), FsError> {
        if self.inodes.contains_key(&ino) {
            return Ok(());
        }
        let Some(stub) = self.stubs.by_number.get(ino) else { return Ok(()) };
        let place = stub.place();
        let base = self.directory(place.parent)?.base;
        let slot: Option<Slot> = map::get(&self.objects, base, place.name.as_bytes())?;
        match slot {
            Some(slot) => self.load_as(&place, slot, Some(ino))?,
            None => return Ok(()),
        };
        self.stubs.loaded.push_back(ino);
        Ok(())
    }

    pub fn hold(&mut self, ino: Ino) -> Result<(), FsError> {
        if let Some(stub) = self.stubs.by_number.get_mut(ino) {
            stub.set_holds(stub.holds() + 1);
            return Ok(());
        }
        let inode = self.inode_mut(ino)?;
        inode.holds += 1;
        inode.forgotten = false;
        if inode.holds == 1 {
            self.note_idle(ino);
        }
        Ok(())
    }

    /// Gives holds back. What nobody needs in memory any more leaves it.
    pub fn release(&mut self, ino: Ino, count: u32) -> Result<(), FsError> {
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

    /// Notes that a file is held and unchanged, and makes those that have been so for longest stubs. Only at
    /// the end of an operation: it may be about any of them.
    pub fn note_idle(&mut self, ino: Ino) {
        self.stubs.loaded.push_back(ino);
        while self.stubs.loaded.len() > self.stubs.keep {
            if let Some(oldest) = self.stubs.loaded.pop_front() {
                self.make_stub(oldest);
            }
        }
    }

    fn make_stub(&mut self, ino: Ino) {
        let Some(inode) = self.inodes.get(&ino) else { return };
        let (holds, is_file) = (inode.holds, matches!(inode.body, Body::Stored { .. }));
        // Without holds, somebody may be using it by a number that he looked up.
        if holds == 0 || !is_file || inode.atime.is_some() || !self.is_reloadable(ino) {
            return;
        }
        let place = inode.place.clone();
        self.unload(ino);
        if let Some(place) = place {
            self.stubs.by_number.insert(ino, Stub::new(&place, holds));
        }
    }
}
