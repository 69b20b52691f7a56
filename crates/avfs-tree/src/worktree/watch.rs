//! Telling doors what was changed through other ones: a mount makes the kernel forget what it cached.

use std::sync::Arc;

use avfs_core::EntryName;

use crate::inodes::Ino;
use crate::op::{Op, Place};
use crate::worktree::state::State;

/// A way into a working tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Door(pub u64);

/// What is not any more as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// What a name stands for, if for anything.
    Name {
        parent: Ino,
        name: EntryName,
    },
    Attributes(Ino),
    /// Bytes from `offset` on (`len` 0: all of them), and attributes.
    Contents {
        ino: Ino,
        offset: u64,
        len: u64,
    },
    /// The file holds contents of another time: handles on it are stale.
    Replaced(Ino),
}

/// Hears of changes made through other doors.
pub trait Watcher: Send + Sync {
    /// Called with the tree standing still: it must return at once and not ask the tree.
    fn seen(&self, seen: Seen);
}

impl State {
    /// Tells all doors but `origin` of an operation that is about to happen.
    pub fn tell_watchers(&mut self, origin: Door, op: &Op) {
        if self.watchers.iter().all(|(door, _)| *door == origin) {
            return;
        }
        for seen in self.visible_effects(op) {
            self.tell(Some(origin), seen);
        }
    }

    pub fn take_watchers(&mut self, door: Door) -> Vec<(Door, Arc<dyn Watcher>)> {
        let all = std::mem::take(&mut self.watchers);
        let (gone, left) = all.into_iter().partition(|(other, _)| *other == door);
        self.watchers = left;
        gone
    }

    pub fn tell(&self, origin: Option<Door>, seen: Seen) {
        for (_, watcher) in self.watchers.iter().filter(|(door, _)| Some(*door) != origin) {
            watcher.seen(seen.clone());
        }
    }

    /// Tells the watcher of one door.
    pub fn tell_door(&self, door: Door, seen: Seen) {
        for (_, watcher) in self.watchers.iter().filter(|(other, _)| *other == door) {
            watcher.seen(seen.clone());
        }
    }

    fn visible_effects(&mut self, op: &Op) -> Vec<Seen> {
        match op {
            Op::Found { .. } | Op::FoundLink { .. } => Vec::new(),
            Op::Place { at, .. } | Op::PlaceLink { at, .. } | Op::Arrive { at, .. } => named(at).into(),
            Op::Unfold { .. } => Vec::new(),
            Op::Link { ino, at, .. } => [named(at).as_slice(), &[Seen::Attributes(*ino)]].concat(),
            Op::Remove { at, .. } | Op::Gone { at } => self.effects_at(&[at]),
            Op::Rename { from, to, .. } => self.effects_at(&[from, to]),
            Op::SetMode { ino, .. }
            | Op::SetOwner { ino, .. }
            | Op::SetMtime { ino, .. }
            | Op::SetXattr { ino, .. }
            | Op::RemoveXattr { ino, .. }
            | Op::SetLabels { ino, .. } => vec![Seen::Attributes(*ino)],
            Op::Resize { ino, .. } | Op::SetContent { ino, .. } | Op::Settle { ino, .. } => {
                vec![Seen::Contents { ino: *ino, offset: 0, len: 0 }]
            }
            Op::Write { ino, offset, len, .. } | Op::Punch { ino, offset, len, .. } => {
                vec![Seen::Contents { ino: *ino, offset: *offset, len: *len }]
            }
        }
    }

    /// The names themselves, and the attributes of what they stood for: one name fewer, another time.
    fn effects_at(&mut self, places: &[&Place]) -> Vec<Seen> {
        let mut effects = Vec::new();
        for place in places {
            effects.extend(named(place));
            if let Ok(Some(ino)) = self.lookup(place) {
                effects.push(Seen::Attributes(ino));
            }
        }
        effects
    }
}

fn named(at: &Place) -> [Seen; 2] {
    [Seen::Name { parent: at.parent, name: at.name.clone() }, Seen::Attributes(at.parent)]
}

pub(crate) type Watchers = Vec<(Door, Arc<dyn Watcher>)>;
