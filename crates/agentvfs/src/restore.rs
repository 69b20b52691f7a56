//! Going back: a whole vault, single paths, or the last thing that was done.

use avfs_core::diff::{Change, diff_trees};
use avfs_core::{Entry, EntryKind, NodeId, Root, TreePath, Xattrs};
use avfs_tree::{Attr, Base, FsError, Ino, Kind, ReadError, SetAttr, StoredTree, TreeReader, WorkTree};

use crate::error::{Error, Result};
use crate::history::HistoryEntry;
use crate::open::{OpenVault, Saved};
use crate::record::Head;
use crate::revision::Revision;
use crate::vault::{Vault, describe};

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
        self.restore_state(&to.state, "restore", detail, None)
    }

    fn restore_state(&self, to: &Head, action: &str, detail: &str, undoes: Option<u64>) -> Result<Restored> {
        let mut open = self.begin()?;
        let present = open.record().head;
        let _pin = self.store().objects().store().pin()?;
        let (before, target) = (self.base_of(&present)?, self.base_of(to)?);
        let changed = self.changed_paths(&before.root, &target.root)?;
        if changed.is_empty() && undoes.is_none() {
            return Ok(Restored { saved: None, changed: 0 });
        }
        let count = changed.len() as u64;
        let inodes = self.touch(target, &changed)?;
        let root = self.snapshot(to.snapshot)?.root;
        let reason = describe(action, detail);
        let snapshot = self.store().put_snapshot(root, vec![present.snapshot, to.snapshot], &reason)?;
        let head = Head { snapshot, inodes, journal: present.journal };
        let seq = open.advance(head, action, detail, undoes)?;
        Ok(Restored { saved: Some(Saved { seq, snapshot }), changed: count })
    }

    fn changed_paths(&self, before: &Root, after: &Root) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        diff_trees(self.store().objects(), before, after, &mut |change| {
            changes.push(change);
            Ok(())
        })?;
        Ok(changes)
    }

    /// The inode table of a state in which the changed paths have the present time as change time: that is
    /// how tools see that a file is not the one they knew.
    fn touch(&self, base: Base, changed: &[Change]) -> Result<Option<NodeId>> {
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
        let mut open = self.begin()?;
        open.hold_objects()?;
        let present = self.reader_at(open.record().head.snapshot)?;
        let source = from.vault.reader_at(from.snapshot)?;
        let mut changed = 0;
        for path in paths {
            if self.find_at(from.snapshot, path)?.is_none() && !open.exists(path)? {
                return Err(self.read_error(ReadError::NotFound { path: path.clone() }));
            }
            for change in differences_below(self, &present, &source, path)? {
                bring_back(&open, &change)?;
                changed += 1;
            }
        }
        Ok(Restored { saved: open.commit(action, detail)?, changed })
    }

    /// Takes back the last thing that was done and not yet taken back.
    pub fn undo(&self) -> Result<(HistoryEntry, Restored)> {
        self.head()?;
        let (undone, before) = self.undo_target()?;
        let detail = format!("{} ({})", undone.seq, undone.action);
        let restored = self.restore_state(&before.state(), "undo", &detail, Some(undone.seq))?;
        Ok((undone, restored))
    }

    /// The entry that the next undo takes back, and the state before it.
    fn undo_target(&self) -> Result<(HistoryEntry, HistoryEntry)> {
        // Undoing goes on from the entry that the last undo took back.
        let mut limit = u64::MAX;
        let mut undone: Option<HistoryEntry> = None;
        let mut target = None;
        self.for_each_entry(|entry| {
            if let Some(undone) = undone.take() {
                target = Some((undone, entry));
                return Ok(false);
            }
            if entry.seq < limit {
                match entry.undoes {
                    Some(seq) => limit = seq,
                    None => undone = Some(entry),
                }
            }
            Ok(true)
        })?;
        target.ok_or(Error::NothingToUndo { vault: self.name()?.to_string() })
    }
}

impl OpenVault {
    /// Makes an already stored state the present one; the tree in memory ends with this value.
    pub(crate) fn advance(
        &mut self,
        head: Head,
        action: &str,
        detail: &str,
        undoes: Option<u64>,
    ) -> Result<u64> {
        let mut record = self.record().clone();
        self.vault().advance(&mut record, head, action, detail, undoes)
    }
}

/// What differs at `path` and below it.
fn differences_below(
    vault: &Vault,
    present: &TreeReader,
    source: &TreeReader,
    path: &TreePath,
) -> Result<Vec<Change>> {
    let find = |reader: &TreeReader| match reader.find(path) {
        Ok(found) => Ok(Some(found.entry)),
        Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(None),
        Err(error) => Err(vault.read_error(error)),
    };
    let (before, after) = (find(present)?, find(source)?);
    let (Some(before_entry), Some(after_entry)) = (&before, &after) else {
        return Ok(vec![Change { path: path.clone(), before, after }]);
    };
    if !before_entry.is_directory() || !after_entry.is_directory() {
        let differs = before != after;
        return Ok(differs.then(|| Change { path: path.clone(), before, after }).into_iter().collect());
    }
    let below =
        |entry: &Entry, reader: &TreeReader| Root { directory: entry.clone(), ..reader.root().clone() };
    let changes = vault.changed_paths(&below(before_entry, present), &below(after_entry, source))?;
    let placed = changes.into_iter().map(|change| Change { path: path.join_path(&change.path), ..change });
    Ok(placed.collect())
}

/// Makes one path what it was in the source.
fn bring_back(open: &OpenVault, change: &Change) -> Result<()> {
    let path = &change.path;
    let Some(entry) = &change.after else {
        return if open.exists(path)? { open.remove(path, true) } else { Ok(()) };
    };
    if let Some((parent, _)) = path.split_last() {
        open.make_directory(&parent, true)?;
    }
    let keeps_inode = matches!(entry.kind, EntryKind::File { .. } | EntryKind::Directory { .. });
    if open.exists(path)? && !(keeps_inode && open.is_same_kind(path, entry)?) {
        open.remove(path, true)?;
    }
    if !open.exists(path)? {
        let kind = match &entry.kind {
            EntryKind::Directory { .. } => Entry::empty_directory(entry.meta.clone()).kind,
            other => other.clone(),
        };
        let entry = Entry { meta: entry.meta.clone(), kind };
        open.graft(path, StoredTree { entry, links: Vec::new() })?;
    }
    set_to(open, entry, open.stat(path)?).map_err(|error| open.fail(path, error))
}

/// Sets contents and attributes of an inode to those of `entry`, which is of the same kind.
fn set_to(open: &OpenVault, entry: &Entry, attr: Attr) -> Result<(), FsError> {
    let tree = open.tree();
    if let EntryKind::File { size, content } = entry.kind {
        tree.set_content(attr.ino, size, content)?;
    }
    set_xattrs(tree, attr.ino, &attr.meta.xattrs, &entry.meta.xattrs)?;
    let mtime = match attr.kind {
        Kind::File => open.vault().store().now(),
        _ => entry.meta.mtime,
    };
    let set = SetAttr {
        mode: Some(entry.meta.mode),
        uid: Some(entry.meta.uid),
        gid: Some(entry.meta.gid),
        mtime: Some(mtime),
        size: None,
    };
    tree.set_attr(attr.ino, set).map(|_| ())
}

fn set_xattrs(tree: &WorkTree, ino: Ino, present: &Xattrs, wanted: &Xattrs) -> Result<(), FsError> {
    for (name, _) in present.iter().filter(|(name, _)| wanted.get(name).is_none()) {
        tree.remove_xattr(ino, name)?;
    }
    for (name, value) in wanted.iter().filter(|(name, value)| present.get(name) != Some(value)) {
        tree.set_xattr(ino, name, value)?;
    }
    Ok(())
}
