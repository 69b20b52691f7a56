//! Records of applies, as refs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use avfs_core::{SnapshotId, Timestamp, TreePath};
use avfs_store::{RefEdit, RefRange};
use serde::{Deserialize, Serialize};

use super::keeping::KeptApply;
use super::step::{optional_tree_path, tree_path};
use crate::error::{ApplyError, ApplyId, Result};
use crate::project::Relocation;
use crate::record::{self, snapshot_id, time};
use crate::store::Store;
use crate::stored_bytes::StoredBytes;
use crate::task::Task;

/// One apply, or the undo of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyRecord {
    /// Its number.
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
    pub(crate) into: StoredBytes,
    /// When it was done.
    #[serde(with = "time")]
    pub time: Timestamp,
    /// Who did it.
    pub actor: String,
    /// What was done, by path.
    pub files: Vec<AppliedFile>,
    /// The apply that this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<ApplyId>,
    /// The apply that this one redoes; it was undone by the one that this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redoes: Option<ApplyId>,
    /// The apply that undid this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<ApplyId>,
    /// The part of the task that the directory has since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) brought: Option<BroughtPaths>,
    /// Its task was discarded: an undone apply cannot be redone.
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

    /// Whether it undoes something, and redoes nothing.
    pub fn is_undo(&self) -> bool {
        self.undoes.is_some() && self.redoes.is_none()
    }
}

/// The paths that an apply brought as the task had them, whether or not anything had to be done for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BroughtPaths {
    /// The stored state with which the task was compared.
    #[serde(with = "snapshot_id")]
    pub base: SnapshotId,
    pub paths: Vec<BroughtPath>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct BroughtPath(#[serde(with = "tree_path")] pub TreePath);

/// What an apply did with one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedFile {
    /// The path in the directory.
    #[serde(with = "tree_path")]
    pub path: TreePath,
    /// What was done.
    pub action: AppliedAction,
    /// Where it was before it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_tree_path")]
    pub from: Option<TreePath>,
}

/// The action for one path of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppliedAction {
    /// It is new.
    Added,
    /// It has other contents.
    Replaced,
    /// The changes of both sides, merged.
    Merged,
    /// Both sides, with markers between them.
    Marked,
    /// It is gone.
    Removed,
    /// It has another name, and is the same file.
    Renamed,
    /// It has other permissions.
    Mode,
    /// The directory is new.
    DirectoryAdded,
    /// The directory is gone.
    DirectoryRemoved,
}

impl AppliedAction {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            AppliedAction::Added => "added",
            AppliedAction::Replaced => "replaced",
            AppliedAction::Merged => "merged",
            AppliedAction::Marked => "marked",
            AppliedAction::Removed => "removed",
            AppliedAction::Renamed => "renamed",
            AppliedAction::Mode => "mode",
            AppliedAction::DirectoryAdded => "directory-added",
            AppliedAction::DirectoryRemoved => "directory-removed",
        }
    }
}

const APPLIES: &str = "apply/";
/// How many of the newest applies are examined, except in a search for those that can be undone.
const LOOKED_AT: usize = 200;
const COUNTER: &str = "counter/apply";

fn apply_key(id: ApplyId) -> String {
    format!("{APPLIES}{:010}", id.0)
}

/// The applies of tasks to directories: what they did, and undoing it.
#[derive(Clone, Copy)]
pub struct Applies<'a> {
    pub(crate) store: &'a Store,
}

impl Applies<'_> {
    /// Everything that was applied, oldest first.
    pub fn list(&self) -> Result<Vec<ApplyRecord>> {
        let found = self.store.refs().scan(&RefRange::prefix(APPLIES))?;
        found
            .iter()
            .map(|(key, bytes)| record::decode(key, bytes))
            .collect()
    }

    /// The record of an apply.
    pub fn get(&self, id: ApplyId) -> Result<ApplyRecord> {
        Ok(self
            .find(id)?
            .ok_or_else(|| ApplyError::Unknown { id: id.to_string() })?)
    }

    /// `None`: it was not finished, or never begun.
    pub(super) fn find(&self, id: ApplyId) -> Result<Option<ApplyRecord>> {
        Ok(record::read::<ApplyRecord>(self.store.refs(), &apply_key(id))?.map(|(record, _)| record))
    }

    /// The newest apply to a directory that `is_here` that could be undone: it is in effect, and is not an
    /// undo.
    pub fn last(&self, is_here: impl Fn(&Path) -> bool) -> Result<Option<ApplyRecord>> {
        for record in self.undoable(is_here)? {
            let record = record?;
            if record.undone.is_none() && !record.is_undo() {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The undo of an apply that could be turned around: nothing else was applied to its directory since.
    pub fn last_undone(&self, is_here: impl Fn(&Path) -> bool) -> Result<Option<ApplyRecord>> {
        for record in self.undoable(is_here)? {
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

    /// Makes undone applies of a discarded task impossible to redo: the data that was kept for that is
    /// removed.
    pub(crate) fn forget_undone(&self, task: &str) -> Result<()> {
        let lost = self.store.retry(|edits| {
            let mut lost = Vec::new();
            let found = self
                .store
                .refs()
                .scan(&RefRange::prefix(APPLIES).reversed().limit(LOOKED_AT))?;
            for (key, bytes) in found {
                let mut record: ApplyRecord = record::decode(&key, &bytes)?;
                if record.task.as_deref() == Some(task) && record.is_undo() && record.undone.is_none() {
                    record.discarded = true;
                    lost.push(record.id);
                    edits.push(RefEdit::replace(key, bytes, record::encode(&record)));
                }
            }
            Ok(lost)
        })?;
        if !lost.is_empty() {
            // If it cannot be removed now, a garbage collection removes it.
            let _ = self.forget(&lost);
        }
        Ok(())
    }

    /// Removes the data of undone applies whose tasks were discarded since.
    pub(crate) fn drop_lost(&self) -> Result<()> {
        let kept = self.all_kept()?.into_iter();
        let lost: Vec<ApplyId> = kept.filter(KeptApply::is_lost).map(|apply| apply.id).collect();
        if lost.is_empty() {
            Ok(())
        } else {
            self.forget(&lost)
        }
    }

    /// Has the applies to a directory that was moved be applies to its new place.
    pub(crate) fn move_applies(&self, edits: &mut Vec<RefEdit>, relocation: &Relocation) -> Result<()> {
        for (key, bytes) in self.store.refs().scan(&RefRange::prefix(APPLIES))? {
            let mut record: ApplyRecord = record::decode(&key, &bytes)?;
            if let Some(place) = relocation.new_place(&record.directory()) {
                record.into = StoredBytes::from(place.as_os_str());
                edits.push(RefEdit::replace(key, bytes, record::encode(&record)));
            }
        }
        Ok(())
    }

    /// The time of the last apply or undo in a directory that `is_here`.
    pub fn last_time(&self, is_here: impl Fn(&Path) -> bool) -> Result<Option<Timestamp>> {
        let newest = self.newest_applies()?;
        Ok(newest
            .iter()
            .find(|record| is_here(&record.directory()))
            .map(|record| record.time))
    }

    /// Newest first, whatever directory they were to.
    fn newest_applies(&self) -> Result<Vec<ApplyRecord>> {
        let found = self
            .store
            .refs()
            .scan(&RefRange::prefix(APPLIES).reversed().limit(LOOKED_AT))?;
        found
            .iter()
            .map(|(key, bytes)| record::decode(key, bytes))
            .collect()
    }

    /// The number that users know an apply by, whatever was undone and redone since: that of the first time.
    pub fn first(&self, record: &ApplyRecord) -> Result<ApplyId> {
        let mut record = record.clone();
        while let Some(undone) = record.undoes.filter(|_| record.is_undo()) {
            record = self.get(undone)?;
        }
        Ok(record.redoes.unwrap_or(record.id))
    }

    /// The record that an apply is in force by: itself, or the one that did it again last.
    pub fn in_force(&self, id: ApplyId) -> Result<ApplyRecord> {
        let mut record = self.get(id)?;
        while let Some(undo) = record.undone {
            match self.get(undo)?.undone {
                Some(again) => record = self.get(again)?,
                None => break,
            }
        }
        Ok(record)
    }

    pub(super) fn next_apply_id(&self) -> Result<ApplyId> {
        self.store.retry(|edits| {
            let old: Option<(u64, Vec<u8>)> = record::read(self.store.refs(), COUNTER)?;
            let (last, expect) = old.map_or((0, None), |(last, bytes)| (last, Some(bytes)));
            let value = Some(record::encode(&(last + 1)));
            edits.push(RefEdit {
                key: COUNTER.into(),
                expect,
                value,
            });
            Ok(ApplyId(last + 1))
        })
    }

    /// Keeps the record of an apply that is done, with its audit entry; if it is kept already, nothing happens.
    pub(super) fn keep_apply_record(&self, done: &ApplyRecord) -> Result<()> {
        let number = self.first(done).unwrap_or(done.id);
        self.store.retry(|edits| {
            if self.store.refs().read(&apply_key(done.id))?.is_some() {
                return Ok(());
            }
            edits.push(RefEdit::create(apply_key(done.id), record::encode(done)));
            if let Some(undone) = done.undoes {
                let old = record::read::<ApplyRecord>(self.store.refs(), &apply_key(undone))?;
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
            self.store
                .log(edits, action, done.task.as_deref().unwrap_or_default(), detail)
        })?;
        // Afterwards: an apply without a record is rolled back, and then the task was not applied.
        self.tell_task(done, number)
    }

    /// A task whose work was already in the directory, without an apply of its own, is no longer applied when
    /// the apply that brought the work is undone.
    fn tell_others(&self, undo: &ApplyRecord, number: ApplyId) -> Result<()> {
        let directory = undo.directory();
        let is_own = |task: &Task| undo.task.as_deref() == Some(task.vault_name().as_str());
        let mut others = self.store.tasks().list()?;
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
            let changed: HashSet<TreePath> = task
                .changes()?
                .files
                .iter()
                .map(|file| file.path().clone())
                .collect();
            if undo.files.iter().any(|file| changed.contains(&file.path)) {
                task.note_applied(None, &number.to_string())?;
            }
        }
        Ok(())
    }

    /// Records in a task whether everything in it was applied. A task that is gone does not need that.
    fn tell_task(&self, done: &ApplyRecord, number: ApplyId) -> Result<()> {
        if done.is_undo() {
            self.tell_others(done, number)?;
        }
        let Some(Ok(task)) = done.task.as_deref().map(|name| self.store.task(name)) else {
            return Ok(());
        };
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
