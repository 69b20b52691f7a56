//! Files that the task moved: the user's own file gets the new name, and keeps its number and its hard links.
//!
//! Where anything else is in the way of that, the old one is removed and the new one added, as without it.

use std::collections::HashMap;

use avfs_core::diff::TreeChange;
use avfs_core::merge::PathMove;
use avfs_core::{Entry, EntryKind, TreePath};
use avfs_tree::{BaseTree, FsError, ReadError};

use super::PlanBuilder;
use crate::apply::OnConflict;
use crate::apply::host::{FileKey, Look};
use crate::apply::print::Print;
use crate::apply::record::{AppliedAction, AppliedFile};
use crate::apply::step::{ApplyStep, StepAction};
use crate::apply::three_way::PathVerdict;
use crate::error::ApplyError;
use crate::moved_files::moves_between;

/// A file that gets another name.
pub(super) struct Renamed {
    pub from: TreePath,
    before: Entry,
    was: Print,
    key: FileKey,
    /// The action under its new name.
    then: Option<(StepAction, AppliedAction)>,
}

impl PlanBuilder {
    pub(super) fn find_renamed(&mut self, changes: &[TreeChange]) -> Result<(), ApplyError> {
        let by_path: HashMap<&TreePath, &TreeChange> =
            changes.iter().map(|change| (&change.path, change)).collect();
        for PathMove { from, to } in self.moves(changes)? {
            let before = by_path.get(&from).and_then(|change| change.before.as_ref());
            let after = by_path.get(&to).and_then(|change| change.after.as_ref());
            let (Some(before), Some(after)) = (before, after) else {
                continue;
            };
            if let Some(renamed) = self.renamed(from, before, &to, after)? {
                self.leaving.insert(renamed.from.clone());
                self.renamed.insert(to, renamed);
            }
        }
        Ok(())
    }

    /// The moves among the task's changes.
    pub(super) fn moves(&self, changes: &[TreeChange]) -> Result<Vec<PathMove>, ApplyError> {
        let application = &self.plan.application;
        let before = BaseTree {
            root: self.readers.0.root().clone(),
            inodes: None,
        };
        let after = BaseTree {
            root: self.readers.1.root().clone(),
            inodes: application.inodes,
        };
        match moves_between(&application.store, &before, &after, changes) {
            Ok(moves) => Ok(moves),
            Err(FsError::Object(error)) => Err(error.into()),
            // Errors are ignored: paths that cannot be found were not moved.
            Err(_) => Ok(Vec::new()),
        }
    }

    /// `None`: it cannot be renamed, or not all of the task's changes can be made to the user's version.
    fn renamed(
        &self,
        from: TreePath,
        before: &Entry,
        to: &TreePath,
        after: &Entry,
    ) -> Result<Option<Renamed>, ApplyError> {
        let hunks = &self.plan.application.selection.hunks;
        let is_plain =
            |entry: &Entry| matches!(entry.kind, EntryKind::File { .. } | EntryKind::Symlink { .. });
        if hunks.contains_key(&from) || hunks.contains_key(to) || !is_plain(before) || !is_plain(after) {
            return Ok(None);
        }
        let host = &self.plan.host;
        let (Look::There(here), Look::Nothing) = (host.look(&from)?, host.look(to)?) else {
            return Ok(None);
        };
        let is_plain_here = matches!(here.print, Print::File { .. } | Print::Symlink { .. });
        let parent = from.split_last().map(|(parent, _)| parent).unwrap_or_default();
        if !is_plain_here || !self.leaves_free(&from)? || !host.is_one_mount(&parent, &host.anchor(to)?)? {
            return Ok(None);
        }
        let (was, key) = (here.print.clone(), here.key);
        let verdict = self.three_way(&from).arrive(
            &from,
            Some(before),
            after,
            Look::There(here),
            OnConflict::Refuse,
        )?;
        let then = match verdict {
            PathVerdict::Nothing => None,
            PathVerdict::Do(action, applied) => Some((action, applied)),
            PathVerdict::Conflict(..) => return Ok(None),
        };
        Ok(Some(Renamed {
            from,
            before: before.clone(),
            was,
            key,
            then,
        }))
    }

    /// Whether only directories replace the parents of a path: then they can be removed after it.
    fn leaves_free(&self, path: &TreePath) -> Result<bool, ApplyError> {
        let mut above = path.split_last().map(|(parent, _)| parent);
        while let Some(directory) = above.filter(|directory| !directory.is_root()) {
            match self.readers.1.find(&directory) {
                Ok(found) => return Ok(found.entry.is_directory()),
                Err(error @ ReadError::Object { .. }) => return Err(error.into()),
                Err(_) => above = directory.split_last().map(|(parent, _)| parent),
            }
        }
        Ok(true)
    }

    /// Takes a file that gets another name into the plan.
    pub(super) fn rename(&mut self, to: &TreePath, after: &Entry) -> Result<(), ApplyError> {
        let parent = to.split_last().map(|(parent, _)| parent).unwrap_or_default();
        self.ensure_directory(&parent)?;
        let Some(Renamed {
            from,
            before,
            was,
            key,
            then,
        }) = self.renamed.get_mut(to)
        else {
            return Ok(());
        };
        let (from, before, then) = (from.clone(), before.clone(), then.take());
        let anchor = from.split_last().map(|(parent, _)| parent).unwrap_or_default();
        let action = StepAction::Rename {
            from: from.clone(),
            was: was.clone(),
            key: *key,
        };
        self.plan.steps.push(ApplyStep {
            path: to.clone(),
            anchor,
            action,
        });
        self.plan.files.push(AppliedFile {
            path: to.clone(),
            action: AppliedAction::Renamed,
            from: Some(from),
        });
        self.point_out(to, Some(&before), after);
        match then {
            Some((action, applied)) => self.push(to, action, applied),
            None => Ok(()),
        }
    }
}
