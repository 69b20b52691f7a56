//! Which states of which paths meet. A file that one side moved meets itself at its new place.

use std::collections::{BTreeMap, BTreeSet};

use crate::diff::Change;
use crate::entry::Entry;
use crate::name::TreePath;

use super::directories::settle;
use super::entries::{Contents, Merger};
use super::{Choice, Merged, Move};

/// What one side did to the base.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub changes: &'a [Change],
    /// Of files alone. Where they came from is among the changes as gone, where they went to as new.
    pub moves: &'a [Move],
}

/// Merges what both sides did to one base.
///
/// With a side that changed nothing, the merged tree is the other one. What both did alike is done once. The sides
/// are alike but for what the tree holds while a conflict is open, and for names: where both moved a file, ours stays.
pub fn merge_trees<C: Contents>(
    ours: Side<'_>,
    theirs: Side<'_>,
    merger: &mut Merger<'_, C>,
) -> Result<Merged, C::Error> {
    if theirs.changes.is_empty() {
        return Ok(Merged::default());
    }
    settle(Pairing::new(ours, theirs, merger.choice).meetings(), merger)
}

/// Three states of one thing.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    /// Where it is in the merged tree.
    pub path: TreePath,
    pub base: Option<Entry>,
    pub ours: Option<Entry>,
    pub theirs: Option<Entry>,
    /// Where we have it, if it moves.
    pub from: Option<TreePath>,
    pub moved: Moved,
}

/// What a move has to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing, or the other side did not mind.
    Plainly,
    /// One side moved it and the other one removed it.
    AndRemoved,
    /// They moved it too, but to this place.
    Apart(TreePath),
}

struct Pairing<'a> {
    ours: BTreeMap<&'a TreePath, &'a Change>,
    theirs: BTreeMap<&'a TreePath, &'a Change>,
    our_moves: BTreeMap<&'a TreePath, &'a TreePath>,
    their_moves: BTreeMap<&'a TreePath, &'a TreePath>,
    choice: Choice,
    /// The paths whose states have met.
    met: BTreeSet<TreePath>,
    meetings: Vec<Meeting>,
}

fn by_path(changes: &[Change]) -> BTreeMap<&TreePath, &Change> {
    changes.iter().map(|change| (&change.path, change)).collect()
}

fn by_origin(moves: &[Move]) -> BTreeMap<&TreePath, &TreePath> {
    moves.iter().map(|one| (&one.from, &one.to)).collect()
}

impl<'a> Pairing<'a> {
    fn new(ours: Side<'a>, theirs: Side<'a>, choice: Choice) -> Pairing<'a> {
        Pairing {
            ours: by_path(ours.changes),
            theirs: by_path(theirs.changes),
            our_moves: by_origin(ours.moves),
            their_moves: by_origin(theirs.moves),
            choice,
            met: BTreeSet::new(),
            meetings: Vec::new(),
        }
    }

    fn meetings(mut self) -> Vec<Meeting> {
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

    /// Only where nothing else is at the other's place; otherwise a removal and two new files meet.
    fn moved_apart(&mut self, from: &TreePath, ours: &TreePath, theirs: &TreePath) {
        if self.theirs.contains_key(ours) || self.ours.contains_key(theirs) {
            return;
        }
        let place = if self.choice == Choice::Theirs { theirs } else { ours };
        let mut meeting = self.meeting(place, from, ours, theirs);
        match self.choice {
            Choice::Mark => meeting.moved = Moved::Apart(theirs.clone()),
            Choice::Theirs => meeting.from = Some(ours.clone()),
            Choice::Ours => {}
        }
        self.note(meeting, &[from, ours, theirs]);
    }

    fn they_moved(&mut self, from: &TreePath, to: &TreePath) {
        let stays_file = |change: &&Change| !change.after.as_ref().is_some_and(Entry::is_directory);
        if self.ours.contains_key(to) || !self.ours.get(from).is_none_or(stays_file) {
            return;
        }
        let mut meeting = self.meeting(to, from, from, to);
        match meeting.ours {
            Some(_) => meeting.from = Some(from.clone()),
            None => meeting.moved = Moved::AndRemoved,
        }
        self.note(meeting, &[from, to]);
    }

    /// What they left alone where it was needs no meeting.
    fn we_moved(&mut self, from: &TreePath, to: &TreePath) {
        let Some(theirs) = self.theirs.get(from) else { return };
        if self.theirs.contains_key(to) || theirs.after.as_ref().is_some_and(Entry::is_directory) {
            return;
        }
        let mut meeting = self.meeting(to, from, to, from);
        if meeting.theirs.is_none() {
            meeting.moved = Moved::AndRemoved;
        }
        self.note(meeting, &[from, to]);
    }

    fn stayed(&mut self, path: &TreePath) {
        let meeting = self.meeting(path, path, path, path);
        self.meetings.push(meeting);
    }

    /// What meets at `place`: something that the base and the sides each have at a path of their own.
    fn meeting(&self, place: &TreePath, base: &TreePath, ours: &TreePath, theirs: &TreePath) -> Meeting {
        let changed = self.ours.get(base).or_else(|| self.theirs.get(base));
        let before = changed.and_then(|change| change.before.clone());
        let after = |side: &BTreeMap<&TreePath, &Change>, path: &TreePath| match side.get(path) {
            Some(change) => change.after.clone(),
            None => before.clone(),
        };
        Meeting {
            path: place.clone(),
            ours: after(&self.ours, ours),
            theirs: after(&self.theirs, theirs),
            base: before,
            from: None,
            moved: Moved::Plainly,
        }
    }

    fn note(&mut self, meeting: Meeting, paths: &[&TreePath]) {
        self.met.extend(paths.iter().map(|path| (*path).clone()));
        self.meetings.push(meeting);
    }
}
