//! Removing, moving and copying, and mounting providers.

use std::sync::Arc;

use avfs_core::TreePath;

use crate::change::hooks::PathEventKind;
use crate::change::{ChangePlan, ChangeStep, renumbered};
use crate::error::{Result, Right, VfsError};
use crate::look::{CallerLook, Looked, VisibleEntry, WalkedPath};
use crate::node::{DirectoryBase, DirectoryNode, FileNode, NodeAttributes, TreeNode};
use crate::provider::ProvidedNode;
use crate::vfs::check_depth;

pub(crate) fn mounted(provided: &Arc<ProvidedNode>, now: avfs_core::Timestamp) -> TreeNode {
    if !provided.is_directory() {
        return TreeNode::Provided(Arc::clone(provided));
    }
    let mut attributes = NodeAttributes::new(0o755, now);
    attributes.edit_extra(|extra| {
        extra.metadata.clone_from(provided.metadata());
        extra.policy = provided.policy().cloned();
    });
    TreeNode::Directory(Arc::new(DirectoryNode {
        base: DirectoryBase::Mounted(Arc::clone(provided)),
        attributes,
        ..DirectoryNode::default()
    }))
}

impl<'a> CallerLook<'a> {
    /// Removes what is at a path.
    pub(crate) fn plan_removal(&self, plan: &mut ChangePlan, path: &TreePath, recursive: bool) -> Looked<()> {
        let walked = self.walk(path, false)?;
        let Some(found) = &walked.found else {
            return Err(VfsError::NotFound { path: walked.path }.into());
        };
        if walked.path.is_root() {
            return Err(VfsError::Root { action: "removed" }.into());
        }
        if found.is_directory() && !recursive {
            // What a view hides keeps a directory from being empty: removing it would remove that as well.
            let is_empty =
                self.children(found, &walked.path)?.is_empty() && !self.hides_in(found, &walked.path)?;
            if !is_empty {
                return Err(VfsError::NotEmpty { path: walked.path }.into());
            }
        }
        // Checked to the last entry before anything is planned: a removal happens whole or not at all.
        self.check_removable(found, &walked)?;
        if let Some(node) = found.own {
            plan.tell_all(node, &walked.path, PathEventKind::Delete, None);
        }
        self.plan_remove(plan, &walked)
    }

    /// Where a move or copy to `to` ends up: in the directory that is there, or at the path itself.
    pub(crate) fn destination(&self, from: &TreePath, to: &TreePath, overwrite: bool) -> Looked<TreePath> {
        let walked = self.walk(to, true)?;
        let Some(found) = &walked.found else {
            return Ok(walked.path);
        };
        let mut to = walked.path;
        if found.is_directory() {
            let name = from.name().ok_or(VfsError::Root { action: "moved" })?;
            // Without following the last link, as a link is moved and not what it leads to.
            if self.walk(from, false)?.path == to {
                return Err(VfsError::IntoItself { path: to }.into());
            }
            let inside = self.child(found, &to, name.as_bytes())?;
            to.push(&name);
            if inside.is_none() || overwrite {
                return Ok(to);
            }
        } else if overwrite {
            return Ok(to);
        }
        Err(VfsError::Exists { path: to }.into())
    }

    /// The entry, its directory and everything below may go.
    fn check_removable(&self, found: &VisibleEntry<'a>, walked: &WalkedPath<'a>) -> Looked<()> {
        if !walked.parent().standing.can_write() {
            let path = walked.path.clone();
            let right = Right::Write;
            return Err(VfsError::Denied { path, right }.into());
        }
        self.vfs.storage().check_movable(&walked.path)?;
        self.check_removable_below(found, &walked.path)
    }

    fn check_removable_below(&self, found: &VisibleEntry<'a>, path: &TreePath) -> Looked<()> {
        found.check_write(path)?;
        if found.is_directory() {
            if self.hides_in(found, path)? {
                let path = path.clone();
                let right = Right::Write;
                return Err(VfsError::Denied { path, right }.into());
            }
            for (name, child) in self.children(found, path)? {
                self.check_removable_below(&child, &path.join(&name))?;
            }
        }
        Ok(())
    }

    /// Takes an entry out; one that the provider of its directory would give again gets hidden.
    fn plan_remove(&self, plan: &mut ChangePlan, walked: &WalkedPath<'a>) -> Looked<()> {
        let parent = walked.parent();
        let parent_path = walked
            .path
            .split_last()
            .map_or_else(TreePath::root, |(above, _)| above);
        let is_provided = match walked.path.name() {
            Some(name) if parent.base.is_some() => self.provided(parent, &parent_path)?.contains_key(&name),
            _ => false,
        };
        // The provider would show the entry again: a whiteout in the tree hides it for good.
        if is_provided {
            self.plan_own_parents(plan, walked);
            plan.put(&walked.path, TreeNode::Removed);
        } else {
            let path = walked.path.clone();
            plan.edits.push(ChangeStep::Remove { path });
        }
        Ok(())
    }

    pub(crate) fn plan_rename(&self, plan: &mut ChangePlan, from: &TreePath, to: &TreePath) -> Looked<()> {
        let source = self.walk(from, false)?;
        let Some(found) = &source.found else {
            return Err(VfsError::NotFound { path: source.path }.into());
        };
        let target = self.walk(to, false)?;
        if source.path.is_root() || target.path.is_root() {
            return Err(VfsError::Root { action: "moved" }.into());
        }
        if source.path == target.path {
            return Ok(());
        }
        // Compared without links, because both paths were walked: a link cannot lead a directory into
        // itself.
        if target.path.starts_with(&source.path) {
            return Err(VfsError::IntoItself { path: source.path }.into());
        }
        self.check_removable(found, &source)?;
        // What providers give, and what a view shows in part, is moved as it is now.
        let node = match found.own {
            Some(own) if !stands_on_parent(own) => renumbered(own, &target.path, self.state, true),
            _ => renumbered(&self.copied(found, &source.path)?, &target.path, self.state, true),
        };
        self.plan_arrival(plan, &target, &node)?;
        plan.tell_all(&node, &target.path, PathEventKind::Move, Some(&source.path));
        // After the arrival was checked, and before the entry is put: the steps of a plan are made in order.
        self.plan_remove(plan, &source)?;
        plan.put(&target.path, node);
        Ok(())
    }

    pub(crate) fn plan_copy(&self, plan: &mut ChangePlan, from: &TreePath, to: &TreePath) -> Looked<()> {
        let (from, found) = self.find(from)?;
        let target = self.walk(to, true)?;
        if target.path.is_root() {
            return Err(VfsError::Root { action: "replaced" }.into());
        }
        if target.path.starts_with(&from) {
            return Err(VfsError::IntoItself { path: from }.into());
        }
        // Versions belong to paths: the copy goes on from the last version at its own.
        let node = renumbered(&self.copied(&found, &from)?, &target.path, self.state, false);
        let was_there = target.found.is_some();
        self.plan_arrival(plan, &target, &node)?;
        let kind = if was_there {
            PathEventKind::Update
        } else {
            PathEventKind::Create
        };
        plan.tell_all(&node, &target.path, kind, None);
        plan.put(&target.path, node);
        Ok(())
    }

    /// Checks that a node may come to a path, and makes the directories above it.
    pub(crate) fn plan_arrival(
        &self,
        plan: &mut ChangePlan,
        target: &WalkedPath<'a>,
        node: &TreeNode,
    ) -> Looked<()> {
        check_fits(node, &target.path)?;
        if self.vfs.storage().covering(&target.path).is_some() {
            check_files_only(node, &target.path)?;
        }
        let Some(there) = &target.found else {
            return self.plan_place(plan, target);
        };
        let is_directory = matches!(node, TreeNode::Directory(_));
        match (is_directory, there.is_directory()) {
            // As rename(2) has it: neither kind replaces the other.
            (false, true) => {
                return Err(VfsError::IsADirectory {
                    path: target.path.clone(),
                }
                .into());
            }
            (true, false) => {
                return Err(VfsError::NotADirectory {
                    path: target.path.clone(),
                }
                .into());
            }
            (true, true)
                if !self.children(there, &target.path)?.is_empty()
                    || self.hides_in(there, &target.path)? =>
            {
                return Err(VfsError::NotEmpty {
                    path: target.path.clone(),
                }
                .into());
            }
            // An empty directory may be a mount point, which must not be replaced.
            (true, true) => self.vfs.storage().check_movable(&target.path)?,
            (false, false) => {}
        }
        there.check_write(&target.path)?;
        self.plan_own_parents(plan, target);
        Ok(())
    }

    /// An entry as nodes of a tree, without providers and without what the caller cannot see.
    pub(crate) fn copied(&self, found: &VisibleEntry<'a>, path: &TreePath) -> Looked<TreeNode> {
        found.check_read(path)?;
        if found.is_directory() {
            let mut directory = DirectoryNode {
                attributes: found.attributes(self.vfs.now()),
                ..DirectoryNode::default()
            };
            for (name, child) in self.children(found, path)? {
                let node = self.copied(&child, &path.join(&name))?;
                directory.entries.insert(name, node);
            }
            return Ok(TreeNode::Directory(Arc::new(directory)));
        }
        if let Some(node @ (TreeNode::File(_) | TreeNode::Symlink(_))) = found.own {
            return Ok(node.clone());
        }
        Ok(TreeNode::File(Arc::new(FileNode {
            content: self.content(found, path)?,
            version: 0,
            attributes: found.attributes(self.vfs.now()),
            shadows: false,
        })))
    }
}

/// Whether a part of a node means something only where it is: what lies over a provided directory, or hides a provided
/// entry.
fn stands_on_parent(node: &TreeNode) -> bool {
    match node {
        TreeNode::Directory(directory) => {
            // A mounted directory brings its provider along, and may be anywhere.
            matches!(directory.base, DirectoryBase::OfParent)
                || matches!(directory.base, DirectoryBase::Nothing)
                    && directory.entries.iter().any(|(_, node)| stands_on_parent(node))
        }
        TreeNode::Removed => true,
        TreeNode::File(_) | TreeNode::Symlink(_) | TreeNode::Provided(_) => false,
    }
}

fn check_fits(node: &TreeNode, path: &TreePath) -> Result<()> {
    check_depth(path)?;
    let len = path.as_bytes().len();
    if len > avfs_core::PATH_MAX {
        return Err(avfs_core::BadName::PathTooLong(len).into());
    }
    if let TreeNode::Directory(directory) = node {
        for (name, node) in directory.entries.iter() {
            check_fits(node, &path.join(name))?;
        }
    }
    Ok(())
}

fn check_files_only(node: &TreeNode, path: &TreePath) -> Result<()> {
    match node {
        TreeNode::File(_) => Ok(()),
        TreeNode::Directory(directory) if matches!(directory.base, DirectoryBase::Nothing) => {
            let mut entries = directory.entries.iter();
            entries.try_for_each(|(name, node)| check_files_only(node, &path.join(name)))
        }
        TreeNode::Directory(_) | TreeNode::Symlink(_) | TreeNode::Provided(_) | TreeNode::Removed => {
            Err(VfsError::FilesOnly { path: path.clone() })
        }
    }
}
