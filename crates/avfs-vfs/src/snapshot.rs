//! Snapshots: keeping a moment, going back to it, and what changed since.

use std::sync::Arc;

use avfs_core::TreePath;

use crate::change::hooks::{PathEvent, PathEventKind};
use crate::change::{ChangeStep, StateDraft, StoreChange};
use crate::error::Result;
use crate::look::Kind;
use crate::map;
use crate::node::{DirectoryBase, DirectoryNode, FileNode, TreeNode, Usage};
use crate::vfs::{Vfs, VfsState};

/// A moment of a filesystem. It is a few pointers, and clones are as well.
#[derive(Clone, Debug)]
pub struct Snapshot {
    state: VfsState,
    /// Where storages were mounted.
    storages: Arc<[TreePath]>,
}

impl Snapshot {
    /// How much the tree held.
    pub fn usage(&self) -> Usage {
        self.state.usage
    }
}

/// How a path differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It was not there.
    Created,
    /// It has other content, another target or other attributes, or is something else.
    Updated,
    /// It is gone.
    Deleted,
}

impl ChangeKind {
    /// The name that programs see.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeKind::Created => "created",
            ChangeKind::Updated => "updated",
            ChangeKind::Deleted => "deleted",
        }
    }
}

/// A path that differs from what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path.
    pub path: TreePath,
    /// How it differs.
    pub change: ChangeKind,
    /// What it is, or was if it is gone.
    pub kind: Kind,
}

/// [`Vfs::snapshot`].
pub(crate) fn snapshot(vfs: &Vfs) -> Result<Snapshot> {
    vfs.check_owner()?;
    let storages = vfs.storage().paths().cloned().collect();
    let state = vfs.state().clone();
    Ok(Snapshot { state, storages })
}

/// [`Vfs::restore`].
pub(crate) fn restore(vfs: &Vfs, snapshot: &Snapshot) -> Result<()> {
    vfs.check_owner()?;
    vfs.change_many(StoreChange::Stored, |draft| {
        let storage = vfs.storage();
        // Files of a storage that was mounted since belong to the storage, and not to the earlier state.
        let later: Vec<&TreePath> = storage
            .paths()
            .filter(|path| !snapshot.storages.contains(path))
            .collect();
        let before = draft.state.clone();
        let mut steps = Vec::new();
        differences(
            &before.root,
            &snapshot.state.root,
            &TreePath::root(),
            &mut |path, old, new| {
                let is_kept = later
                    .iter()
                    .any(|mount| path.starts_with(mount) || mount.starts_with(path));
                if !is_kept {
                    steps.push((path.clone(), old.cloned(), new.cloned()));
                }
            },
        );
        // What goes makes room first: a file may take the place of a directory.
        for (path, old, new) in steps {
            if let Some(old) = &old
                && new.is_none()
            {
                storage.check_movable(&path)?;
                draft.take_out(&path, old)?;
            }
            if let Some(new) = new {
                draft.put_back(&path, old.as_ref(), &new)?;
            }
        }
        Ok(())
    })
}

/// [`Vfs::changes`].
pub(crate) fn changes(vfs: &Vfs, since: &Snapshot) -> Result<Vec<Change>> {
    vfs.check_owner()?;
    let now = vfs.state().clone();
    let mut changes = Vec::new();
    differences(
        &since.state.root,
        &now.root,
        &TreePath::root(),
        &mut |path, old, new| {
            report(path, old, new, &mut changes);
        },
    );
    changes.sort_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
    Ok(changes)
}

impl StateDraft<'_> {
    fn take_out(&mut self, path: &TreePath, old: &TreeNode) -> Result<()> {
        self.step(|_, plan| {
            plan.tell_all(old, path, PathEventKind::Delete, None);
            let path = path.clone();
            plan.edits.push(ChangeStep::Remove { path });
            Ok(())
        })
    }

    fn put_back(&mut self, path: &TreePath, old: Option<&TreeNode>, new: &TreeNode) -> Result<()> {
        self.step(|look, plan| {
            match (old, new) {
                (Some(TreeNode::Directory(_)), TreeNode::Directory(directory)) if same_base(old, new) => {
                    let path = path.clone();
                    let attributes = directory.attributes.clone();
                    plan.edits.push(ChangeStep::Attributes { path, attributes });
                }
                // Only attributes differ: no new version, and nobody is told of a change of content.
                (Some(TreeNode::File(old)), TreeNode::File(new)) if old.content == new.content => {
                    let file = FileNode {
                        version: old.version,
                        ..(**new).clone()
                    };
                    plan.put(path, TreeNode::File(Arc::new(file)));
                }
                (Some(TreeNode::File(_)), TreeNode::File(file)) => {
                    let version = look.state.last_version(path) + 1;
                    let event = PathEvent {
                        path: path.clone(),
                        event: PathEventKind::Update,
                        content: Some(Arc::clone(&file.content)),
                        version,
                        from: None,
                    };
                    plan.tell(event, false);
                    let file = FileNode {
                        version,
                        ..(**file).clone()
                    };
                    plan.put(path, TreeNode::File(Arc::new(file)));
                }
                (old, new) => {
                    if let Some(old) = old {
                        plan.tell_all(old, path, PathEventKind::Delete, None);
                    }
                    let node = crate::change::renumbered(new, path, look.state, false);
                    plan.tell_all(&node, path, PathEventKind::Create, None);
                    plan.put(path, node);
                }
            }
            Ok(())
        })
    }
}

fn same_base(a: Option<&TreeNode>, b: &TreeNode) -> bool {
    let (Some(TreeNode::Directory(a)), TreeNode::Directory(b)) = (a, b) else {
        return false;
    };
    match (&a.base, &b.base) {
        (DirectoryBase::Nothing, DirectoryBase::Nothing)
        | (DirectoryBase::OfParent, DirectoryBase::OfParent) => true,
        (DirectoryBase::Mounted(a), DirectoryBase::Mounted(b)) => Arc::ptr_eq(a, b),
        (DirectoryBase::Nothing | DirectoryBase::Mounted(_) | DirectoryBase::OfParent, _) => false,
    }
}

/// Calls `visit` for each path whose own node differs. Below a directory that is on one side only, nothing is visited.
pub(crate) fn differences<'a>(
    before: &'a TreeNode,
    after: &'a TreeNode,
    path: &TreePath,
    visit: &mut dyn FnMut(&TreePath, Option<&'a TreeNode>, Option<&'a TreeNode>),
) {
    if before.is_same(after) {
        return;
    }
    match (before, after) {
        (TreeNode::Directory(a), TreeNode::Directory(b)) if same_base(Some(before), after) => {
            if a.attributes.mode != b.attributes.mode || a.attributes.extra != b.attributes.extra {
                visit(path, Some(before), Some(after));
            }
            entry_differences(a, b, path, visit);
        }
        (TreeNode::File(a), TreeNode::File(b)) => {
            let is_same = Arc::ptr_eq(&a.content, &b.content) || a.content == b.content;
            if !is_same || a.attributes.mode != b.attributes.mode || a.attributes.extra != b.attributes.extra
            {
                visit(path, Some(before), Some(after));
            }
        }
        (TreeNode::Symlink(a), TreeNode::Symlink(b)) if a.target == b.target => {}
        _ => visit(path, Some(before), Some(after)),
    }
}

fn entry_differences<'a>(
    before: &'a DirectoryNode,
    after: &'a DirectoryNode,
    path: &TreePath,
    visit: &mut dyn FnMut(&TreePath, Option<&'a TreeNode>, Option<&'a TreeNode>),
) {
    // Most directories are, so that the cost is what differs and not what there is.
    if before.entries.is_shared_with(&after.entries) {
        return;
    }
    let Ok(()) = map::diff(&before.entries, &after.entries, &mut |name, old, new| {
        let path = path.join(name);
        match (old, new) {
            (Some(old), Some(new)) => differences(old, new, &path, visit),
            (old, new) => visit(&path, old, new),
        }
        Ok::<(), std::convert::Infallible>(())
    });
}

/// A difference as changes, with all that lies below a directory that is on one side only.
fn report(path: &TreePath, old: Option<&TreeNode>, new: Option<&TreeNode>, changes: &mut Vec<Change>) {
    let is_there = |node: Option<&TreeNode>| node.is_some_and(|node| !matches!(node, TreeNode::Removed));
    match (old, new) {
        (Some(old), Some(new)) if is_there(Some(old)) && is_there(Some(new)) => {
            let (was, is) = (kind(old), kind(new));
            if was == is {
                changes.push(Change {
                    path: path.clone(),
                    change: ChangeKind::Updated,
                    kind: is,
                });
            }
            // Another kind, or another provider: one thing went, and another came.
            if was != is || !same_base(Some(old), new) && is == Kind::Directory {
                report_all(path, old, ChangeKind::Deleted, changes);
                report_all(path, new, ChangeKind::Created, changes);
            }
        }
        // A whiteout hides something that a provider gave.
        (old, Some(TreeNode::Removed)) => match old {
            Some(old) if !matches!(old, TreeNode::Removed) => {
                report_all(path, old, ChangeKind::Deleted, changes)
            }
            _ => changes.push(Change {
                path: path.clone(),
                change: ChangeKind::Deleted,
                kind: Kind::File,
            }),
        },
        (Some(old), None) if is_there(Some(old)) => report_all(path, old, ChangeKind::Deleted, changes),
        (_, Some(new)) => report_all(path, new, ChangeKind::Created, changes),
        (_, None) => {}
    }
}

fn report_all(path: &TreePath, node: &TreeNode, change: ChangeKind, changes: &mut Vec<Change>) {
    let shadows = matches!(node, TreeNode::File(file) if file.shadows)
        || matches!(node, TreeNode::Directory(directory) if matches!(directory.base, DirectoryBase::OfParent));
    changes.push(Change {
        path: path.clone(),
        // The provider had it before, so it is not new, and without it the provided one is back.
        change: if shadows { ChangeKind::Updated } else { change },
        kind: kind(node),
    });
    if let TreeNode::Directory(directory) = node {
        for (name, node) in directory.entries.iter() {
            let path = path.join(name);
            match node {
                TreeNode::Removed => report(&path, None, Some(node), changes),
                node => report_all(&path, node, change, changes),
            }
        }
    }
}

fn kind(node: &TreeNode) -> Kind {
    match node {
        TreeNode::Directory(_) => Kind::Directory,
        TreeNode::Symlink(_) => Kind::Symlink,
        TreeNode::File(_) | TreeNode::Provided(_) | TreeNode::Removed => Kind::File,
    }
}
