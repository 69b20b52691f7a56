//! Going back: a whole vault, single paths, or the last thing that was done.

use avfs_core::diff::{TreeChange, diff_trees, diff_trees_folded};
use avfs_core::{NodeId, Root, SnapshotId, TreePath};
use avfs_tree::{BaseTree, ObjectError, Objects, ReadError, SetAttr, VisibleChange, WorkTree};

use crate::error::{Error, HistoryError, Result};
use crate::history::HistoryEntry;
use crate::history::VaultHistory;
use crate::logged_action::{LoggedAction, TreeUpdate};
pub(crate) use crate::open::{Comeback, Times};
use crate::open::{OpenVault, Saved};
use crate::record::Head;
use crate::revision::Revision;
use crate::vault_limits::check_growth;
use avfs_query::patch::file_changes;

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The new snapshot; `None` if everything was like that already.
    pub saved: Option<Saved>,
    /// The number of changed paths.
    pub changed: u64,
    /// The number of changed files, as a diff counts them.
    pub files: u64,
}

impl VaultHistory<'_> {
    /// Makes a state the present one. The present state stays in the history, so this can be undone.
    pub fn restore(&self, to: &Revision, detail: &str) -> Result<Restored> {
        self.vault.check_unrestricted("restoring all of it")?;
        let logged = self.vault.logged("restore", detail, None);
        self.vault.attempt(|open| {
            // The state that comes back may be needed by nothing else any longer.
            let _holding = open.hold_objects()?;
            self.restore_state(open, &to.kept_state()?, &logged)
        })
    }

    /// Restores a state whose objects are pinned.
    fn restore_state(&self, open: &OpenVault, to: &Head, logged: &LoggedAction<'_>) -> Result<Restored> {
        let present = open.record().head;
        let logged = &LoggedAction {
            task_base: self.task_base_of(to.snapshot)?,
            ..*logged
        };
        let (before, target) = (self.vault.base_of(&present)?, self.vault.base_of(to)?);
        let changed = self.changed_paths(&before.root, &target.root)?;
        if changed.is_empty() && logged.undoes.is_none() && present.conflicts == to.conflicts {
            return Ok(Restored {
                saved: None,
                changed: 0,
                files: 0,
            });
        }
        let (count, files) = (changed.len() as u64, self.count_files(&changed)?);
        // Before anything is stored: going back to a larger state must respect the quota.
        check_growth(&before.root.totals, &target.root.totals, open.limits())?;
        let root = target.root.clone();
        let inodes = self.touch(target, &changed)?;
        let snapshot = self
            .vault
            .store()
            .put_snapshot(root, vec![present.snapshot, to.snapshot], logged)?;
        let head = Head {
            snapshot,
            inodes,
            journal: present.journal,
            conflicts: to.conflicts,
        };
        let saved = open.advance(head, logged, TreeUpdate::Whole)?;
        Ok(Restored {
            saved: Some(saved),
            changed: count,
            files,
        })
    }

    /// The base with which a state of a task is compared. After a `sync` it is a different one: the user's
    /// changes came in with the sync, and without it, it would look as if the task had removed them.
    fn task_base_of(&self, snapshot: SnapshotId) -> Result<Option<SnapshotId>> {
        if self.vault.record()?.0.task.is_none() {
            return Ok(None);
        }
        let mut found = None;
        self.for_each_entry(|entry| {
            found = entry.task_base.filter(|_| entry.snapshot == snapshot);
            Ok(found.is_none())
        })?;
        if found.is_none() {
            let named = self
                .checkpoints()?
                .into_iter()
                .find(|point| point.snapshot == snapshot);
            found = named.and_then(|point| point.task_base);
        }
        Ok(found)
    }

    pub(crate) fn changed_paths(&self, before: &Root, after: &Root) -> Result<Vec<TreeChange>> {
        let objects = self.vault.store().objects();
        collect_changed(objects, |mut found| {
            diff_trees(objects, before, after, &mut found)
        })
    }

    fn count_files(&self, changed: &[TreeChange]) -> Result<u64> {
        let objects = self.vault.store().objects();
        let seen = changed
            .iter()
            .map(|change| VisibleChange::whole(objects, change.clone()));
        Ok(file_changes(seen.collect::<Result<Vec<_>, _>>()?).len() as u64)
    }

    /// The same for callers that only report the paths, with the paths of [`diff_trees_folded`].
    pub(crate) fn changed_paths_folded(&self, before: &Root, after: &Root) -> Result<Vec<TreeChange>> {
        let objects = self.vault.store().objects();
        collect_changed(objects, |mut found| {
            diff_trees_folded(objects, before, after, &mut found)
        })
    }

    /// The inode table of a state in which the changed paths have the present time as change time: that is
    /// how tools see that a file is not the one they knew.
    pub(crate) fn touch(&self, base: BaseTree, changed: &[TreeChange]) -> Result<Option<NodeId>> {
        let tree = WorkTree::in_memory(
            self.vault.store().objects().clone(),
            base,
            self.vault.store().clock(),
        )?;
        for change in changed.iter().filter(|change| change.after.is_some()) {
            let attr = tree.resolve(&change.path)?;
            tree.set_attr(
                attr.ino,
                SetAttr {
                    mode: Some(attr.meta.mode),
                    ..SetAttr::default()
                },
            )?;
        }
        Ok(tree.freeze()?.base().inodes)
    }

    /// Brings single paths back from a state, with everything below them. Files that change get the present
    /// time as modification time too, or build tools would not see them.
    pub fn restore_paths(
        &self,
        from: &Revision,
        paths: &[TreePath],
        action: &str,
        detail: &str,
    ) -> Result<Restored> {
        self.vault.attempt(|open| {
            let _holding = open.hold_objects()?;
            from.kept_state()?;
            let present = self.vault.reader_at(open.record().head.snapshot)?;
            let source = self.vault.seen(from.vault.reader_at(from.snapshot)?);
            for path in paths {
                if self.find_at(from.snapshot, path)?.is_none() && !open.exists(path)? {
                    return Err(self.read_error(ReadError::NotFound { path: path.clone() }));
                }
            }
            let changed = Comeback::new(open, present, source, paths, Times::Now)?.run()?;
            let (count, files) = (changed.len() as u64, self.count_files(&changed)?);
            let saved = open.save_as(action, detail, TreeUpdate::Renewed)?;
            Ok(Restored {
                saved,
                changed: count,
                files,
            })
        })
    }

    /// Undoes the last action that has not been undone yet.
    pub fn undo(&self) -> Result<(HistoryEntry, Restored)> {
        self.vault.check_unrestricted("undoing what was done to it")?;
        self.vault.attempt(|open| {
            // The last action is only known while no other process performs one.
            let _holding = open.hold_objects()?;
            let undone = self.next_to_undo()?;
            let before = self.state_before(&undone)?;
            let detail = format!("{} ({})", undone.seq, undone.action);
            let logged = LoggedAction {
                since: undone.since,
                ..self.vault.logged("undo", &detail, Some(undone.seq))
            };
            let restored = self.restore_state(open, &before, &logged)?;
            Ok((undone, restored))
        })
    }

    /// Repeats the action that the last undo reverted. Fails if another action was performed since.
    pub fn redo(&self) -> Result<(HistoryEntry, Restored)> {
        self.vault.check_unrestricted("redoing what was done to it")?;
        self.vault.attempt(|open| {
            let _holding = open.hold_objects()?;
            let undo = self
                .last_undo()?
                .ok_or(Error::History(HistoryError::NothingToRedo {
                    vault: self.vault.name()?.to_string(),
                }))?;
            // The undone action may have had several steps; the undo itself had one.
            let before = self.state_before(&HistoryEntry {
                since: None,
                ..undo.clone()
            })?;
            let undone = undo.action.split_once(' ').map_or("", |(_, undone)| undone);
            let logged = self.vault.logged(HistoryEntry::REDO, undone, Some(undo.seq));
            let restored = self.restore_state(open, &before, &logged)?;
            Ok((undo, restored))
        })
    }

    /// The entry that the next undo reverts, if there is one.
    pub fn next_undo(&self) -> Result<Option<HistoryEntry>> {
        match self.next_to_undo() {
            Err(Error::History(HistoryError::NothingToUndo { .. })) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The undo that the next redo turns around: nothing but undos and redos came after it.
    pub fn last_undo(&self) -> Result<Option<HistoryEntry>> {
        // An undo that a redo has reverted, and everything in between, cancels out.
        let mut limit = u64::MAX;
        let mut last = None;
        self.for_each_entry(|entry| {
            match entry.undoes {
                _ if entry.seq >= limit => return Ok(true),
                Some(undo) if entry.is_redo() => limit = undo,
                Some(_) => last = Some(entry),
                None => return Ok(false),
            }
            Ok(last.is_none())
        })?;
        Ok(last)
    }

    /// The entry that the next undo reverts.
    fn next_to_undo(&self) -> Result<HistoryEntry> {
        // Undoing continues before the entry that the last undo reverted.
        let mut limit = u64::MAX;
        let mut undone = None;
        self.for_each_entry(|entry| {
            if entry.seq < limit {
                match entry.undoes {
                    // Earlier entries that belong to the reverted one are skipped with it.
                    Some(seq) => limit = entry.since.map_or(seq, |since| seq.min(since + 1)),
                    None => undone = Some(entry),
                }
            }
            Ok(undone.is_none())
        })?;
        // The first entry of a history made the vault.
        undone
            .filter(|entry| entry.seq > 1)
            .ok_or(Error::History(HistoryError::NothingToUndo {
                vault: self.vault.name()?.to_string(),
            }))
    }

    /// The state right before an entry. The entry that is the next older one may have been made long before,
    /// if the history was thinned.
    fn state_before(&self, entry: &HistoryEntry) -> Result<Head> {
        let first = entry.since.map_or(entry.seq, |since| since + 1);
        let older = self.entries(Some(first), 1)?.pop();
        if let Some(older) = older.filter(|older| older.seq + 1 == first) {
            return Ok(older.state());
        }
        // For an action with several steps, the parent is only the last of them.
        let parent = match entry.since {
            Some(_) => None,
            None => self.vault.snapshot(entry.snapshot)?.parents.first().copied(),
        };
        let kept = parent
            .map(|parent| self.vault.revisions().kept_anywhere(parent))
            .transpose()?
            .flatten();
        let vault = self.vault.name()?.to_string();
        kept.ok_or_else(|| {
            Error::History(HistoryError::Thinned {
                vault,
                seq: entry.seq,
                action: entry.action.clone(),
            })
        })
    }
}

/// What a comparison reports, without entries that are the same in other words.
fn collect_changed(
    objects: &Objects,
    compare: impl FnOnce(&mut dyn FnMut(TreeChange) -> Result<(), ObjectError>) -> Result<(), ObjectError>,
) -> Result<Vec<TreeChange>> {
    let mut changes = Vec::new();
    compare(&mut |change| {
        if !is_same(objects, &change)? {
            changes.push(change);
        }
        Ok(())
    })?;
    Ok(changes)
}

/// Whether both sides of a change are the same file.
fn is_same(objects: &Objects, change: &TreeChange) -> Result<bool, ObjectError> {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if !before.is_directory() => objects.is_same(before, after),
        _ => Ok(false),
    }
}
