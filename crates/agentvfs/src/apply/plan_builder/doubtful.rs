//! Which changes could be a conflict, judging by attributes only, so that a forecast reads almost nothing.

use std::collections::HashSet;

use avfs_core::diff::TreeChange;
use avfs_core::merge::PathMove;
use avfs_core::{Entry, EntryKind, TreePath};
use rustix::fs::{FileType, Stat};

use super::PlanBuilder;
use crate::apply::host::{Glance, TEXT_MAX};
use crate::apply::left::LeftFiles;
use crate::apply::three_way::promised_version;
use crate::error::ApplyError;
use crate::error::{Conflict, ConflictKind};
use avfs_transfer::host_file::meta;

/// Larger files are not read to find out whether they are in conflict: they may be.
const COMPARED_MAX: u64 = 256 << 20;

enum Forecast {
    Clean,
    Conflict(ConflictKind),
    TakesALook,
}

/// The changes that must be compared by contents. A large file is a conflict without that if its size or
/// a record of an earlier apply shows it, or if it would have to be read and is too large.
pub(super) fn doubtful(
    builder: &mut PlanBuilder,
    changes: Vec<TreeChange>,
) -> Result<Vec<TreeChange>, ApplyError> {
    let mut doubtful: HashSet<TreePath> = HashSet::new();
    // Directories that are replaced by another kind of entry: all of their contents are relevant.
    let mut replaced: Vec<TreePath> = Vec::new();
    for change in &changes {
        let is_file = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| !entry.is_directory());
        if change.before.as_ref().is_some_and(Entry::is_directory) && is_file(&change.after) {
            replaced.push(change.path.clone());
        }
        let glance = builder.plan.host.glance(&change.path)?;
        if !is_doubtful(builder, change, &glance)? {
            continue;
        }
        match forecast_of_large(builder, change, &glance)? {
            Forecast::Clean => {}
            Forecast::Conflict(kind) => {
                builder.plan.conflicts.push(Conflict {
                    path: change.path.clone(),
                    kind,
                });
            }
            Forecast::TakesALook => drop(doubtful.insert(change.path.clone())),
        }
    }
    if doubtful.is_empty() && replaced.is_empty() {
        return Ok(Vec::new());
    }
    for PathMove { from, to } in builder.moves(&changes)? {
        if doubtful.contains(&from) || doubtful.contains(&to) {
            doubtful.extend([from, to]);
        }
    }
    let is_needed = |change: &TreeChange| {
        doubtful.contains(&change.path) || replaced.iter().any(|top| change.path.starts_with(top))
    };
    Ok(changes.into_iter().filter(is_needed).collect())
}

fn is_doubtful(builder: &PlanBuilder, change: &TreeChange, glance: &Glance) -> Result<bool, ApplyError> {
    let is_directory = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
    if let (Some(before), Some(after)) = (&change.before, &change.after)
        && builder.readers.0.objects().has_same_bytes(before, after)?
    {
        return Ok(false);
    }
    let there = match glance {
        Glance::NoWay => return Ok(change.after.is_some()),
        Glance::Nothing => None,
        Glance::There(stat) => Some(&**stat),
    };
    Ok(match (&change.before, &change.after, there) {
        // A new entry has nothing in its way, and both removed it.
        (None, _, None) | (_, None, None) => false,
        (Some(_), Some(_), None) => !is_directory(&change.after),
        (_, _, Some(stat)) if is_directory(&change.after) && is_directory_here(stat) => false,
        (Some(before), None, Some(_)) if before.is_directory() => false,
        // Whether the task knew the version that replaced its original needs a comparison.
        (Some(_), _, Some(_)) if builder.moved.contains(&change.path) => true,
        (Some(before), _, Some(stat)) => !is_as_before(builder, before, glance, stat)?,
        (None, _, Some(_)) => true,
    })
}

/// A file that is too large to be merged is in conflict if the directory has neither the task's original
/// nor its current version.
fn forecast_of_large(
    builder: &PlanBuilder,
    change: &TreeChange,
    glance: &Glance,
) -> Result<Forecast, ApplyError> {
    let (Glance::There(stat), Some(after)) = (glance, &change.after) else {
        return Ok(Forecast::TakesALook);
    };
    let EntryKind::File { size, .. } = after.kind else {
        return Ok(Forecast::TakesALook);
    };
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
    let application = &builder.plan.application;
    let left = builder
        .left
        .get_or_init(|| LeftFiles::of(&application.store, builder.plan.host.path()));
    if let Some(left) = left.find(&application.store, &change.path, stat) {
        let objects = builder.readers.0.objects();
        let is_known = objects.has_same_bytes(&left, after)?
            || change
                .before
                .as_ref()
                .map_or(Ok(false), |before| objects.has_same_bytes(&left, before))?;
        return Ok(if is_known { Forecast::Clean } else { conflict });
    }
    Ok(if here <= COMPARED_MAX {
        Forecast::TakesALook
    } else {
        conflict
    })
}

/// Whether the user has not touched a file or link since the task began.
fn is_as_before(
    builder: &PlanBuilder,
    before: &Entry,
    glance: &Glance,
    stat: &Stat,
) -> Result<bool, ApplyError> {
    if let Some(version) = promised_version(builder.readers.0.objects(), before)? {
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

fn is_directory_here(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn is_file_here(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}
