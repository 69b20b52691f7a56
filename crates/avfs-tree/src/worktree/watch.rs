//! Notifies doors of changes made through other doors: a mount makes the kernel drop its caches.

use std::sync::Arc;

use avfs_core::EntryName;

use crate::inodes::Ino;
use crate::op::{EntryPlace, JournalOp};
use crate::worktree::state::TreeState;

/// A way into a working tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Door(pub u64);

/// Something that changed, so that cached copies must not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// The inode behind a name, or its absence.
    Name {
        /// The directory.
        parent: Ino,
        /// The name in it.
        name: EntryName,
    },
    /// The attributes of an inode.
    Attributes(Ino),
    /// Bytes from `offset` on (`len` 0: all of them), and attributes.
    Contents {
        /// The file.
        ino: Ino,
        /// Where they begin.
        offset: u64,
        /// How many they are.
        len: u64,
    },
    /// The file holds contents of another point in time: handles on it are stale.
    Replaced(Ino),
}

/// Receives notifications of changes made through other doors.
pub trait Watcher: Send + Sync {
    /// Called with the tree locked: it must return quickly and not call the tree.
    fn invalidate(&self, invalidation: Invalidation);
}

/// The watchers of a tree, by their doors.
#[derive(Default)]
pub(crate) struct Watchers(Vec<(Door, Arc<dyn Watcher>)>);

impl Watchers {
    pub(crate) fn add(&mut self, door: Door, watcher: Arc<dyn Watcher>) {
        self.0.push((door, watcher));
    }

    /// Removes the watchers of a door. The caller drops them after releasing the lock: a watcher may hold
    /// another door.
    pub(crate) fn take(&mut self, door: Door) -> Vec<Arc<dyn Watcher>> {
        self.0
            .extract_if(.., |(other, _)| *other == door)
            .map(|(_, watcher)| watcher)
            .collect()
    }

    fn are_all_of(&self, door: Door) -> bool {
        self.0.iter().all(|(other, _)| *other == door)
    }

    /// Notifies all doors but `origin`.
    pub(crate) fn tell(&self, origin: Option<Door>, invalidation: Invalidation) {
        for (_, watcher) in self.0.iter().filter(|(door, _)| Some(*door) != origin) {
            watcher.invalidate(invalidation.clone());
        }
    }

    /// Notifies the watcher of one door.
    pub(crate) fn tell_door(&self, door: Door, invalidation: Invalidation) {
        for (_, watcher) in self.0.iter().filter(|(other, _)| *other == door) {
            watcher.invalidate(invalidation.clone());
        }
    }
}

/// Notifies all doors but `origin` of an operation that is about to happen.
pub(crate) fn tell_watchers(state: &mut TreeState, origin: Door, op: &JournalOp) {
    if state.watchers.are_all_of(origin) {
        return;
    }
    for invalidation in visible_effects(state, op) {
        state.watchers.tell(Some(origin), invalidation);
    }
}

fn visible_effects(state: &mut TreeState, op: &JournalOp) -> Vec<Invalidation> {
    match op {
        JournalOp::Found { .. } | JournalOp::FoundLink { .. } => Vec::new(),
        JournalOp::Place { at, .. } | JournalOp::PlaceLink { at, .. } | JournalOp::Arrive { at, .. } => {
            named(at).into()
        }
        JournalOp::Unfold { .. } => Vec::new(),
        JournalOp::Link { ino, at, .. } => [named(at).as_slice(), &[Invalidation::Attributes(*ino)]].concat(),
        JournalOp::Remove { at, .. } | JournalOp::Gone { at } => effects_at(state, &[at]),
        JournalOp::Rename { from, to, .. } => effects_at(state, &[from, to]),
        JournalOp::SetMode { ino, .. }
        | JournalOp::SetOwner { ino, .. }
        | JournalOp::SetMtime { ino, .. }
        | JournalOp::SetXattr { ino, .. }
        | JournalOp::RemoveXattr { ino, .. }
        | JournalOp::SetLabels { ino, .. } => vec![Invalidation::Attributes(*ino)],
        JournalOp::Resize { ino, .. } | JournalOp::SetContent { ino, .. } | JournalOp::Fulfil { ino, .. } => {
            vec![Invalidation::Contents {
                ino: *ino,
                offset: 0,
                len: 0,
            }]
        }
        JournalOp::Write { ino, offset, len, .. } | JournalOp::Punch { ino, offset, len, .. } => {
            vec![Invalidation::Contents {
                ino: *ino,
                offset: *offset,
                len: *len,
            }]
        }
    }
}

/// The names themselves, and the attributes of their inodes: one name fewer, another change time.
fn effects_at(state: &mut TreeState, places: &[&EntryPlace]) -> Vec<Invalidation> {
    let mut effects = Vec::new();
    for place in places {
        effects.extend(named(place));
        if let Ok(Some(ino)) = state.lookup(place) {
            effects.push(Invalidation::Attributes(ino));
        }
    }
    effects
}

fn named(at: &EntryPlace) -> [Invalidation; 2] {
    [
        Invalidation::Name {
            parent: at.parent,
            name: at.name.clone(),
        },
        Invalidation::Attributes(at.parent),
    ]
}
