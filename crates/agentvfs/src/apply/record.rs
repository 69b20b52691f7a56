//! What was applied, as it is kept in refs.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use avfs_core::{SnapshotId, Timestamp, TreePath};
use avfs_store::{RefEdit, RefRange};
use serde::{Deserialize, Serialize};

use super::error::ApplyError;
use super::step::{optional_tree_path, tree_path};
use crate::approvals::raw::Raw;
use crate::error::Result;
use crate::record::{self, snapshot_id, time};
use crate::store::Store;
use crate::task::Task;

/// Names an apply of a store: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApplyId(pub u64);

impl ApplyId {
    pub fn parse(text: &str) -> Result<ApplyId> {
        let unknown = || ApplyError::Unknown { id: avfs_core::printable(text.as_bytes()) };
        Ok(text.parse().map(ApplyId).map_err(|_| unknown())?)
    }
}

impl fmt::Display for ApplyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One apply, or the taking back of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyRecord {
    pub id: ApplyId,
    /// Whose changes these are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The state that was applied.
    #[serde(with = "snapshot_id")]
    pub snapshot: SnapshotId,
    /// Only a part of its changes, or with conflicts that were left.
    #[serde(default)]
    pub partial: bool,
    pub(crate) into: Raw,
    #[serde(with = "time")]
    pub time: Timestamp,
    pub actor: String,
    pub files: Vec<AppliedFile>,
    /// It takes this one back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<ApplyId>,
    /// It does this one again, which was taken back by the one that it takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redoes: Option<ApplyId>,
    /// It was taken back by this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<ApplyId>,
    /// Its task was thrown away: what was taken back is not done again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) discarded: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl ApplyRecord {
    /// The directory that was changed.
    pub fn directory(&self) -> PathBuf {
        self.into.to_os().into()
    }

    /// Whether it takes something back, and does nothing again.
    pub fn is_undo(&self) -> bool {
        self.undoes.is_some() && self.redoes.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedFile {
    #[serde(with = "tree_path")]
    pub path: TreePath,
    pub deed: Deed,
    /// Where it was before it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_tree_path")]
    pub from: Option<TreePath>,
}

/// What is done with one path of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    Added,
    Replaced,
    /// What both sides changed, put together.
    Merged,
    /// Both sides, with markers between them.
    Marked,
    Removed,
    /// It has another name, and is the same file.
    Renamed,
    Mode,
    DirectoryAdded,
    DirectoryRemoved,
}

impl Deed {
    pub fn as_str(self) -> &'static str {
        match self {
            Deed::Added => "added",
            Deed::Replaced => "replaced",
            Deed::Merged => "merged",
            Deed::Marked => "marked",
            Deed::Removed => "removed",
            Deed::Renamed => "renamed",
            Deed::Mode => "mode",
            Deed::DirectoryAdded => "directory-added",
            Deed::DirectoryRemoved => "directory-removed",
        }
    }
}

const APPLIES: &str = "apply/";
/// How many of the newest applies are looked at, where not those are looked for that can be undone.
const LOOKED_AT: usize = 200;
const COUNTER: &str = "counter/apply";

fn apply_key(id: ApplyId) -> String {
    format!("{APPLIES}{:010}", id.0)
}

impl Store {
    /// Everything that was applied, oldest first.
    pub fn applies(&self) -> Result<Vec<ApplyRecord>> {
        let found = self.refs().scan(&RefRange::prefix(APPLIES))?;
        found.iter().map(|(key, bytes)| record::decode(key, bytes)).collect()
    }

    pub fn apply_record(&self, id: ApplyId) -> Result<ApplyRecord> {
        Ok(self.find_apply_record(id)?.ok_or_else(|| ApplyError::Unknown { id: id.to_string() })?)
    }

    /// `None`: it was not finished, or never begun.
    pub(super) fn find_apply_record(&self, id: ApplyId) -> Result<Option<ApplyRecord>> {
        Ok(record::read::<ApplyRecord>(self.refs(), &apply_key(id))?.map(|(record, _)| record))
    }

    /// The newest apply to a directory that `is_here` that could be taken back: it is in force, and takes nothing back.
    pub fn last_apply(&self, is_here: impl Fn(&Path) -> bool) -> Result<Option<ApplyRecord>> {
        for record in self.undoable_applies(is_here)? {
            let record = record?;
            if record.undone.is_none() && !record.is_undo() {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The undo of an apply that could be turned around: nothing else was applied to its directory since.
    pub fn last_undone_apply(&self, is_here: impl Fn(&Path) -> bool) -> Result<Option<ApplyRecord>> {
        for record in self.undoable_applies(is_here)? {
            let record = record?;
            match record.undoes {
                None => return Ok(None),
                Some(_) if record.is_undo() && record.undone.is_none() && !record.discarded => {
                    return Ok(Some(record));
                }
                Some(_) => {}
            }
        }
        Ok(None)
    }

    /// Has what was taken back of a task that is thrown away not be done again.
    pub(crate) fn forget_undone_applies(&self, task: &str) -> Result<()> {
        self.retry(|edits| {
            let found = self.refs().scan(&RefRange::prefix(APPLIES).reversed().limit(LOOKED_AT))?;
            for (key, bytes) in found {
                let mut record: ApplyRecord = record::decode(&key, &bytes)?;
                if record.task.as_deref() == Some(task) && record.is_undo() && record.undone.is_none() {
                    record.discarded = true;
                    edits.push(RefEdit::replace(key, bytes, record::encode(&record)));
                }
            }
            Ok(())
        })
    }

    /// When something was applied last, or taken back, in a directory that `is_here`.
    pub fn last_apply_time(&self, is_here: impl Fn(&Path) -> bool) -> Result<Option<Timestamp>> {
        let newest = self.newest_applies()?;
        Ok(newest.iter().find(|record| is_here(&record.directory())).map(|record| record.time))
    }

    /// Newest first, whatever directory they were to.
    fn newest_applies(&self) -> Result<Vec<ApplyRecord>> {
        let found = self.refs().scan(&RefRange::prefix(APPLIES).reversed().limit(LOOKED_AT))?;
        found.iter().map(|(key, bytes)| record::decode(key, bytes)).collect()
    }

    /// The number that users know an apply by, whatever was undone and redone since: that of the first time.
    pub fn first_apply(&self, record: &ApplyRecord) -> Result<ApplyId> {
        let mut record = record.clone();
        while let Some(undone) = record.undoes.filter(|_| record.is_undo()) {
            record = self.apply_record(undone)?;
        }
        Ok(record.redoes.unwrap_or(record.id))
    }

    /// The record that an apply is in force by: itself, or the one that did it again last.
    pub fn apply_in_force(&self, id: ApplyId) -> Result<ApplyRecord> {
        let mut record = self.apply_record(id)?;
        while let Some(undo) = record.undone {
            match self.apply_record(undo)?.undone {
                Some(again) => record = self.apply_record(again)?,
                None => break,
            }
        }
        Ok(record)
    }

    pub(super) fn next_apply_id(&self) -> Result<ApplyId> {
        self.retry(|edits| {
            let old: Option<(u64, Vec<u8>)> = record::read(self.refs(), COUNTER)?;
            let (last, expect) = old.map_or((0, None), |(last, bytes)| (last, Some(bytes)));
            let value = Some(record::encode(&(last + 1)));
            edits.push(RefEdit { key: COUNTER.into(), expect, value });
            Ok(ApplyId(last + 1))
        })
    }

    /// Keeps the record of an apply that is done, with its audit entry; if it is kept already, nothing happens.
    pub(super) fn keep_apply_record(&self, done: &ApplyRecord) -> Result<()> {
        let number = self.first_apply(done).unwrap_or(done.id);
        self.tell_task(done, number)?;
        self.retry(|edits| {
            if self.refs().read(&apply_key(done.id))?.is_some() {
                return Ok(());
            }
            edits.push(RefEdit::create(apply_key(done.id), record::encode(done)));
            if let Some(undone) = done.undoes {
                let old = record::read::<ApplyRecord>(self.refs(), &apply_key(undone))?;
                if let Some((mut old, bytes)) = old {
                    old.undone = Some(done.id);
                    edits.push(RefEdit::replace(apply_key(undone), bytes, record::encode(&old)));
                }
            }
            let action = match done.undoes {
                None => "apply",
                Some(_) if done.is_undo() => "undo-apply",
                Some(_) => "redo-apply",
            };
            let place = avfs_core::printable(done.into.as_bytes());
            let detail = format!("{number}: {} paths in {place}", done.files.len());
            self.log(edits, action, done.task.as_deref().unwrap_or_default(), detail)
        })
    }

    /// A task whose work was in the directory already, without an apply of its own, is not applied any more when that is
    /// taken back by which it came.
    fn tell_others(&self, undo: &ApplyRecord, number: ApplyId) -> Result<()> {
        let directory = undo.directory();
        let is_own = |task: &Task| undo.task.as_deref() == Some(task.vault_name().as_str());
        let mut others = self.tasks()?;
        others.retain(|task| task.root() == directory && task.applied().is_some() && !is_own(task));
        if others.is_empty() {
            return Ok(());
        }
        let newest = self.newest_applies()?;
        for task in others {
            let name = task.vault_name().as_str();
            let in_force = |record: &ApplyRecord| record.undone.is_none() && !record.is_undo();
            let is_of_task = |record: &ApplyRecord| record.task.as_deref() == Some(name);
            if newest.iter().any(|record| is_of_task(record) && in_force(record)) {
                continue;
            }
            let changed: HashSet<TreePath> =
                task.changes()?.files.iter().map(|file| file.path().clone()).collect();
            if undo.files.iter().any(|file| changed.contains(&file.path)) {
                task.note_applied(None, &number.to_string())?;
            }
        }
        Ok(())
    }

    /// A task knows whether everything in it was applied. One that is gone needs not to.
    fn tell_task(&self, done: &ApplyRecord, number: ApplyId) -> Result<()> {
        if done.is_undo() {
            self.tell_others(done, number)?;
        }
        let Some(Ok(task)) = done.task.as_deref().map(|name| self.task(name)) else { return Ok(()) };
        match done.undoes {
            Some(_) if done.is_undo() => match task.applied() {
                Some(_) => task.note_applied(None, &number.to_string()),
                None => Ok(()),
            },
            _ if !done.partial && task.applied() != Some(done.snapshot) => {
                task.note_applied(Some(done.snapshot), &number.to_string())
            }
            _ => Ok(()),
        }
    }
}
