//! Pairs the states of paths. A file that one side moved is paired at its new place.

use std::collections::{BTreeMap, BTreeSet};

use crate::diff::TreeChange;
use crate::entry::Entry;
use crate::name::TreePath;

use super::directories::resolve;
use super::entries::{EntryMerger, MergeContents};
use super::{ConflictPolicy, MergeResult, PathMove};

/// The changes of one side relative to the base.
#[derive(Clone, Copy, Debug)]
pub struct MergeSide<'a> {
    /// The changes, by path.
    pub changes: &'a [TreeChange],
    /// Moves of files only. Their old paths are in the changes as removed, their new paths as added.
    pub moves: &'a [PathMove],
}

/// Merges the changes of two sides to one base.
///
/// If one side changed nothing, the merged tree is the other side. Changes that both made are applied once.
/// The merge is symmetric except for the contents of open conflicts and for names: if both sides moved a
/// file, our name is kept.
pub fn merge_trees<C: MergeContents>(
    ours: MergeSide<'_>,
    theirs: MergeSide<'_>,
    merger: &mut EntryMerger<'_, C>,
) -> Result<MergeResult, C::Error> {
    if theirs.changes.is_empty() {
        return Ok(MergeResult::default());
    }
    resolve(ChangePairing::new(ours, theirs, merger.choice).meetings(), merger)
}

/// Three states of one entry.
#[derive(Clone, Debug)]
pub(super) struct EntryMeeting {
    /// Its path in the merged tree.
    pub path: TreePath,
    pub base: Option<Entry>,
    pub ours: Option<Entry>,
    pub theirs: Option<Entry>,
    /// Our path for it, if it moves.
    pub from: Option<TreePath>,
    pub moved: MoveEffect,
}

/// How a move affects an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MoveEffect {
    /// Not at all, or the other side did not conflict with the move.
    Plainly,
    /// One side moved it and the other one removed it.
    AndRemoved,
    /// They moved it too, but to this place.
    Apart(TreePath),
}

struct ChangePairing<'a> {
    ours: BTreeMap<&'a TreePath, &'a TreeChange>,
    theirs: BTreeMap<&'a TreePath, &'a TreeChange>,
    our_moves: BTreeMap<&'a TreePath, &'a TreePath>,
    their_moves: BTreeMap<&'a TreePath, &'a TreePath>,
    choice: ConflictPolicy,
    /// The paths whose states have met.
    met: BTreeSet<TreePath>,
    meetings: Vec<EntryMeeting>,
}

fn by_path(changes: &[TreeChange]) -> BTreeMap<&TreePath, &TreeChange> {
    changes.iter().map(|change| (&change.path, change)).collect()
}

fn by_origin(moves: &[PathMove]) -> BTreeMap<&TreePath, &TreePath> {
    moves.iter().map(|one| (&one.from, &one.to)).collect()
}

impl<'a> ChangePairing<'a> {
    fn new(ours: MergeSide<'a>, theirs: MergeSide<'a>, choice: ConflictPolicy) -> ChangePairing<'a> {
        ChangePairing {
            ours: by_path(ours.changes),
            theirs: by_path(theirs.changes),
            our_moves: by_origin(ours.moves),
            their_moves: by_origin(theirs.moves),
            choice,
            met: BTreeSet::new(),
            meetings: Vec::new(),
        }
    }

    fn meetings(mut self) -> Vec<EntryMeeting> {
        // Moves first: they decide which paths belong together, and the rest is paired by path.
        for (from, to) in self.their_moves.clone() {
            match self.our_moves.get(from).copied() {
                Some(ours) if ours == to => self.moved_alike(from, to),
                Some(ours) => self.moved_apart(from, ours, to),
                None => self.they_moved(from, to),
            }
        }
        for (from, to) in self.our_moves.clone() {
            if !self.their_moves.contains_key(from) {
                self.we_moved(from, to);
            }
        }
        // Sorted, so that a directory comes before what is in it.
        let paths: BTreeSet<&TreePath> = self.ours.keys().chain(self.theirs.keys()).copied().collect();
        for path in paths {
            if !self.met.contains(path) {
                self.stayed(path);
            }
        }
        self.meetings
    }

    fn moved_alike(&mut self, from: &TreePath, to: &TreePath) {
        let meeting = self.meeting(to, from, to, to);
        self.note(meeting, &[from, to]);
    }

    /// Only if the place to which the other side moved it is free; otherwise a removal and two new files are
    /// paired.
    fn moved_apart(&mut self, from: &TreePath, ours: &TreePath, theirs: &TreePath) {
        if self.theirs.contains_key(ours) || self.ours.contains_key(theirs) {
            return;
        }
        let place = if self.choice == ConflictPolicy::Theirs {
            theirs
        } else {
            ours
        };
        // One file at two places would be two files: the contents are merged at one of them.
        let mut meeting = self.meeting(place, from, ours, theirs);
        match self.choice {
            ConflictPolicy::Mark => meeting.moved = MoveEffect::Apart(theirs.clone()),
            ConflictPolicy::Theirs => meeting.from = Some(ours.clone()),
            ConflictPolicy::Ours => {}
        }
        self.note(meeting, &[from, ours, theirs]);
    }

    fn they_moved(&mut self, from: &TreePath, to: &TreePath) {
        let stays_file = |change: &&TreeChange| !change.after.as_ref().is_some_and(Entry::is_directory);
        // We have something else at the new place, or made a directory of the old one: the move is then a
        // removal and an addition.
        if self.ours.contains_key(to) || !self.ours.get(from).is_none_or(stays_file) {
            return;
        }
        let mut meeting = self.meeting(to, from, from, to);
        match meeting.ours {
            Some(_) => meeting.from = Some(from.clone()),
            None => meeting.moved = MoveEffect::AndRemoved,
        }
        self.note(meeting, &[from, to]);
    }

    /// Entries that they left unchanged at the old place need no pairing.
    fn we_moved(&mut self, from: &TreePath, to: &TreePath) {
        let Some(theirs) = self.theirs.get(from) else {
            return;
        };
        if self.theirs.contains_key(to) || theirs.after.as_ref().is_some_and(Entry::is_directory) {
            return;
        }
        let mut meeting = self.meeting(to, from, to, from);
        if meeting.theirs.is_none() {
            meeting.moved = MoveEffect::AndRemoved;
        }
        self.note(meeting, &[from, to]);
    }

    fn stayed(&mut self, path: &TreePath) {
        let meeting = self.meeting(path, path, path, path);
        self.meetings.push(meeting);
    }

    /// The states to pair at `place`: an entry that the base and each side have at different paths.
    fn meeting(&self, place: &TreePath, base: &TreePath, ours: &TreePath, theirs: &TreePath) -> EntryMeeting {
        let changed = self.ours.get(base).or_else(|| self.theirs.get(base));
        let before = changed.and_then(|change| change.before.clone());
        let after = |side: &BTreeMap<&TreePath, &TreeChange>, path: &TreePath| match side.get(path) {
            Some(change) => change.after.clone(),
            // A side without a change at the path has the entry as it was.
            None => before.clone(),
        };
        EntryMeeting {
            path: place.clone(),
            ours: after(&self.ours, ours),
            theirs: after(&self.theirs, theirs),
            base: before,
            from: None,
            moved: MoveEffect::Plainly,
        }
    }

    fn note(&mut self, meeting: EntryMeeting, paths: &[&TreePath]) {
        self.met.extend(paths.iter().map(|path| (*path).clone()));
        self.meetings.push(meeting);
    }
}
