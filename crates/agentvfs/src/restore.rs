//! Going back: a whole vault, single paths, or the last thing that was done.

mod names;
mod paths;

use avfs_core::diff::{Change, diff_trees};
use avfs_core::{NodeId, Root, SnapshotId, Totals, TreePath};
use avfs_tree::{Base, Limits, ReadError, SetAttr, WorkTree};

use crate::birth::check_limits;
use crate::deed::{Deed, Landing};
use crate::error::{Error, Result};
use crate::history::HistoryEntry;
use crate::open::{OpenVault, Saved};
use crate::record::Head;
use crate::revision::Revision;
use crate::vault::Vault;
pub(crate) use names::Names;
pub(crate) use paths::{Comeback, Times, set_meta};

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The new snapshot; `None` if everything was like that already.
    pub saved: Option<Saved>,
    /// How many paths changed.
    pub changed: u64,
}

impl Vault {
    /// Makes a state the present one. The present state stays in the history, so this can be undone.
    pub fn restore(&self, to: &Revision, detail: &str) -> Result<Restored> {
        self.check_unrestricted("restoring all of it")?;
        let deed = self.deed("restore", detail, None);
        self.attempt(|open| {
            let _holding = open.hold_objects()?;
            self.restore_state(open, &to.kept_state()?, &deed)
        })
    }

    /// Goes to a state whose objects are held.
    fn restore_state(&self, open: &OpenVault, to: &Head, deed: &Deed<'_>) -> Result<Restored> {
        let present = open.record().head;
        let deed = &Deed { task_base: self.task_base_of(to.snapshot)?, ..*deed };
        let (before, target) = (self.base_of(&present)?, self.base_of(to)?);
        let changed = self.changed_paths(&before.root, &target.root)?;
        if changed.is_empty() && deed.undoes.is_none() && present.conflicts == to.conflicts {
            return Ok(Restored { saved: None, changed: 0 });
        }
        let count = changed.len() as u64;
        check_growth(&before.root.totals, &target.root.totals, open.limits())?;
        let root = target.root.clone();
        let inodes = self.touch(target, &changed)?;
        let snapshot = self.store().put_snapshot(root, vec![present.snapshot, to.snapshot], deed)?;
        let head = Head { snapshot, inodes, journal: present.journal, conflicts: to.conflicts };
        let saved = open.advance(head, deed, Landing::Whole)?;
        Ok(Restored { saved: Some(saved), changed: count })
    }

    /// What a state of a task is compared with. Behind a `sync` it is another one: what the user did came in with it, and
    /// without it, it would look as if the task had removed that.
    fn task_base_of(&self, snapshot: SnapshotId) -> Result<Option<SnapshotId>> {
        if self.record()?.0.task.is_none() {
            return Ok(None);
        }
        let mut found = None;
        self.for_each_entry(|entry| {
            found = entry.task_base.filter(|_| entry.snapshot == snapshot);
            Ok(found.is_none())
        })?;
        if found.is_none() {
            let named = self.checkpoints()?.into_iter().find(|point| point.snapshot == snapshot);
            found = named.and_then(|point| point.task_base);
        }
        Ok(found)
    }

    pub(crate) fn changed_paths(&self, before: &Root, after: &Root) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        let objects = self.store().objects();
        diff_trees(objects, before, after, &mut |change: Change| {
            let is_same = match (&change.before, &change.after) {
                (Some(before), Some(after)) if !before.is_directory() => objects.is_same(before, after)?,
                _ => false,
            };
            if !is_same {
                changes.push(change);
            }
            Ok(())
        })?;
        Ok(changes)
    }

    /// The inode table of a state in which the changed paths have the present time as change time: that is
    /// how tools see that a file is not the one they knew.
    pub(crate) fn touch(&self, base: Base, changed: &[Change]) -> Result<Option<NodeId>> {
        let tree = WorkTree::in_memory(self.store().objects().clone(), base, self.store().clock())?;
        for change in changed.iter().filter(|change| change.after.is_some()) {
            let attr = tree.resolve(&change.path)?;
            tree.set_attr(attr.ino, SetAttr { mode: Some(attr.meta.mode), ..SetAttr::default() })?;
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
        self.attempt(|open| {
            let _holding = open.hold_objects()?;
            from.kept_state()?;
            let present = self.reader_at(open.record().head.snapshot)?;
            let source = self.seen(from.vault.reader_at(from.snapshot)?);
            for path in paths {
                if self.find_at(from.snapshot, path)?.is_none() && !open.exists(path)? {
                    return Err(self.read_error(ReadError::NotFound { path: path.clone() }));
                }
            }
            let changed = Comeback::new(open, present, source, paths, Times::Now)?.run()?;
            Ok(Restored { saved: open.save_as(action, detail, Landing::Renewed)?, changed })
        })
    }

    /// Takes back the last thing that was done and not yet taken back.
    pub fn undo(&self) -> Result<(HistoryEntry, Restored)> {
        self.check_unrestricted("undoing what was done to it")?;
        self.attempt(|open| {
            // What the last thing was is known only once nobody else does another one.
            let _holding = open.hold_objects()?;
            let undone = self.next_to_undo()?;
            let before = self.state_before(&undone)?;
            let detail = format!("{} ({})", undone.seq, undone.action);
            let deed = Deed { since: undone.since, ..self.deed("undo", &detail, Some(undone.seq)) };
            let restored = self.restore_state(open, &before, &deed)?;
            Ok((undone, restored))
        })
    }

    /// Does again what the last undo took back. Fails if something else was done since.
    pub fn redo(&self) -> Result<(HistoryEntry, Restored)> {
        self.check_unrestricted("redoing what was done to it")?;
        self.attempt(|open| {
            let _holding = open.hold_objects()?;
            let undo = self.last_undo()?.ok_or(Error::NothingToRedo { vault: self.name()?.to_string() })?;
            // What was undone may have taken several steps; the undo itself took one.
            let before = self.state_before(&HistoryEntry { since: None, ..undo.clone() })?;
            let undone = undo.action.split_once(' ').map_or("", |(_, undone)| undone);
            let deed = self.deed(HistoryEntry::REDO, undone, Some(undo.seq));
            let restored = self.restore_state(open, &before, &deed)?;
            Ok((undo, restored))
        })
    }

    /// The entry that the next undo takes back, if there is one.
    pub fn next_undo(&self) -> Result<Option<HistoryEntry>> {
        match self.next_to_undo() {
            Err(Error::NothingToUndo { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The undo that the next redo turns around: nothing but undos and redos came after it.
    pub fn last_undo(&self) -> Result<Option<HistoryEntry>> {
        // What a redo has turned around, and everything since, cancels out.
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

    /// The entry that the next undo takes back.
    fn next_to_undo(&self) -> Result<HistoryEntry> {
        // Undoing goes on from the entry that the last undo took back.
        let mut limit = u64::MAX;
        let mut undone = None;
        self.for_each_entry(|entry| {
            if entry.seq < limit {
                match entry.undoes {
                    // What belongs to the one that it took back is gone with it.
                    Some(seq) => limit = entry.since.map_or(seq, |since| seq.min(since + 1)),
                    None => undone = Some(entry),
                }
            }
            Ok(undone.is_none())
        })?;
        // The first entry of a history made the vault.
        undone.filter(|entry| entry.seq > 1).ok_or(Error::NothingToUndo { vault: self.name()?.to_string() })
    }

    /// The state right before an entry. The entry that is the next older one may have been made long before,
    /// if the history was thinned.
    fn state_before(&self, entry: &HistoryEntry) -> Result<Head> {
        let first = entry.since.map_or(entry.seq, |since| since + 1);
        let older = self.history(Some(first), 1)?.pop();
        if let Some(older) = older.filter(|older| older.seq + 1 == first) {
            return Ok(older.state());
        }
        // Of what was done in several steps, the parent is only the last of them.
        let parent = match entry.since {
            Some(_) => None,
            None => self.snapshot(entry.snapshot)?.parents.first().copied(),
        };
        let kept = parent.map(|parent| self.kept_anywhere(parent)).transpose()?.flatten();
        let vault = self.name()?.to_string();
        kept.ok_or_else(|| Error::HistoryThinned { vault, seq: entry.seq, action: entry.action.clone() })
    }
}

/// What a vault may hold, it may hold after a restore, too; but going back to less is always possible.
pub(crate) fn check_growth(present: &Totals, target: &Totals, limits: Limits) -> Result<()> {
    let bytes = limits.bytes.filter(|_| target.bytes > present.bytes);
    let files = limits.files.filter(|_| target.inodes > present.inodes);
    check_limits(target, Limits { bytes, files })
}
