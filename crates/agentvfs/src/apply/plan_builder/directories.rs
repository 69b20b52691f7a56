//! Directories that come, go, stay, or get another mode.

use avfs_core::diff::TreeChange;
use avfs_core::{Entry, TreePath};

use super::PlanBuilder;
use crate::apply::host::Look;
use crate::apply::notes::{Note, Reason};
use crate::apply::print::Print;
use crate::apply::record::AppliedAction;
use crate::apply::step::StepAction;
use crate::apply::three_way::{PathVerdict, merged_mode};
use crate::error::ApplyError;
use crate::error::ConflictKind;

impl PlanBuilder {
    /// A directory is removed when it is empty.
    pub(super) fn leave_directory(&mut self, path: &TreePath) -> Result<(), ApplyError> {
        let Look::There(here) = self.plan.host.look(path)? else {
            return Ok(());
        };
        if here.print != Print::Directory {
            return Ok(());
        }
        let names = self.plan.host.names(path)?;
        let mut stay = names
            .iter()
            .map(|name| path.join(name))
            .filter(|at| !self.gone.contains(at))
            .peekable();
        if stay.peek().is_some() {
            let is_hidden = stay.all(|at| self.was_hidden(&at));
            let reason = if is_hidden {
                Reason::HiddenKept
            } else {
                Reason::DirectoryKept
            };
            self.plan.notes.push(Note {
                path: path.clone(),
                reason,
            });
            return Ok(());
        }
        let action = StepAction::RemoveDirectory {
            mode: here.mode,
            owner: here.owner,
            mtime: here.mtime,
        };
        self.gone.insert(path.clone());
        self.push(path, action, AppliedAction::DirectoryRemoved)
    }

    /// Whether a path existed when the task began, and the task did not see it, or not all of it.
    fn was_hidden(&self, path: &TreePath) -> bool {
        let Some(rules) = &self.plan.application.options.rules else {
            return false;
        };
        let is_kept = |note: &Note| note.path == *path && note.reason == Reason::HiddenKept;
        self.plan.notes.iter().any(is_kept)
            || self.readers.0.find(path).is_ok() && self.readers.0.through(rules.clone()).find(path).is_err()
    }

    /// Has a directory be there, with those above it. `false`: something else is in the way.
    pub(super) fn ensure_directory(&mut self, path: &TreePath) -> Result<bool, ApplyError> {
        let (mut at, mut missing) = (path.clone(), Vec::new());
        while let Some((parent, _)) = at.split_last().filter(|_| !self.there.contains(&at)) {
            match self.is_directory_there(&at)? {
                Some(true) => {
                    self.there.insert(at);
                    break;
                }
                Some(false) => return Ok(false),
                None => missing.push(at),
            }
            at = parent;
        }
        while let Some(path) = missing.pop() {
            let mode = self.readers.1.find(&path)?.entry.meta.mode & 0o1777;
            self.push(
                &path,
                StepAction::MakeDirectory { mode, owner: None },
                AppliedAction::DirectoryAdded,
            )?;
            self.there.insert(path);
        }
        Ok(true)
    }

    /// `None`: there is nothing. Another kind of entry is a conflict.
    fn is_directory_there(&mut self, path: &TreePath) -> Result<Option<bool>, ApplyError> {
        match self.look(path)? {
            Look::There(here) if here.print == Print::Directory => Ok(Some(true)),
            Look::There(here) => {
                let kind = ConflictKind::Kinds {
                    here: here.print.kind(),
                    there: Print::Directory.kind(),
                };
                if !self
                    .plan
                    .conflicts
                    .iter()
                    .chain(&self.plan.settled)
                    .any(|known| known.path == *path)
                {
                    self.settle(path, PathVerdict::Conflict(kind, None))?;
                }
                Ok(Some(false))
            }
            Look::NoWay => Ok(Some(false)),
            Look::Nothing => Ok(None),
        }
    }

    /// A directory on both sides: its mode.
    pub(super) fn same_directory(&mut self, change: &TreeChange, after: &Entry) -> Result<(), ApplyError> {
        let before = change.before.as_ref().map(|before| before.meta.mode & 0o777);
        if before == Some(after.meta.mode & 0o777) {
            return Ok(());
        }
        let Look::There(here) = self.plan.host.look(&change.path)? else {
            return Ok(());
        };
        if here.print != Print::Directory {
            return Ok(());
        }
        let from = here.mode & 0o777;
        match merged_mode(before, Some(after.meta.mode & 0o777), Some(from)) {
            Some(to) if to != from => self.push(
                &change.path,
                StepAction::SetMode { from, to },
                AppliedAction::Mode,
            ),
            _ => Ok(()),
        }
    }
}
