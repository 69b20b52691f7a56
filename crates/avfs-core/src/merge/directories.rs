//! From the deepest path up: a directory stays as long as something in it does, and where a directory meets
//! something else, one conflict stands for everything below.

use std::collections::HashSet;

use crate::entry::Entry;
use crate::name::TreePath;

use super::entries::{Contents, Merger, Outcome, is_same};
use super::tree::{Meeting, Moved};
use super::{Choice, Conflict, ConflictKind, Merged, Move, Step};

pub(super) fn settle<C: Contents>(
    mut meetings: Vec<Meeting>,
    merger: &mut Merger<'_, C>,
) -> Result<Merged, C::Error> {
    // Whatever is below a path sorts behind it.
    meetings.sort_by(|a, b| b.path.cmp(&a.path));
    let mut walk = Walk { merger, alive: HashSet::new(), settled: Vec::new() };
    for meeting in meetings {
        walk.settle(meeting)?;
    }
    Ok(walk.finish())
}

struct Settled {
    meeting: Meeting,
    outcome: Outcome,
}

struct Walk<'a, 'b, C> {
    merger: &'a mut Merger<'b, C>,
    /// The directories that something is in, after the merge, that one of the sides has put or changed there.
    alive: HashSet<TreePath>,
    /// From the deepest path up.
    settled: Vec<Settled>,
}

impl<C: Contents> Walk<'_, '_, C> {
    fn settle(&mut self, meeting: Meeting) -> Result<(), C::Error> {
        let (mine, yours) = (is_directory(&meeting.ours), is_directory(&meeting.theirs));
        let outcome = match (&meeting.moved, mine, yours) {
            (Moved::AndRemoved, ..) => self.moved_and_removed(&meeting),
            (_, true, false) => self.directory_meets(&meeting, &meeting.theirs)?,
            (_, false, true) => self.directory_meets(&meeting, &meeting.ours)?,
            (_, true, true) | (_, false, false) => {
                let states = (meeting.base.as_ref(), meeting.ours.as_ref(), meeting.theirs.as_ref());
                self.merger.entry(states.0, states.1, states.2)?
            }
        };
        if outcome.entry.is_some() {
            self.keep_alive(&meeting.path);
        }
        self.settled.push(Settled { meeting, outcome });
        Ok(())
    }

    fn keep_alive(&mut self, path: &TreePath) {
        let mut above = path.split_last();
        while let Some((parent, _)) = above {
            above = parent.split_last();
            if !self.alive.insert(parent) {
                return;
            }
        }
    }

    /// Theirs or ours, whichever is left, is another thing than what the base had there.
    fn moved_and_removed(&self, meeting: &Meeting) -> Outcome {
        let (ours, theirs) = (meeting.ours.as_ref(), meeting.theirs.as_ref());
        match ours {
            Some(_) => self.merger.choose(ours, theirs, ConflictKind::RemovedByThem, ours),
            None => self.merger.choose(ours, theirs, ConflictKind::RemovedByUs, theirs),
        }
    }

    /// One side has a directory where the other one has something else or nothing.
    fn directory_meets(&mut self, meeting: &Meeting, other: &Option<Entry>) -> Result<Outcome, C::Error> {
        let (base, ours, theirs) = (meeting.base.as_ref(), meeting.ours.as_ref(), meeting.theirs.as_ref());
        let directory = if is_directory(&meeting.ours) { ours } else { theirs };
        let was_directory = is_directory(&meeting.base);
        let alive = self.alive.contains(&meeting.path);
        if other.is_none() {
            // New, or something is in it; otherwise it goes, whatever its attributes are.
            let stays = alive || !was_directory;
            return Ok(Outcome::clean(directory.filter(|_| stays)));
        }
        if was_directory && !alive {
            return Ok(Outcome::clean(other.as_ref()));
        }
        if is_same(base, other.as_ref()) {
            return Ok(Outcome::clean(directory));
        }
        let outcome = self.merger.choose(ours, theirs, ConflictKind::Kinds, ours);
        let keeps_theirs_below = self.merger.choice == Choice::Theirs && is_directory(&meeting.theirs);
        if !keeps_theirs_below {
            self.settled.retain(|settled| !settled.meeting.path.starts_with(&meeting.path));
        }
        Ok(outcome)
    }

    fn finish(self) -> Merged {
        let mut merged = Merged::default();
        let (mut removals, mut puts) = (Vec::new(), Vec::new());
        for Settled { meeting, outcome } in self.settled {
            if let Some(from) = &meeting.from {
                if outcome.entry.is_some() {
                    merged.steps.push(Step::Move(Move { from: from.clone(), to: meeting.path.clone() }));
                }
                removals.push(Step::Remove(from.clone()));
            }
            match &outcome.entry {
                Some(entry) if meeting.from.is_some() || !is_same(Some(entry), meeting.ours.as_ref()) => {
                    puts.push(Step::Put { path: meeting.path.clone(), entry: entry.clone() });
                }
                None if meeting.ours.is_some() => removals.push(Step::Remove(meeting.path.clone())),
                _ => {}
            }
            merged.conflicts.extend(conflict(meeting, outcome.conflict));
        }
        puts.reverse();
        merged.conflicts.reverse();
        merged.steps.extend(removals);
        merged.steps.extend(puts);
        merged
    }
}

fn conflict(meeting: Meeting, kind: Option<ConflictKind>) -> Option<Conflict> {
    let (kind, their_path) = match (kind, meeting.moved) {
        (kind, Moved::Apart(theirs)) => (kind.unwrap_or(ConflictKind::Moved), Some(theirs)),
        (kind, _) => (kind?, None),
    };
    let Meeting { path, base, ours, theirs, .. } = meeting;
    Some(Conflict { path, kind, base, ours, theirs, their_path })
}

fn is_directory(entry: &Option<Entry>) -> bool {
    entry.as_ref().is_some_and(Entry::is_directory)
}
