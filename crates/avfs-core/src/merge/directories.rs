//! Works from the deepest path up: a directory is kept as long as it contains an entry, and where a directory
//! meets another kind of entry, one conflict represents everything below.

use std::collections::HashSet;

use crate::entry::Entry;
use crate::name::TreePath;

use super::entries::{EntryMerger, MergeContents, MergedEntry, is_same};
use super::tree::{EntryMeeting, MoveEffect};
use super::{ConflictPolicy, MergeConflict, MergeConflictKind, MergeResult, MergeStep, PathMove};

pub(super) fn resolve<C: MergeContents>(
    mut meetings: Vec<EntryMeeting>,
    merger: &mut EntryMerger<'_, C>,
) -> Result<MergeResult, C::Error> {
    // A path sorts before everything below it, so the reverse order starts at the bottom.
    meetings.sort_by(|a, b| b.path.cmp(&a.path));
    let mut walk = MeetingWalk {
        merger,
        alive: HashSet::new(),
        resolved: Vec::new(),
    };
    for meeting in meetings {
        walk.resolve(meeting)?;
    }
    Ok(walk.finish())
}

struct ResolvedMeeting {
    meeting: EntryMeeting,
    outcome: MergedEntry,
}

struct MeetingWalk<'a, 'b, C> {
    merger: &'a mut EntryMerger<'b, C>,
    /// The directories that contain an entry, after the merge, that one of the sides has added or changed.
    alive: HashSet<TreePath>,
    /// From the deepest path up.
    resolved: Vec<ResolvedMeeting>,
}

impl<C: MergeContents> MeetingWalk<'_, '_, C> {
    fn resolve(&mut self, meeting: EntryMeeting) -> Result<(), C::Error> {
        let mine = is_directory(&meeting.ours);
        let yours = is_directory(&meeting.theirs);
        let outcome = match (&meeting.moved, mine, yours) {
            (MoveEffect::AndRemoved, ..) => self.moved_and_removed(&meeting),
            (_, true, false) => self.directory_meets(&meeting, &meeting.theirs)?,
            (_, false, true) => self.directory_meets(&meeting, &meeting.ours)?,
            (_, true, true) | (_, false, false) => {
                let states = (
                    meeting.base.as_ref(),
                    meeting.ours.as_ref(),
                    meeting.theirs.as_ref(),
                );
                self.merger.entry(states.0, states.1, states.2)?
            }
        };
        if outcome.entry.is_some() {
            self.keep_alive(&meeting.path);
        }
        self.resolved.push(ResolvedMeeting { meeting, outcome });
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

    /// The remaining side, theirs or ours, is not the entry that the base had there.
    fn moved_and_removed(&self, meeting: &EntryMeeting) -> MergedEntry {
        let ours = meeting.ours.as_ref();
        let theirs = meeting.theirs.as_ref();
        match ours {
            Some(_) => self
                .merger
                .choose(ours, theirs, MergeConflictKind::RemovedByThem, ours),
            None => self
                .merger
                .choose(ours, theirs, MergeConflictKind::RemovedByUs, theirs),
        }
    }

    /// One side has a directory where the other one has a different kind of entry or none.
    fn directory_meets(
        &mut self,
        meeting: &EntryMeeting,
        other: &Option<Entry>,
    ) -> Result<MergedEntry, C::Error> {
        let base = meeting.base.as_ref();
        let ours = meeting.ours.as_ref();
        let theirs = meeting.theirs.as_ref();
        let directory = if is_directory(&meeting.ours) { ours } else { theirs };
        let was_directory = is_directory(&meeting.base);
        let alive = self.alive.contains(&meeting.path);
        if other.is_none() {
            // It is kept if it is new or contains an entry; otherwise it is removed, whatever its attributes
            // are.
            let stays = alive || !was_directory;
            return Ok(MergedEntry::clean(directory.filter(|_| stays)));
        }
        if was_directory && !alive {
            return Ok(MergedEntry::clean(other.as_ref()));
        }
        if is_same(base, other.as_ref()) {
            return Ok(MergedEntry::clean(directory));
        }
        let outcome = self.merger.choose(ours, theirs, MergeConflictKind::Kinds, ours);
        let keeps_theirs_below =
            self.merger.choice == ConflictPolicy::Theirs && is_directory(&meeting.theirs);
        if !keeps_theirs_below {
            self.resolved
                .retain(|resolved| !resolved.meeting.path.starts_with(&meeting.path));
        }
        Ok(outcome)
    }

    fn finish(self) -> MergeResult {
        let mut merged = MergeResult::default();
        let mut removals = Vec::new();
        let mut puts = Vec::new();
        for ResolvedMeeting { meeting, outcome } in self.resolved {
            if let Some(from) = &meeting.from {
                if outcome.entry.is_some() {
                    merged.steps.push(MergeStep::Move(PathMove {
                        from: from.clone(),
                        to: meeting.path.clone(),
                    }));
                }
                removals.push(MergeStep::Remove(from.clone()));
            }
            match &outcome.entry {
                Some(entry) if meeting.from.is_some() || !is_same(Some(entry), meeting.ours.as_ref()) => {
                    puts.push(MergeStep::Put {
                        path: meeting.path.clone(),
                        entry: entry.clone(),
                    });
                }
                None if meeting.ours.is_some() => removals.push(MergeStep::Remove(meeting.path.clone())),
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

fn conflict(meeting: EntryMeeting, kind: Option<MergeConflictKind>) -> Option<MergeConflict> {
    let (kind, their_path) = match (kind, meeting.moved) {
        (kind, MoveEffect::Apart(theirs)) => (kind.unwrap_or(MergeConflictKind::Moved), Some(theirs)),
        (kind, _) => (kind?, None),
    };
    let EntryMeeting {
        path,
        base,
        ours,
        theirs,
        ..
    } = meeting;
    Some(MergeConflict {
        path,
        kind,
        base,
        ours,
        theirs,
        their_path,
    })
}

fn is_directory(entry: &Option<Entry>) -> bool {
    entry.as_ref().is_some_and(Entry::is_directory)
}
