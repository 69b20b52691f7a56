//! One path with three versions: the one with which the task began, the task's, and the current one here.

use std::collections::HashSet;

use avfs_core::merge::{
    ConflictPolicy, LineConflict, MarkerStyle, SideNames, is_text, line_conflicts, merge_lines,
    merge_lines_choosing,
};
use avfs_core::{Content, Entry, EntryKind, Promise, PromiseId, Stamp, TreePath, Xattrs};
use avfs_tree::{KeptPromise, Objects, ReadError, content};
use bytes::Bytes;

use super::host::{Look, Seen, TEXT_MAX};
use super::on_conflict::OnConflict;
use super::print::Print;
use super::record::AppliedAction;
use super::selection::Selection;
use super::sides::{ChosenPlaces, EditedText};
use super::step::{New, StepAction};
use crate::error::ApplyError;
use crate::error::ConflictKind;
use crate::host_source::TICK;

/// The action for a path.
#[derive(Debug)]
pub(super) enum PathVerdict {
    Nothing,
    Do(StepAction, AppliedAction),
    /// Both sides changed it; the chosen resolution is applied, if there is one and it is possible.
    Conflict(ConflictKind, Option<ConflictChoice>),
}

/// The resolution of a conflict.
#[derive(Debug)]
pub(super) struct ConflictChoice {
    /// `None`: the version here stays.
    pub action: Option<Box<(StepAction, AppliedAction)>>,
    /// Whether the directory then has all of the task's changes to the path.
    pub is_whole: bool,
}

pub(super) struct ThreeWay<'a> {
    pub objects: &'a Objects,
    pub selection: &'a Selection,
    pub task: &'a str,
    /// Paths that had been changed by the user before they were first read.
    pub moved: &'a HashSet<TreePath>,
    /// The user's own version of this path.
    pub edited: Option<&'a EditedText>,
    /// The user's decisions on single conflicts of it.
    pub places: Option<&'a ChosenPlaces>,
}

impl ConflictChoice {
    /// For paths that can only stay as they are here, if that was chosen.
    fn kept_here(choice: OnConflict) -> Option<ConflictChoice> {
        (choice == OnConflict::Ours).then_some(ConflictChoice {
            action: None,
            is_whole: false,
        })
    }
}

/// Three texts that are merged line by line.
struct ThreeTexts {
    base: Bytes,
    here: Bytes,
    task: Bytes,
}

/// The task's side.
struct TaskSide {
    new: New,
    /// Other contents than at the beginning.
    changed: bool,
}

impl TaskSide {
    /// Of files alone.
    fn mode(&self) -> Option<u32> {
        match &self.new {
            New::Stored { entry, .. } => {
                matches!(entry.kind, EntryKind::File { .. }).then_some(entry.meta.mode & 0o777)
            }
            New::Text { mode, .. } => Some(*mode),
            New::Made | New::Kept { .. } => None,
        }
    }

    /// As a person would call it.
    fn kind(&self) -> &'static str {
        match &self.new {
            New::Stored { entry, .. } if matches!(entry.kind, EntryKind::Symlink { .. }) => "a symbolic link",
            New::Stored { .. } | New::Text { .. } | New::Made | New::Kept { .. } => "a file",
        }
    }

    /// Whether the version here has the same contents. Files of different sizes are not read for that.
    fn is_held_by(&self, objects: &Objects, here: &Print) -> Result<bool, ApplyError> {
        Ok(match (&self.new, here) {
            (New::Stored { entry, .. }, Print::File { size, .. }) if entry.size() != *size => false,
            (New::Stored { entry, .. }, here) => here.holds_the_same(&Print::of_entry(objects, entry)?),
            (New::Text { bytes, mode }, here) => here.holds_the_same(&Print::of_file(bytes, *mode)),
            (New::Made | New::Kept { .. }, _) => false,
        })
    }
}

impl ThreeWay<'_> {
    /// A file or link that the task removed, or put a directory in the place of.
    pub(super) fn leave(
        &self,
        path: &TreePath,
        before: &Entry,
        look: Look,
        choice: OnConflict,
    ) -> Result<PathVerdict, ApplyError> {
        let Look::There(here) = look else {
            return Ok(PathVerdict::Nothing);
        };
        let was = self.began_as(path, before, None, &here)?;
        let remove = |print: Print| (StepAction::Remove { was: print }, AppliedAction::Removed);
        // Unchanged here since the task began: the task's removal is what happens.
        if was.as_ref() == Some(&here.print) {
            let (action, applied) = remove(here.print);
            return Ok(PathVerdict::Do(action, applied));
        }
        let kind = match &here.print {
            Print::Directory | Print::Other => ConflictKind::Kinds {
                here: here.print.kind(),
                there: "nothing",
            },
            Print::File { .. } | Print::Symlink { .. } => ConflictKind::RemovedThere,
        };
        if !kind.can_take_theirs() {
            return Ok(PathVerdict::Conflict(kind, ConflictChoice::kept_here(choice)));
        }
        Ok(settle(kind, choice, remove(here.print)))
    }

    /// A file or link that the task made or changed.
    pub(super) fn arrive(
        &self,
        path: &TreePath,
        before: Option<&Entry>,
        after: &Entry,
        look: Look,
        choice: OnConflict,
    ) -> Result<PathVerdict, ApplyError> {
        let here = match look {
            Look::NoWay => return Ok(PathVerdict::Conflict(ConflictKind::NoWay, None)),
            Look::Nothing => None,
            Look::There(seen) => Some(*seen),
        };
        let wanted = self.wanted(path, before, after)?;
        let Some(here) = here else {
            let add = (
                StepAction::Put {
                    over: None,
                    new: wanted.new,
                },
                AppliedAction::Added,
            );
            return Ok(match before {
                None => PathVerdict::Do(add.0, add.1),
                // The user removed a file that the task has unchanged.
                Some(_) if !wanted.changed => PathVerdict::Nothing,
                Some(_) => settle(ConflictKind::RemovedHere, choice, add),
            });
        };
        if matches!(here.print, Print::Directory | Print::Other) {
            let (here, there) = (here.print.kind(), wanted.kind());
            return Ok(PathVerdict::Conflict(ConflictKind::Kinds { here, there }, None));
        }
        let was_file = before.filter(|entry| matches!(entry.kind, EntryKind::File { .. }));
        // The permissions are merged on their own: one side may have changed only them.
        let mode = merged_mode(
            was_file.map(|entry| entry.meta.mode),
            wanted.mode(),
            here.print.mode(),
        );
        if !wanted.changed || wanted.is_held_by(self.objects, &here.print)? {
            return Ok(mode_only(&here, mode));
        }
        let replace = |new: New, applied| {
            (
                StepAction::Put {
                    over: Some(here.print.clone()),
                    new,
                },
                applied,
            )
        };
        // Computed late, because it may read the original of the file.
        let old = before
            .map(|before| self.began_as(path, before, Some(after), &here))
            .transpose()?
            .flatten();
        if old.as_ref().is_some_and(|old| old.holds_the_same(&here.print)) {
            let (action, applied) = replace(with_mode(wanted.new, mode, &here), AppliedAction::Replaced);
            return Ok(PathVerdict::Do(action, applied));
        }
        // Without the original there is nothing to merge with, whatever the contents are.
        let texts = if before.is_some() && old.is_none() {
            None
        } else {
            self.texts(path, before, &wanted, &here)?
        };
        let theirs = replace(with_mode(wanted.new, mode, &here), AppliedAction::Replaced);
        let text = |bytes| New::Text {
            bytes,
            mode: mode.unwrap_or(0o644),
        };
        let Some(texts) = texts else {
            let kind = if before.is_none() {
                ConflictKind::BothAdded
            } else {
                ConflictKind::Contents
            };
            // Links are compared like texts, and taken as a whole.
            let digest = here.print.digest_text();
            let decided = self.places.filter(|places| places.here_digest == digest);
            let choice = decided.and_then(ChosenPlaces::of_all).unwrap_or(choice);
            return Ok(settle(kind, choice, theirs));
        };
        let (merged, places) =
            self.put_together(&texts.base, &texts.here, &texts.task, MarkerStyle::default());
        if places == 0 && texts.here == merged {
            // All of it is here already, among other changes.
            return Ok(mode_only(&here, mode));
        }
        if places == 0 {
            let (action, applied) = replace(text(merged), AppliedAction::Merged);
            return Ok(PathVerdict::Do(action, applied));
        }
        let conflicts = line_conflicts(&texts.base, &texts.here, &texts.task);
        let kind = if before.is_none() {
            ConflictKind::BothAdded
        } else {
            ConflictKind::Lines(conflicts.len())
        };
        let chosen = self.chosen_text(&texts, &conflicts, &here, choice).map(|chosen| {
            let action = match chosen.bytes {
                bytes if texts.here == bytes => mode_change(&here, mode),
                bytes if texts.task == bytes && chosen.is_whole => Some(theirs),
                bytes => Some(replace(text(bytes), chosen.applied)),
            };
            ConflictChoice {
                action: action.map(Box::new),
                is_whole: chosen.is_whole,
            }
        });
        Ok(PathVerdict::Conflict(kind, chosen))
    }

    /// The resolved text of a conflict: the user's version, or both sides combined by the decision on each
    /// conflict. Only the lines in conflict are taken from one side. `None`: a conflict is undecided.
    fn chosen_text(
        &self,
        texts: &ThreeTexts,
        conflicts: &[LineConflict],
        here: &Seen,
        choice: OnConflict,
    ) -> Option<ChosenText> {
        let digest = here.print.digest_text();
        // It was based on the version that was here then, and is valid for no other.
        if let Some(edited) = self.edited.filter(|edited| edited.here_digest == digest) {
            let (again, places) =
                self.put_together(&texts.base, &edited.bytes, &texts.task, MarkerStyle::default());
            return Some(ChosenText {
                bytes: edited.bytes.clone(),
                applied: AppliedAction::Merged,
                is_whole: places == 0 && again == edited.bytes,
            });
        }
        let decided = self.places.filter(|places| places.here_digest == digest);
        let choices: Vec<ConflictPolicy> = conflicts
            .iter()
            .map(|conflict| match decided {
                Some(places) => places.choice(&conflict.base)?.for_lines(),
                None => choice.for_lines(),
            })
            .collect::<Option<_>>()?;
        let mut next = choices.iter().copied();
        let merge = merge_lines_choosing(
            &texts.base,
            &texts.here,
            &texts.task,
            &self.names(MarkerStyle::default()),
            // The merge asks about the conflicts in the order in which they were listed.
            |_| next.next().unwrap_or_default(),
        );
        Some(ChosenText {
            bytes: merge.merged,
            applied: if merge.conflicts > 0 {
                AppliedAction::Marked
            } else {
                AppliedAction::Merged
            },
            is_whole: choices.iter().all(|choice| *choice == ConflictPolicy::Theirs),
        })
    }

    fn wanted(&self, path: &TreePath, before: Option<&Entry>, after: &Entry) -> Result<TaskSide, ApplyError> {
        if self.selection.hunks.contains_key(path) {
            return self.chosen(path, before, after);
        }
        let mut entry = after.clone();
        // Privileges are not applied; `point_out` notes that they were dropped.
        entry.meta.mode &= 0o777;
        entry.meta.xattrs = users_own(&after.meta.xattrs);
        let keeps_xattrs = before.is_some_and(|before| before.meta.xattrs == after.meta.xattrs);
        Ok(TaskSide {
            changed: match before {
                Some(before) => !self.holds_the_same(before, after)?,
                None => true,
            },
            new: New::Stored { entry, keeps_xattrs },
        })
    }

    /// The version with which the task began. `None`: unknown, because it had not been read before the user
    /// changed it.
    ///
    /// The source is not read for that: its current version would become the one with which the task began.
    /// If it was read meanwhile for another reason, the task knows that version only if it wrote after the
    /// user did.
    fn began_as(
        &self,
        path: &TreePath,
        before: &Entry,
        after: Option<&Entry>,
        here: &Seen,
    ) -> Result<Option<Print>, ApplyError> {
        // A reader of a version waits for a tick: a file that was written earlier may still be older than it
        // seems.
        let known = before.meta.mtime.as_nanos() + TICK.as_nanos() as i128;
        let wrote_after = after.is_some_and(|after| after.meta.mtime.as_nanos() >= known);
        if self.moved.contains(path) && !wrote_after {
            return Ok(None);
        }
        match promised_version(self.objects, before)? {
            // The promised version is the one here, whether or not it was read: there is nothing to compare.
            Some(version) if here.is(&version.stamp) => Ok(Some(here.print.clone())),
            Some(version) if version.is_unread => Ok(None),
            _ => Ok(Some(Print::of_entry(self.objects, before)?)),
        }
    }

    fn holds_the_same(&self, before: &Entry, after: &Entry) -> Result<bool, ApplyError> {
        let before = Entry {
            meta: after.meta.clone(),
            kind: before.kind.clone(),
        };
        Ok(self.objects.is_same(&before, after)?)
    }

    /// The chosen hunks, applied to the task's original.
    fn chosen(&self, path: &TreePath, before: Option<&Entry>, after: &Entry) -> Result<TaskSide, ApplyError> {
        let not_text = || ApplyError::BadHunks {
            path: path.clone(),
            reason: "it is not a text with hunks".into(),
        };
        let old = before.map_or(Ok(Some(Bytes::new())), |before| self.text(path, before))?;
        let new = self.text(path, after)?;
        let (Some(old), Some(new)) = (old, new) else {
            return Err(not_text());
        };
        let text = self.selection.chosen(path, &old, &new)?.ok_or_else(not_text)?;
        // A choice of hunks is about the text: the permissions stay.
        let mode = before.unwrap_or(after).meta.mode & 0o777;
        Ok(TaskSide {
            changed: text != old,
            new: New::Text { bytes: text, mode },
        })
    }

    /// The three sides, if all of them are texts.
    fn texts(
        &self,
        path: &TreePath,
        before: Option<&Entry>,
        wanted: &TaskSide,
        here: &Seen,
    ) -> Result<Option<ThreeTexts>, ApplyError> {
        let base = before.map_or(Ok(Some(Bytes::new())), |before| self.text(path, before))?;
        let task = match &wanted.new {
            New::Text { bytes, .. } => Some(Bytes::from(bytes.clone())),
            New::Stored { entry, .. } => self.text(path, entry)?,
            New::Made | New::Kept { .. } => None,
        };
        let here = here.bytes.clone().filter(|bytes| is_text(bytes));
        Ok(match (base, here, task) {
            (Some(base), Some(here), Some(task)) => Some(ThreeTexts { base, here, task }),
            _ => None,
        })
    }

    fn names(&self, style: MarkerStyle) -> SideNames {
        SideNames {
            ours: "here".into(),
            theirs: self.task.to_owned(),
            base: "base".into(),
            style,
        }
    }

    /// Both sides put together, and how many conflicts are marked.
    pub(super) fn put_together(
        &self,
        base: &[u8],
        here: &[u8],
        task: &[u8],
        style: MarkerStyle,
    ) -> (Vec<u8>, usize) {
        let merge = merge_lines(base, here, task, &self.names(style));
        (merge.merged, merge.conflicts)
    }

    pub(super) fn text(&self, path: &TreePath, entry: &Entry) -> Result<Option<Bytes>, ApplyError> {
        let EntryKind::File { size, content } = entry.kind else {
            return Ok(None);
        };
        if size > TEXT_MAX {
            return Ok(None);
        }
        let bytes = content::read_all(self.objects, content, size).map_err(|source| ReadError::Object {
            path: path.clone(),
            source,
        })?;
        Ok(is_text(&bytes).then_some(bytes))
    }
}

/// The resolved text of a conflict.
struct ChosenText {
    bytes: Vec<u8>,
    applied: AppliedAction,
    /// Whether it has all of the task's changes.
    is_whole: bool,
}

/// The version of a host file that an entry represents.
pub(super) struct PromisedVersion {
    pub stamp: Stamp,
    /// It had not been read before the user changed it, or not at all.
    pub is_unread: bool,
}

/// `None`: an entry is not a promise of a file.
pub(super) fn promised_version(
    objects: &Objects,
    entry: &Entry,
) -> Result<Option<PromisedVersion>, ApplyError> {
    let id = match &entry.kind {
        EntryKind::File {
            content: Content::Blob(id),
            ..
        } => id.object(),
        EntryKind::File {
            content: Content::Chunks(id),
            ..
        } => id.object(),
        _ => return Ok(None),
    };
    let Some(promise) = objects.promise(id)? else {
        return Ok(None);
    };
    let Promise::File { stamp, .. } = &*promise else {
        return Ok(None);
    };
    let is_unread = match objects.kept(PromiseId::from_object(id))?.as_deref() {
        Some(KeptPromise::File(_) | KeptPromise::Directory(_)) => false,
        None | Some(KeptPromise::Moved { .. } | KeptPromise::Gone) => true,
    };
    Ok(Some(PromisedVersion {
        stamp: *stamp,
        is_unread,
    }))
}

/// A conflict that is not in lines: one side is taken as a whole, and nothing can be marked.
fn settle(kind: ConflictKind, choice: OnConflict, theirs: (StepAction, AppliedAction)) -> PathVerdict {
    let (action, is_whole) = match choice {
        OnConflict::Refuse | OnConflict::Mark => return PathVerdict::Conflict(kind, None),
        OnConflict::Ours => (None, false),
        OnConflict::Theirs => (Some(Box::new(theirs)), true),
    };
    PathVerdict::Conflict(kind, Some(ConflictChoice { action, is_whole }))
}

/// A change of mode on one side is merged bit by bit: so there are no conflicts.
pub(super) fn merged_mode(before: Option<u32>, after: Option<u32>, here: Option<u32>) -> Option<u32> {
    let (after, here) = (after?, here);
    let (Some(before), Some(here)) = (before, here) else {
        return Some(after);
    };
    let changed = (before ^ after) & 0o777;
    Some(after & changed | here & !changed & 0o777)
}

fn mode_only(here: &Seen, mode: Option<u32>) -> PathVerdict {
    match mode_change(here, mode) {
        Some((action, applied)) => PathVerdict::Do(action, applied),
        None => PathVerdict::Nothing,
    }
}

fn mode_change(here: &Seen, mode: Option<u32>) -> Option<(StepAction, AppliedAction)> {
    match (here.print.mode(), mode) {
        (Some(from), Some(to)) if from != to => Some((StepAction::SetMode { from, to }, AppliedAction::Mode)),
        _ => None,
    }
}

/// The new file keeps the owner of the old one.
fn with_mode(new: New, mode: Option<u32>, here: &Seen) -> New {
    match new {
        New::Stored {
            mut entry,
            keeps_xattrs,
        } => {
            entry.meta.mode = mode.unwrap_or(entry.meta.mode);
            (entry.meta.uid, entry.meta.gid) = here.owner;
            New::Stored { entry, keeps_xattrs }
        }
        New::Text { bytes, mode: own } => New::Text {
            bytes,
            mode: mode.unwrap_or(own),
        },
        New::Made | New::Kept { .. } => new,
    }
}

/// Attributes that give no rights.
fn users_own(xattrs: &Xattrs) -> Xattrs {
    let mut own = Xattrs::default();
    xattrs
        .iter()
        .filter(|(name, _)| name.starts_with(b"user."))
        .for_each(|(name, value)| own.set(name, value));
    own
}

#[cfg(test)]
mod tests {
    use super::merged_mode;

    #[test]
    fn each_side_keeps_the_bits_that_it_changed() {
        assert_eq!(merged_mode(Some(0o644), Some(0o755), Some(0o644)), Some(0o755));
        assert_eq!(merged_mode(Some(0o644), Some(0o755), Some(0o600)), Some(0o711));
        assert_eq!(merged_mode(Some(0o644), Some(0o644), Some(0o600)), Some(0o600));
        assert_eq!(merged_mode(None, Some(0o640), None), Some(0o640));
        assert_eq!(merged_mode(Some(0o644), Some(0o4755), Some(0o644)), Some(0o755));
    }
}
