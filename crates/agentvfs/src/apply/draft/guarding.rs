//! Leaving out what the user has to name before it is applied.
//!
//! git takes every directory for a repository that has a `HEAD`, `objects` and `refs`, or a `HEAD` and a `commondir` that
//! leads to the others. Nothing of that is a repository without a `HEAD`, so each directory that has one, here or in the
//! task, is looked at as one: the parts may come one by one, from several tasks.

use std::collections::HashMap;
use std::io;

use avfs_core::diff::Change;
use avfs_core::spelling::folded;
use avfs_core::{Entry, EntryKind, EntryName, TreePath};
use avfs_tree::ReadError;
use rustix::fs::FileType;

use super::super::error::ApplyError;
use super::super::guarded::{GuardReason, Guarded, is_deciding, is_part};
use super::super::host::{Glance, Look};
use super::super::leads::{Becomes, Leads};
use super::super::print::Print;
use super::Draft;

/// What git takes a directory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It has no `HEAD`, neither here nor in the task.
    Ordinary,
    /// It is a repository here.
    Repository,
    /// It could become one.
    Candidate,
}

impl Draft {
    /// Leaves out what the host runs by its name and what makes or steers a repository, unless the user named it.
    pub(super) fn without_guarded(&mut self, changes: Vec<Change>) -> Result<Vec<Change>, ApplyError> {
        let mut kinds = HashMap::new();
        let mut kept = Vec::with_capacity(changes.len());
        let leads = self.leads(&changes)?;
        for change in changes {
            let is_directory = [&change.before, &change.after].into_iter().flatten().all(Entry::is_directory);
            let by_name = GuardReason::of_name(&change.path).or_else(|| match &change.after {
                Some(Entry { kind: EntryKind::Symlink { target }, .. }) => {
                    GuardReason::of_link(&change.path, target)
                }
                _ => None,
            });
            let by_name = by_name.or_else(|| leads.reason(&change.path, becomes(change.after.as_ref())));
            let found = match by_name {
                Some(reason) => Some(Guarded { path: change.path.clone(), reason }),
                None => self.part_of_repository(&change, &mut kinds)?,
            };
            match found {
                None => kept.push(change),
                Some(found)
                    if found.reason.is_named(&change.path, &self.plan.application.options.allowed) =>
                {
                    kept.push(change)
                }
                // A directory alone runs nothing: it is made for the files in it.
                Some(found) if is_directory && found.reason != GuardReason::NewRepository => {}
                Some(_) if self.is_here_already(&change)? => {}
                Some(found) => self.plan.guarded.push(found),
            }
        }
        self.plan.guarded.sort_by(|a, b| a.path.cmp(&b.path));
        self.plan.guarded.dedup();
        Ok(kept)
    }

    /// Where guarded names of the directory lead. Whoever only asks for conflicts is not told what is guarded.
    fn leads(&self, changes: &[Change]) -> Result<Leads, ApplyError> {
        if changes.is_empty() || self.plan.application.only_conflicts {
            return Ok(Leads::default());
        }
        let directory = self.plan.host.path();
        Leads::of(directory, changes.iter().map(|change| &change.path)).map_err(|error| {
            ApplyError::host("reading the git settings of", directory, io::Error::other(error))
        })
    }

    /// Whether the directory has a path as the task has it: the user named it before.
    fn is_here_already(&self, change: &Change) -> Result<bool, ApplyError> {
        match (&change.after, self.plan.host.look(&change.path)?) {
            (None, Look::Nothing) => Ok(true),
            (Some(after), Look::There(here)) => {
                let wanted = Print::of_entry(self.readers.0.objects(), after)?;
                Ok(here.print.holds_the_same(&wanted) && here.print.mode() == wanted.mode())
            }
            _ => Ok(false),
        }
    }

    /// The repository that a path is a part of, if it matters to what git runs.
    fn part_of_repository(
        &self,
        change: &Change,
        kinds: &mut HashMap<TreePath, Kind>,
    ) -> Result<Option<Guarded>, ApplyError> {
        let mut above = TreePath::root();
        for name in change.path.components() {
            let part = folded(name.as_bytes());
            let kind = match is_part(&part) {
                true => self.kind_of(&above, kinds)?,
                false => Kind::Ordinary,
            };
            let guarded = |path: &TreePath, reason| Ok(Some(Guarded { path: path.clone(), reason }));
            match kind {
                Kind::Repository if is_deciding(&part) => {
                    return guarded(&change.path, GuardReason::InRepository);
                }
                // Taking a part away makes nothing a repository.
                Kind::Candidate if change.after.is_some() => {
                    let named = if above.is_root() { &change.path } else { &above };
                    return guarded(named, GuardReason::NewRepository);
                }
                Kind::Ordinary | Kind::Repository | Kind::Candidate => {}
            }
            above.push(&name);
        }
        Ok(None)
    }

    fn kind_of(&self, path: &TreePath, kinds: &mut HashMap<TreePath, Kind>) -> Result<Kind, ApplyError> {
        if let Some(kind) = kinds.get(path) {
            return Ok(*kind);
        }
        let kind = match (self.has_head_here(path)?, self.is_whole_here(path)?) {
            (true, true) => Kind::Repository,
            (true, false) => Kind::Candidate,
            (false, _) if self.has_head_in_task(path)? => Kind::Candidate,
            (false, _) => Kind::Ordinary,
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

    /// Whether it has what a repository needs beside its `HEAD`.
    fn is_whole_here(&self, path: &TreePath) -> Result<bool, ApplyError> {
        let has = |part: &[u8]| -> Result<bool, ApplyError> {
            Ok(matches!(self.plan.host.glance(&path.join(&name(part)))?, Glance::There(_)))
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
