//! Omits changes that the user must name before they are applied.
//!
//! git treats every directory as a repository that has a `HEAD`, `objects` and `refs`, or a `HEAD` and a
//! `commondir` that leads to the others. None of these is a repository without a `HEAD`, so each directory
//! that has one, here or in the task, is treated as one: the parts may come one by one, from several tasks.

use std::collections::{HashMap, HashSet};
use std::io;

use avfs_core::diff::TreeChange;
use avfs_core::spelling::{folded, is_folded};
use avfs_core::{Entry, EntryKind, EntryName, TreePath};
use avfs_tree::ReadError;
use rustix::fs::FileType;

use super::super::guarded::{Guarded, is_deciding, is_part};
use super::super::host::{Glance, Look};
use super::super::leads::{Becomes, Leads};
use super::super::print::Print;
use super::PlanBuilder;
use crate::error::ApplyError;
use crate::error::GuardReason;

/// What git treats a directory as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GitStanding {
    /// It has no `HEAD`, neither here nor in the task.
    Ordinary,
    /// It is a repository here.
    Repository,
    /// It could become one.
    Candidate,
}

impl PlanBuilder {
    /// Omits files that the host runs by their name and files that make or configure a repository, unless the
    /// user named them.
    pub(super) fn without_guarded(
        &mut self,
        changes: Vec<TreeChange>,
    ) -> Result<Vec<TreeChange>, ApplyError> {
        let mut kinds = HashMap::new();
        let mut kept = Vec::with_capacity(changes.len());
        let mut left_out = HashSet::new();
        let leads = self.leads(&changes)?;
        for change in changes {
            let is_directory = [&change.before, &change.after]
                .into_iter()
                .flatten()
                .all(Entry::is_directory);
            let by_name = GuardReason::of_name(&change.path).or_else(|| match &change.after {
                Some(Entry {
                    kind: EntryKind::Symlink { target },
                    ..
                }) => GuardReason::of_link(&change.path, target),
                _ => None,
            });
            let by_name = by_name.or_else(|| leads.reason(&change.path, becomes(change.after.as_ref())));
            let found = match by_name {
                Some(reason) => Some(Guarded {
                    path: change.path.clone(),
                    reason,
                }),
                None => self.part_of_repository(&change, &mut kinds)?,
            };
            match found {
                None => kept.push(change),
                Some(found)
                    if found
                        .reason
                        .is_named(&change.path, &self.plan.application.options.allowed) =>
                {
                    kept.push(change)
                }
                // A directory alone runs nothing: it is made for the files in it.
                Some(found) if is_directory && found.reason != GuardReason::NewRepository => {}
                Some(_) if self.is_here_already(&change)? => {}
                Some(found) => {
                    left_out.insert(change.path);
                    self.plan.guarded.push(found);
                }
            }
        }
        self.plan.guarded.sort_by(|a, b| a.path.cmp(&b.path));
        self.plan.guarded.dedup();
        Ok(without_emptied(kept, &left_out))
    }

    /// The targets of guarded names of the directory. Not needed if only conflicts are wanted.
    fn leads(&self, changes: &[TreeChange]) -> Result<Leads, ApplyError> {
        if changes.is_empty() || self.plan.application.only_conflicts {
            return Ok(Leads::default());
        }
        let directory = self.plan.host.path();
        Leads::of(directory, changes.iter().map(|change| &change.path)).map_err(|error| {
            ApplyError::host("reading the git settings of", directory, io::Error::other(error))
        })
    }

    /// Whether the directory has a path as the task has it: the user named it before.
    fn is_here_already(&self, change: &TreeChange) -> Result<bool, ApplyError> {
        match (&change.after, self.plan.host.look(&change.path)?) {
            (None, Look::Nothing) => Ok(true),
            (Some(after), Look::There(here)) => {
                let wanted = Print::of_entry(self.readers.0.objects(), after)?;
                Ok(here.print.holds_the_same(&wanted) && here.print.mode() == wanted.mode())
            }
            _ => Ok(false),
        }
    }

    /// The repository to which a path belongs, if it affects what git runs.
    fn part_of_repository(
        &self,
        change: &TreeChange,
        kinds: &mut HashMap<TreePath, GitStanding>,
    ) -> Result<Option<Guarded>, ApplyError> {
        // This runs for every name of every path.
        let may_be_part = |name: &[u8]| {
            if is_folded(name) {
                is_part(name)
            } else {
                is_part(&folded(name))
            }
        };
        if !change.path.names().any(may_be_part) {
            return Ok(None);
        }
        let mut above = TreePath::root();
        for name in change.path.components() {
            let part = folded(name.as_bytes());
            let kind = if is_part(&part) {
                self.kind_of(&above, kinds)?
            } else {
                GitStanding::Ordinary
            };
            let guarded = |path: &TreePath, reason| {
                Ok(Some(Guarded {
                    path: path.clone(),
                    reason,
                }))
            };
            match kind {
                GitStanding::Repository if is_deciding(&part) => {
                    return guarded(&change.path, GuardReason::InRepository);
                }
                // Taking a part away makes nothing a repository.
                GitStanding::Candidate if change.after.is_some() => {
                    let named = if above.is_root() { &change.path } else { &above };
                    return guarded(named, GuardReason::NewRepository);
                }
                GitStanding::Ordinary | GitStanding::Repository | GitStanding::Candidate => {}
            }
            above.push(&name);
        }
        Ok(None)
    }

    fn kind_of(
        &self,
        path: &TreePath,
        kinds: &mut HashMap<TreePath, GitStanding>,
    ) -> Result<GitStanding, ApplyError> {
        if let Some(kind) = kinds.get(path) {
            return Ok(*kind);
        }
        let kind = match (self.has_head_here(path)?, self.is_whole_here(path)?) {
            (true, true) => GitStanding::Repository,
            (true, false) => GitStanding::Candidate,
            (false, _) if self.has_head_in_task(path)? => GitStanding::Candidate,
            (false, _) => GitStanding::Ordinary,
        };
        kinds.insert(path.clone(), kind);
        Ok(kind)
    }

    fn has_head_here(&self, path: &TreePath) -> Result<bool, ApplyError> {
        let found = self.plan.host.glance(&path.join(&name(b"HEAD")))?;
        Ok(
            matches!(found, Glance::There(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory),
        )
    }

    /// Whether it has the parts that a repository needs besides its `HEAD`.
    fn is_whole_here(&self, path: &TreePath) -> Result<bool, ApplyError> {
        let has = |part: &[u8]| -> Result<bool, ApplyError> {
            Ok(matches!(
                self.plan.host.glance(&path.join(&name(part)))?,
                Glance::There(_)
            ))
        };
        Ok(has(b"commondir")? || (has(b"objects")? && has(b"refs")?))
    }

    fn has_head_in_task(&self, path: &TreePath) -> Result<bool, ApplyError> {
        let is_head = |entry: &Entry| !entry.is_directory();
        match self.readers.1.find(&path.join(&name(b"HEAD"))) {
            Ok(found) if is_head(&found.entry) => return Ok(true),
            Err(error @ ReadError::Object { .. }) => return Err(error.into()),
            Ok(_) | Err(_) => {}
        }
        if !self.plan.host.folds(&path.join(&name(b"HEAD")))? {
            return Ok(false);
        }
        let entries = match self.readers.1.list(path) {
            Ok(entries) => entries,
            Err(error @ ReadError::Object { .. }) => return Err(error.into()),
            Err(_) => return Ok(false),
        };
        for entry in entries {
            let (name, found) = entry?;
            if folded(name.as_bytes()) == b"head" && is_head(&found.entry) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Without new directories that only contain omitted files.
fn without_emptied(mut changes: Vec<TreeChange>, left_out: &HashSet<TreePath>) -> Vec<TreeChange> {
    let emptied = all_above(left_out);
    let is_emptied = |change: &TreeChange| {
        let is_new_directory =
            change.before.is_none() && change.after.as_ref().is_some_and(Entry::is_directory);
        is_new_directory && emptied.contains(&change.path)
    };
    let others = changes.iter().filter(|change| !is_emptied(change));
    let needed = all_above(others.map(|change| &change.path));
    changes.retain(|change| !is_emptied(change) || needed.contains(&change.path));
    changes
}

/// The directories above some paths.
fn all_above<'a>(paths: impl IntoIterator<Item = &'a TreePath>) -> HashSet<TreePath> {
    let mut found = HashSet::new();
    for path in paths {
        let mut at = path.split_last();
        while let Some((parent, _)) = at {
            at = parent.split_last();
            // What is above it is there as well: a path as deep as a tree costs its own names, and not those of all
            // paths above it.
            if !found.insert(parent) {
                break;
            }
        }
    }
    found
}

fn becomes(after: Option<&Entry>) -> Becomes {
    match after.map(|entry| &entry.kind) {
        None => Becomes::Nothing,
        Some(EntryKind::Directory { .. }) => Becomes::Directory,
        Some(EntryKind::Symlink { .. }) => Becomes::Link,
        Some(_) => Becomes::File,
    }
}

fn name(bytes: &[u8]) -> EntryName {
    EntryName::new(bytes).expect("this is a name")
}
