//! Which changes could be a conflict, found out from attributes: so that a forecast reads next to nothing.

use std::collections::HashSet;

use avfs_core::diff::Change;
use avfs_core::merge::Move;
use avfs_core::{Entry, EntryKind, TreePath};
use rustix::fs::{FileType, Stat};

use super::Draft;
use crate::apply::conflict::{Conflict, ConflictKind};
use crate::apply::error::ApplyError;
use crate::apply::host::{Glance, TEXT_MAX};
use crate::apply::left::LeftFiles;
use crate::apply::three_way::promised_version;
use crate::transfer::host_file::meta;

/// Larger files are not read to find out whether they are in conflict: they may be.
const COMPARED_MAX: u64 = 256 << 20;

enum Forecast {
    Clean,
    Conflict(ConflictKind),
    TakesALook,
}

impl Draft {
    /// The changes that a closer look is needed for. A large file is a conflict without one where sizes and what applies
    /// left tell, or where it would have to be read and is too large for that.
    pub(super) fn doubtful(&mut self, changes: Vec<Change>) -> Result<Vec<Change>, ApplyError> {
        let mut doubtful: HashSet<TreePath> = HashSet::new();
        // Directories that something else takes the place of: all of what was in them matters.
        let mut replaced: Vec<TreePath> = Vec::new();
        for change in &changes {
            let is_file = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| !entry.is_directory());
            if change.before.as_ref().is_some_and(Entry::is_directory) && is_file(&change.after) {
                replaced.push(change.path.clone());
            }
            let glance = self.plan.host.glance(&change.path)?;
            if !self.is_doubtful(change, &glance)? {
                continue;
            }
            match self.forecast_of_large(change, &glance)? {
                Forecast::Clean => {}
                Forecast::Conflict(kind) => {
                    self.plan.conflicts.push(Conflict { path: change.path.clone(), kind });
                }
                Forecast::TakesALook => drop(doubtful.insert(change.path.clone())),
            }
        }
        if doubtful.is_empty() && replaced.is_empty() {
            return Ok(Vec::new());
        }
        for Move { from, to } in self.moves(&changes)? {
            if doubtful.contains(&from) || doubtful.contains(&to) {
                doubtful.extend([from, to]);
            }
        }
        let is_needed = |change: &Change| {
            doubtful.contains(&change.path) || replaced.iter().any(|top| change.path.starts_with(top))
        };
        Ok(changes.into_iter().filter(is_needed).collect())
    }

    fn is_doubtful(&self, change: &Change, glance: &Glance) -> Result<bool, ApplyError> {
        let is_directory = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
        if let (Some(before), Some(after)) = (&change.before, &change.after)
            && self.readers.0.objects().has_same_bytes(before, after)?
        {
            return Ok(false);
        }
        let there = match glance {
            Glance::NoWay => return Ok(change.after.is_some()),
            Glance::Nothing => None,
            Glance::There(stat) => Some(&**stat),
        };
        Ok(match (&change.before, &change.after, there) {
            // Nothing is in the way of what is new, and what is gone is gone.
            (None, _, None) | (_, None, None) => false,
            (Some(_), Some(_), None) => !is_directory(&change.after),
            (_, _, Some(stat)) if is_directory(&change.after) && is_directory_here(stat) => false,
            (Some(before), None, Some(_)) if before.is_directory() => false,
            // Whether the task knew the version that took the place of what it began with takes a closer look.
            (Some(_), _, Some(_)) if self.moved.contains(&change.path) => true,
            (Some(before), _, Some(stat)) => !self.is_as_before(before, glance, stat)?,
            (None, _, Some(_)) => true,
        })
    }

    /// What is too large to be merged is in conflict if the directory has neither what the task began with nor what it has
    /// now.
    fn forecast_of_large(&self, change: &Change, glance: &Glance) -> Result<Forecast, ApplyError> {
        let (Glance::There(stat), Some(after)) = (glance, &change.after) else {
            return Ok(Forecast::TakesALook);
        };
        let EntryKind::File { size, .. } = after.kind else { return Ok(Forecast::TakesALook) };
        let here = stat.st_size as u64;
        if !is_file_here(stat) || here.max(size) <= TEXT_MAX {
            return Ok(Forecast::TakesALook);
        }
        let conflict = Forecast::Conflict(match change.before {
            Some(_) => ConflictKind::Contents,
            None => ConflictKind::BothAdded,
        });
        if here != size && change.before.as_ref().is_none_or(|before| before.size() != here) {
            return Ok(conflict);
        }
        let application = &self.plan.application;
        let left = self.left.get_or_init(|| LeftFiles::of(&application.store, self.plan.host.path()));
        if let Some(left) = left.find(&application.store, &change.path, stat) {
            let objects = self.readers.0.objects();
            let is_known = objects.has_same_bytes(&left, after)?
                || change
                    .before
                    .as_ref()
                    .map_or(Ok(false), |before| objects.has_same_bytes(&left, before))?;
            return Ok(if is_known { Forecast::Clean } else { conflict });
        }
        Ok(if here <= COMPARED_MAX { Forecast::TakesALook } else { conflict })
    }

    /// Whether the user has not touched a file or link since the task began.
    fn is_as_before(&self, before: &Entry, glance: &Glance, stat: &Stat) -> Result<bool, ApplyError> {
        if let Some(version) = promised_version(self.readers.0.objects(), before)? {
            return Ok(glance.is(&version.stamp));
        }
        let here = meta(stat, avfs_core::Xattrs::default());
        let is_same_kind = match before.kind {
            EntryKind::File { size, .. } => is_file_here(stat) && stat.st_size as u64 == size,
            EntryKind::Symlink { .. } => FileType::from_raw_mode(stat.st_mode) == FileType::Symlink,
            _ => false,
        };
        Ok(is_same_kind && here.mtime == before.meta.mtime)
    }
}

fn is_directory_here(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn is_file_here(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}
