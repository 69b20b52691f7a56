//! Notifications of views when labels change, or when another door moves something: the labelled or moved
//! entry and everything below it may have another level.

#[cfg(test)]
mod tests;

use avfs_core::diff::TreeChange;

use crate::inodes::Ino;
use crate::op::{EntryPlace, JournalOp};
use crate::worktree::Door;
use crate::worktree::state::TreeState;
use crate::worktree::watch::Invalidation;

/// Makes doors with rules forget these inodes, and everything below them.
pub(crate) fn labels_changed(state: &mut TreeState, tops: &[Ino]) {
    state.layout += 1;
    let doors: Vec<Door> = state.views.doors().collect();
    if doors.is_empty() || tops.is_empty() {
        return;
    }
    let affected: Vec<(Ino, EntryPlace)> = state
        .known_places()
        .into_iter()
        .filter(|known| is_in(state, known, tops))
        .collect();
    for door in doors {
        for invalidation in affected.iter().flat_map(forgotten) {
            state.watchers.tell_door(door, invalidation);
        }
        // The root has no name.
        for top in tops {
            state.watchers.tell_door(
                door,
                Invalidation::Contents {
                    ino: *top,
                    offset: 0,
                    len: 0,
                },
            );
        }
    }
}

/// What doors with rules must forget when another door moves an entry to a place where it has another level.
pub(crate) fn moved_to_other_levels(
    state: &mut TreeState,
    origin: Door,
    op: &JournalOp,
) -> Vec<(Door, Invalidation)> {
    let JournalOp::Rename {
        from, to, exchange, ..
    } = op
    else {
        return Vec::new();
    };
    let doors: Vec<Door> = state.views.doors().filter(|door| *door != origin).collect();
    let mut invalidations = Vec::new();
    for door in doors {
        invalidations.extend(moved_for(state, door, from, to));
        if *exchange {
            invalidations.extend(moved_for(state, door, to, from));
        }
    }
    invalidations
}

fn moved_for(
    state: &mut TreeState,
    door: Door,
    from: &EntryPlace,
    to: &EntryPlace,
) -> Vec<(Door, Invalidation)> {
    let moved = state
        .directory(from.parent)
        .ok()
        .and_then(|above| above.children.get(&from.name).copied());
    let Some(ino) = moved else { return Vec::new() };
    let Ok(inode) = state.inode(ino) else {
        return Vec::new();
    };
    let labels = inode.meta.labels.clone();
    let is_directory = inode.is_directory();
    let is_same = state.with_view(door, |view, state| {
        let before = view.name(state, from, &labels, is_directory);
        let after = view.name(state, to, &labels, is_directory);
        matches!((before, after), (Some(before), Some(after)) if before.level() == after.level()
            && (!is_directory || view.rules().is_same_below(&before.rule_state, &after.rule_state)))
    });
    match (is_same, is_directory) {
        (Some(true), _) => Vec::new(),
        (_, false) => vec![(
            door,
            Invalidation::Contents {
                ino,
                offset: 0,
                len: 0,
            },
        )],
        (_, true) => {
            let below = state
                .known_places()
                .into_iter()
                .filter(|known| is_in(state, known, &[ino]));
            below
                .flat_map(|known| forgotten(&known))
                .map(|invalidation| (door, invalidation))
                .collect()
        }
    }
}

fn is_in(state: &TreeState, (ino, place): &(Ino, EntryPlace), tops: &[Ino]) -> bool {
    tops.iter()
        .any(|top| ino == top || state.is_below(place.parent, *top))
}

/// Inodes in memory whose labels differ after a move to another state.
pub(crate) fn relabelled(state: &TreeState, changes: &[TreeChange]) -> Vec<Ino> {
    let has_others = |change: &&TreeChange| match (&change.before, &change.after) {
        (Some(before), Some(after)) => before.meta.labels != after.meta.labels,
        (Some(_), None) | (None, Some(_)) | (None, None) => false,
    };
    changes
        .iter()
        .filter(has_others)
        .filter_map(|change| state.loaded(&change.path))
        .collect()
}

/// The name, its inode, and the listing of its directory.
fn forgotten((ino, place): &(Ino, EntryPlace)) -> [Invalidation; 3] {
    let all_of = |ino| Invalidation::Contents {
        ino,
        offset: 0,
        len: 0,
    };
    let name = Invalidation::Name {
        parent: place.parent,
        name: place.name.clone(),
    };
    [all_of(*ino), name, all_of(place.parent)]
}
