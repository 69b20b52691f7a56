//! One path with three sides: as it was when the task began, as the task left it, and as it is here now.

use std::collections::HashSet;

use avfs_core::merge::{MarkerStyle, Sides, is_text, merge_lines};
use avfs_core::{Content, Entry, EntryKind, Promise, PromiseId, Stamp, TreePath, Xattrs};
use avfs_tree::{Kept, Objects, ReadError, content};
use bytes::Bytes;

use super::conflict::{ConflictKind, OnConflict};
use super::error::ApplyError;
use super::host::{Look, Seen, TEXT_MAX};
use super::print::Print;
use super::record::Deed;
use super::selection::Selection;
use super::sides::EditedText;
use super::step::{Action, New};
use crate::source::TICK;

/// What is to be done with a path.
#[derive(Debug)]
pub(super) enum Verdict {
    Nothing,
    Do(Action, Deed),
    /// Both sides changed it; what was chosen is done, if something was and it can be.
    Conflict(ConflictKind, Option<Settled>),
}

#[derive(Debug)]
pub(super) enum Settled {
    Ours,
    Do(Box<(Action, Deed)>),
}

pub(super) struct ThreeWay<'a> {
    pub objects: &'a Objects,
    pub selection: &'a Selection,
    pub task: &'a str,
    /// Paths of which the user had another version when somebody first read them.
    pub moved: &'a HashSet<TreePath>,
    /// What the user made of this path.
    pub edited: Option<&'a EditedText>,
}

/// The task's side.
struct Wanted {
    new: New,
    /// Other contents than at the beginning.
    changed: bool,
}

impl Wanted {
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

    /// Whether what is here holds the same. Files of other sizes are not read for it.
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
    pub fn leave(
        &self,
        path: &TreePath,
        before: &Entry,
        look: Look,
        choice: OnConflict,
    ) -> Result<Verdict, ApplyError> {
        let Look::There(here) = look else { return Ok(Verdict::Nothing) };
        let was = self.began_as(path, before, None, &here)?;
        let remove = |print: Print| (Action::Remove { was: print }, Deed::Removed);
        if was.as_ref() == Some(&here.print) {
            let (action, deed) = remove(here.print);
            return Ok(Verdict::Do(action, deed));
        }
        let kind = match &here.print {
            Print::Directory | Print::Other => {
                ConflictKind::Kinds { here: here.print.kind(), there: "nothing" }
            }
            Print::File { .. } | Print::Symlink { .. } => ConflictKind::RemovedThere,
        };
        let theirs = kind.can_take_theirs().then(|| remove(here.print));
        Ok(settle(kind, choice, theirs, None))
    }

    /// A file or link that the task made or changed.
    pub fn arrive(
        &self,
        path: &TreePath,
        before: Option<&Entry>,
        after: &Entry,
        look: Look,
        choice: OnConflict,
    ) -> Result<Verdict, ApplyError> {
        let here = match look {
            Look::NoWay => return Ok(Verdict::Conflict(ConflictKind::NoWay, None)),
            Look::Nothing => None,
            Look::There(seen) => Some(*seen),
        };
        let wanted = self.wanted(path, before, after)?;
        let Some(here) = here else {
            let add = (Action::Put { over: None, new: wanted.new }, Deed::Added);
            return Ok(match before {
                None => Verdict::Do(add.0, add.1),
                // The user removed what the task has as it was.
                Some(_) if !wanted.changed => Verdict::Nothing,
                Some(_) => settle(ConflictKind::RemovedHere, choice, Some(add), None),
            });
        };
        if matches!(here.print, Print::Directory | Print::Other) {
            let (here, there) = (here.print.kind(), wanted.kind());
            return Ok(Verdict::Conflict(ConflictKind::Kinds { here, there }, None));
        }
        let was_file = before.filter(|entry| matches!(entry.kind, EntryKind::File { .. }));
        let mode = merged_mode(was_file.map(|entry| entry.meta.mode), wanted.mode(), here.print.mode());
        if !wanted.changed || wanted.is_held_by(self.objects, &here.print)? {
            return Ok(mode_only(&here, mode));
        }
        let replace = |new: New, deed| (Action::Put { over: Some(here.print.clone()), new }, deed);
        let old = before.map(|before| self.began_as(path, before, Some(after), &here)).transpose()?.flatten();
        if old.as_ref().is_some_and(|old| old.holds_the_same(&here.print)) {
            let (action, deed) = replace(with_mode(wanted.new, mode, &here), Deed::Replaced);
            return Ok(Verdict::Do(action, deed));
        }
        let merged = match before.is_some() && old.is_none() {
            true => None,
            false => self.merged(path, before, &wanted, &here)?,
        };
        let theirs = replace(with_mode(wanted.new, mode, &here), Deed::Replaced);
        let text = |bytes| New::Text { bytes, mode: mode.unwrap_or(0o644) };
        Ok(match merged {
            Some((bytes, 0)) => {
                let (action, deed) = replace(text(bytes), Deed::Merged);
                Verdict::Do(action, deed)
            }
            Some((bytes, places)) => {
                let kind =
                    if before.is_none() { ConflictKind::BothAdded } else { ConflictKind::Lines(places) };
                // It was made of what was here then, and of nothing else.
                if let Some(edited) =
                    self.edited.filter(|edited| edited.here_digest == here.print.digest_text())
                {
                    let chosen = replace(text(edited.bytes.clone()), Deed::Merged);
                    return Ok(Verdict::Conflict(kind, Some(Settled::Do(Box::new(chosen)))));
                }
                settle(kind, choice, Some(theirs), Some(replace(text(bytes), Deed::Marked)))
            }
            None => {
                let kind = if before.is_none() { ConflictKind::BothAdded } else { ConflictKind::Contents };
                settle(kind, choice, Some(theirs), None)
            }
        })
    }

    fn wanted(&self, path: &TreePath, before: Option<&Entry>, after: &Entry) -> Result<Wanted, ApplyError> {
        if self.selection.hunks.contains_key(path) {
            return self.chosen(path, before, after);
        }
        let mut entry = after.clone();
        entry.meta.mode &= 0o777;
        entry.meta.xattrs = users_own(&after.meta.xattrs);
        let keeps_xattrs = before.is_some_and(|before| before.meta.xattrs == after.meta.xattrs);
        Ok(Wanted {
            changed: match before {
                Some(before) => !self.holds_the_same(before, after)?,
                None => true,
            },
            new: New::Stored { entry, keeps_xattrs },
        })
    }

    /// What the task began with. `None`: it is not known, because nobody had read it before the user changed it.
    ///
    /// The source is not asked for it: what it has now would become what the task began with. Where somebody else
    /// has asked meanwhile, the task knows that version only if it wrote after the user did.
    fn began_as(
        &self,
        path: &TreePath,
        before: &Entry,
        after: Option<&Entry>,
        here: &Seen,
    ) -> Result<Option<Print>, ApplyError> {
        // Whoever reads a version waits for a tick: what was written earlier may still be older than it seems.
        let known = before.meta.mtime.as_nanos() + TICK.as_nanos() as i128;
        let wrote_after = after.is_some_and(|after| after.meta.mtime.as_nanos() >= known);
        if self.moved.contains(path) && !wrote_after {
            return Ok(None);
        }
        match promised_version(self.objects, before)? {
            // What was promised is what is here, whether or not it was read: there is nothing to compare.
            Some(version) if here.is(&version.stamp) => Ok(Some(here.print.clone())),
            Some(version) if version.is_unread => Ok(None),
            _ => Ok(Some(Print::of_entry(self.objects, before)?)),
        }
    }

    fn holds_the_same(&self, before: &Entry, after: &Entry) -> Result<bool, ApplyError> {
        let before = Entry { meta: after.meta.clone(), kind: before.kind.clone() };
        Ok(self.objects.is_same(&before, after)?)
    }

    /// The chosen hunks on what the task began with.
    fn chosen(&self, path: &TreePath, before: Option<&Entry>, after: &Entry) -> Result<Wanted, ApplyError> {
        let not_text =
            || ApplyError::BadHunks { path: path.clone(), reason: "it is not a text with hunks".into() };
        let old = before.map_or(Ok(Some(Bytes::new())), |before| self.text(path, before))?;
        let new = self.text(path, after)?;
        let (Some(old), Some(new)) = (old, new) else { return Err(not_text()) };
        let text = self.selection.chosen(path, &old, &new)?.ok_or_else(not_text)?;
        let mode = before.unwrap_or(after).meta.mode & 0o777;
        Ok(Wanted { changed: text != old, new: New::Text { bytes: text, mode } })
    }

    /// Both sides put together, and in how many places they do not fit.
    fn merged(
        &self,
        path: &TreePath,
        before: Option<&Entry>,
        wanted: &Wanted,
        here: &Seen,
    ) -> Result<Option<(Vec<u8>, usize)>, ApplyError> {
        let base = before.map_or(Ok(Some(Bytes::new())), |before| self.text(path, before))?;
        let theirs = match &wanted.new {
            New::Text { bytes, .. } => Some(Bytes::from(bytes.clone())),
            New::Stored { entry, .. } => self.text(path, entry)?,
            New::Made | New::Kept { .. } => None,
        };
        let ours = here.bytes.clone().filter(|bytes| is_text(bytes));
        let (Some(base), Some(ours), Some(theirs)) = (base, ours, theirs) else { return Ok(None) };
        Ok(Some(self.put_together(&base, &ours, &theirs, MarkerStyle::Merge)))
    }

    pub fn put_together(
        &self,
        base: &[u8],
        here: &[u8],
        task: &[u8],
        style: MarkerStyle,
    ) -> (Vec<u8>, usize) {
        let (ours, theirs, base_name) = ("here".into(), self.task.to_owned(), "base".into());
        let merge = merge_lines(base, here, task, &Sides { ours, theirs, base: base_name, style });
        (merge.merged, merge.conflicts)
    }

    pub fn text(&self, path: &TreePath, entry: &Entry) -> Result<Option<Bytes>, ApplyError> {
        let EntryKind::File { size, content } = entry.kind else { return Ok(None) };
        if size > TEXT_MAX {
            return Ok(None);
        }
        let bytes = content::read_all(self.objects, content, size)
            .map_err(|source| ReadError::Object { path: path.clone(), source })?;
        Ok(is_text(&bytes).then_some(bytes))
    }
}

/// The version of a file of the host that an entry stands for.
pub(super) struct PromisedVersion {
    pub stamp: Stamp,
    /// Nobody had read it before the user changed it, or up to now.
    pub is_unread: bool,
}

/// `None`: an entry is not a promise of a file.
pub(super) fn promised_version(
    objects: &Objects,
    entry: &Entry,
) -> Result<Option<PromisedVersion>, ApplyError> {
    let id = match &entry.kind {
        EntryKind::File { content: Content::Blob(id), .. } => id.object(),
        EntryKind::File { content: Content::Chunks(id), .. } => id.object(),
        _ => return Ok(None),
    };
    let Some(promise) = objects.promise(id)? else { return Ok(None) };
    let Promise::File { stamp, .. } = &*promise else { return Ok(None) };
    let is_unread = match objects.kept(PromiseId::from_object(id))?.as_deref() {
        Some(Kept::File(_) | Kept::Directory(_)) => false,
        None | Some(Kept::Moved { .. } | Kept::Gone) => true,
    };
    Ok(Some(PromisedVersion { stamp: *stamp, is_unread }))
}

fn settle(
    kind: ConflictKind,
    choice: OnConflict,
    theirs: Option<(Action, Deed)>,
    marked: Option<(Action, Deed)>,
) -> Verdict {
    let settled = match choice {
        OnConflict::Refuse => None,
        OnConflict::Ours => Some(Settled::Ours),
        OnConflict::Theirs => theirs.map(|action| Settled::Do(Box::new(action))),
        OnConflict::Mark => marked.map(|action| Settled::Do(Box::new(action))),
    };
    Verdict::Conflict(kind, settled)
}

/// A change of mode on one side is kept on the other, bit by bit: so there are no conflicts.
pub(super) fn merged_mode(before: Option<u32>, after: Option<u32>, here: Option<u32>) -> Option<u32> {
    let (after, here) = (after?, here);
    let (Some(before), Some(here)) = (before, here) else { return Some(after) };
    let changed = (before ^ after) & 0o777;
    Some(after & changed | here & !changed & 0o777)
}

fn mode_only(here: &Seen, mode: Option<u32>) -> Verdict {
    match (here.print.mode(), mode) {
        (Some(from), Some(to)) if from != to => Verdict::Do(Action::SetMode { from, to }, Deed::Mode),
        _ => Verdict::Nothing,
    }
}

/// The new file belongs to whom the old one did.
fn with_mode(new: New, mode: Option<u32>, here: &Seen) -> New {
    match new {
        New::Stored { mut entry, keeps_xattrs } => {
            entry.meta.mode = mode.unwrap_or(entry.meta.mode);
            (entry.meta.uid, entry.meta.gid) = here.owner;
            New::Stored { entry, keeps_xattrs }
        }
        New::Text { bytes, mode: own } => New::Text { bytes, mode: mode.unwrap_or(own) },
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
