//! What views hear when labels change, or when others move something: everything with the label, everything that was
//! moved, and everything below it, may have another level.

#[cfg(test)]
mod tests;

use avfs_core::diff::Change;

use crate::inodes::Ino;
use crate::op::{Op, Place};
use crate::worktree::Door;
use crate::worktree::state::State;
use crate::worktree::watch::Seen;

impl State {
    /// Has the doors with rules forget what they know of these inodes, and of everything below them.
    pub fn labels_changed(&mut self, tops: &[Ino]) {
        self.layout += 1;
        let doors: Vec<Door> = self.views.doors().collect();
        if doors.is_empty() || tops.is_empty() {
            return;
        }
        let affected: Vec<(Ino, Place)> =
            self.known_places().into_iter().filter(|known| self.is_in(known, tops)).collect();
        for door in doors {
            for seen in affected.iter().flat_map(forgotten) {
                self.tell_door(door, seen);
            }
            // The root has no name.
            for top in tops {
                self.tell_door(door, Seen::Contents { ino: *top, offset: 0, len: 0 });
            }
        }
    }

    /// What doors with rules must forget when something is moved through another door to where they have other levels.
    pub fn moved_to_other_levels(&mut self, origin: Door, op: &Op) -> Vec<(Door, Seen)> {
        let Op::Rename { from, to, exchange, .. } = op else { return Vec::new() };
        let doors: Vec<Door> = self.views.doors().filter(|door| *door != origin).collect();
        let mut seen = Vec::new();
        for door in doors {
            seen.extend(self.moved_for(door, from, to));
            if *exchange {
                seen.extend(self.moved_for(door, to, from));
            }
        }
        seen
    }

    fn moved_for(&mut self, door: Door, from: &Place, to: &Place) -> Vec<(Door, Seen)> {
        let moved =
            self.directory(from.parent).ok().and_then(|above| above.children.get(&from.name).copied());
        let Some(ino) = moved else { return Vec::new() };
        let Ok(inode) = self.inode(ino) else { return Vec::new() };
        let (labels, is_directory) = (inode.meta.labels.clone(), inode.is_directory());
        let is_same = self.with_view(door, |view, state| {
            let before = view.name(state, from, &labels, is_directory);
            let after = view.name(state, to, &labels, is_directory);
            matches!((before, after), (Some(before), Some(after)) if before.level() == after.level()
                && (!is_directory || view.rules().is_same_below(&before.standing, &after.standing)))
        });
        match (is_same, is_directory) {
            (Some(true), _) => Vec::new(),
            (_, false) => vec![(door, Seen::Contents { ino, offset: 0, len: 0 })],
            (_, true) => {
                let below = self.known_places().into_iter().filter(|known| self.is_in(known, &[ino]));
                below.flat_map(|known| forgotten(&known)).map(|seen| (door, seen)).collect()
            }
        }
    }

    fn is_in(&self, (ino, place): &(Ino, Place), tops: &[Ino]) -> bool {
        tops.iter().any(|top| ino == top || self.is_below(place.parent, *top))
    }

    /// What is in memory and has other labels after a move to another state.
    pub fn relabelled(&self, changes: &[Change]) -> Vec<Ino> {
        let has_others = |change: &&Change| match (&change.before, &change.after) {
            (Some(before), Some(after)) => before.meta.labels != after.meta.labels,
            (Some(_), None) | (None, Some(_)) | (None, None) => false,
        };
        changes.iter().filter(has_others).filter_map(|change| self.loaded(&change.path)).collect()
    }
}

/// The name, what it stands for, and the list of the directory that it is in.
fn forgotten((ino, place): &(Ino, Place)) -> [Seen; 3] {
    let all_of = |ino| Seen::Contents { ino, offset: 0, len: 0 };
    let name = Seen::Name { parent: place.parent, name: place.name.clone() };
    [all_of(*ino), name, all_of(place.parent)]
}
