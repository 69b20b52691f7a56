//! Writing: files, directories, links, attributes.

use std::sync::Arc;

use avfs_core::{EntryName, TreePath};

use crate::change::hooks::{PathEvent, PathEventKind};
use crate::change::{ChangePlan, ChangeStep};
use crate::error::{Result, Right, VfsError};
use crate::look::{CallerLook, Kind, Looked, VisibleEntry, WalkedPath};
use crate::node::{
    Content, DirectoryBase, DirectoryNode, FileNode, Metadata, NodeAttributes, SymlinkNode, TreeNode,
};
use crate::policy::{NodePolicy, SeenEntry};
use crate::vfs::{Vfs, check_depth, parse};

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
const LINK_MODE: u32 = 0o777;
const MODE_MAX: u32 = 0o7777;

/// The longest target of a link, as of a path.
const TARGET_MAX: usize = avfs_core::PATH_MAX;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteWay {
    Replace,
    Append,
}

impl Vfs {
    /// Writes a whole file and returns its new version. Directories on the way are made. With `expected`, the file
    /// must have that version; 0 stands for no file.
    pub fn write_file(
        &self,
        path: impl AsRef<[u8]>,
        data: impl Into<Vec<u8>>,
        expected: Option<u64>,
    ) -> Result<u64> {
        self.write(path.as_ref(), data.into(), expected, WriteWay::Replace)
    }

    /// Adds to a file and returns its new version. A file that does not exist is made.
    pub fn append_file(
        &self,
        path: impl AsRef<[u8]>,
        data: impl Into<Vec<u8>>,
        expected: Option<u64>,
    ) -> Result<u64> {
        self.write(path.as_ref(), data.into(), expected, WriteWay::Append)
    }

    fn write(&self, path: &[u8], data: Vec<u8>, expected: Option<u64>, how: WriteWay) -> Result<u64> {
        let path = parse(path)?;
        let data: Content = Arc::new(data);
        self.change(|look, plan| look.plan_write(plan, &path, &data, expected, how))
    }

    /// Makes a directory. With `parents`, those above it as well. With `exist_ok`, one that exists is fine.
    pub fn mkdir(&self, path: impl AsRef<[u8]>, parents: bool, exist_ok: bool) -> Result<()> {
        let path = parse(path.as_ref())?;
        self.change(|look, plan| look.plan_mkdir(plan, &path, parents, exist_ok))
    }

    /// Makes an empty file, or sets the time of what is there to now.
    pub fn touch(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = parse(path.as_ref())?;
        self.change(|look, plan| {
            let walked = look.walk(&path, true)?;
            let now = plan.now;
            match &walked.found {
                None => look.plan_new_file(plan, &walked, &Content::default()).map(|_| ()),
                Some(found) => {
                    found.check_append(&walked.path)?;
                    look.plan_attributes(plan, &walked, |attributes| attributes.mtime = now)
                }
            }
        })
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        let path = parse(path.as_ref())?;
        let target = target.as_ref();
        if target.is_empty() || target.contains(&0) || target.len() > TARGET_MAX {
            return Err(VfsError::Invalid(
                "the target of a link has 1 to 4095 bytes, and no NUL among them",
            ));
        }
        self.change(|look, plan| {
            let walked = look.walk(&path, false)?;
            if walked.found.is_some() {
                return Err(VfsError::Exists { path: walked.path }.into());
            }
            // A link may be the first entry in a directory that exists; unlike a write, it makes no
            // directories.
            if walked.missing.len() > 1 {
                return Err(VfsError::NotFound { path: walked.path }.into());
            }
            look.plan_place(plan, &walked)?;
            // An adapter keeps files and nothing else, so a link there could not be stored.
            if look.vfs.storage().covering(&walked.path).is_some() {
                return Err(VfsError::FilesOnly { path: walked.path }.into());
            }
            let link = SymlinkNode {
                target: target.into(),
                attributes: NodeAttributes::new(LINK_MODE, plan.now),
            };
            let node = TreeNode::Symlink(Arc::new(link));
            plan.tell_all(&node, &walked.path, PathEventKind::Create, None);
            plan.put(&walked.path, node);
            Ok(())
        })
    }

    /// Sets the permission bits.
    pub fn set_mode(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<()> {
        if mode > MODE_MAX {
            return Err(VfsError::Invalid("a mode has the bits 0o7777 only"));
        }
        self.edit_attributes(path.as_ref(), |attributes| attributes.mode = mode)
    }

    /// Sets the time of the last change.
    pub fn set_mtime(&self, path: impl AsRef<[u8]>, mtime: avfs_core::Timestamp) -> Result<()> {
        self.edit_attributes(path.as_ref(), |attributes| attributes.mtime = mtime)
    }

    /// Replaces the metadata of an entry.
    pub fn set_metadata(&self, path: impl AsRef<[u8]>, metadata: Metadata) -> Result<()> {
        self.edit_attributes(path.as_ref(), |attributes| {
            attributes.edit_extra(|extra| extra.metadata.clone_from(&metadata));
        })
    }

    /// Sets what may be done with an entry, and with everything below it that has no policy of its own; `None` leaves
    /// that to the policies above.
    pub fn set_policy(&self, path: impl AsRef<[u8]>, policy: Option<NodePolicy>) -> Result<()> {
        self.check_owner()?;
        let policy = policy.map(Arc::new);
        let path = parse(path.as_ref())?;
        self.change(|look, plan| {
            let walked = look.walk(&path, true)?;
            look.plan_attributes(plan, &walked, |attributes| {
                attributes.edit_extra(|extra| extra.policy.clone_from(&policy));
            })
        })
    }

    fn edit_attributes(&self, path: &[u8], edit: impl Fn(&mut NodeAttributes)) -> Result<()> {
        let path = parse(path)?;
        self.change(|look, plan| {
            let walked = look.walk(&path, true)?;
            if let Some(found) = &walked.found {
                found.check_write(&walked.path)?;
            }
            look.plan_attributes(plan, &walked, &edit)
        })
    }
}

impl<'a> CallerLook<'a> {
    pub(crate) fn plan_write(
        &self,
        plan: &mut ChangePlan,
        path: &TreePath,
        data: &Content,
        expected: Option<u64>,
        how: WriteWay,
    ) -> Looked<u64> {
        let walked = self.walk(path, true)?;
        let actual = walked.found.as_ref().map_or(0, VisibleEntry::version);
        if let Some(expected) = expected.filter(|expected| *expected != actual) {
            let path = walked.path;
            return Err(VfsError::VersionMismatch {
                path,
                expected,
                actual,
            }
            .into());
        }
        let Some(found) = &walked.found else {
            return self.plan_new_file(plan, &walked, data);
        };
        if found.is_directory() {
            return Err(VfsError::IsADirectory { path: walked.path }.into());
        }
        match (how, found.own) {
            // Only the new bytes are planned: nobody needs the whole content, so a log that grows by lines
            // costs its lines.
            (WriteWay::Append, Some(TreeNode::File(file))) if !plan.is_watched => {
                found.check_append(&walked.path)?;
                let version = file.version + 1;
                plan.edits.push(ChangeStep::Append {
                    path: walked.path,
                    data: Arc::clone(data),
                    version,
                });
                Ok(version)
            }
            (WriteWay::Append, _) => {
                found.check_append(&walked.path)?;
                // Hooks and storages are given the whole file, and a provided file has no copy in the tree
                // to extend.
                let mut content = self.content(found, &walked.path)?.to_vec();
                content.extend_from_slice(data);
                self.plan_content(plan, &walked, found, &Arc::new(content), how)
            }
            (WriteWay::Replace, _) => {
                found.check_write(&walked.path)?;
                self.plan_content(plan, &walked, found, data, how)
            }
        }
    }

    /// New content for a file that exists, in the tree or from a provider.
    fn plan_content(
        &self,
        plan: &mut ChangePlan,
        walked: &WalkedPath<'a>,
        found: &VisibleEntry<'a>,
        content: &Content,
        how: WriteWay,
    ) -> Looked<u64> {
        let file = match found.own {
            Some(TreeNode::File(file)) => FileNode {
                content: Arc::clone(content),
                version: file.version + 1,
                attributes: NodeAttributes {
                    mtime: plan.now,
                    ..file.attributes.clone()
                },
                shadows: file.shadows,
            },
            _ => FileNode {
                content: Arc::clone(content),
                version: self.state.last_version(&walked.path) + 1,
                attributes: self.shadowing(found, plan.now),
                shadows: true,
            },
        };
        self.plan_own_parents(plan, walked);
        // Told with the version that the file will have: a hook may compare it with what it reads
        // afterwards.
        let version = file.version;
        plan.tell(
            PathEvent {
                path: walked.path.clone(),
                event: PathEventKind::Update,
                content: Some(Arc::clone(content)),
                version,
                from: None,
            },
            how == WriteWay::Append,
        );
        plan.put(&walked.path, TreeNode::File(Arc::new(file)));
        Ok(version)
    }

    /// What is written over a provided entry keeps its policy and metadata.
    fn shadowing(&self, found: &VisibleEntry<'a>, now: avfs_core::Timestamp) -> NodeAttributes {
        let mut attributes = NodeAttributes::new(found.mode(), now);
        if let Some(base) = &found.base {
            attributes.edit_extra(|extra| {
                extra.metadata.clone_from(base.metadata());
                extra.policy = base.policy().cloned();
            });
        }
        attributes
    }

    pub(crate) fn plan_new_file(
        &self,
        plan: &mut ChangePlan,
        walked: &WalkedPath<'a>,
        content: &Content,
    ) -> Looked<u64> {
        self.plan_place(plan, walked)?;
        let version = self.state.last_version(&walked.path) + 1;
        plan.tell(
            PathEvent {
                path: walked.path.clone(),
                event: PathEventKind::Create,
                content: Some(Arc::clone(content)),
                version,
                from: None,
            },
            false,
        );
        let file = FileNode {
            content: Arc::clone(content),
            version,
            attributes: NodeAttributes::new(FILE_MODE, plan.now),
            shadows: false,
        };
        plan.put(&walked.path, TreeNode::File(Arc::new(file)));
        Ok(version)
    }

    fn plan_mkdir(
        &self,
        plan: &mut ChangePlan,
        path: &TreePath,
        parents: bool,
        exist_ok: bool,
    ) -> Looked<()> {
        let walked = self.walk(path, true)?;
        if let Some(found) = &walked.found {
            return if exist_ok && found.kind() == Kind::Directory {
                Ok(())
            } else {
                Err(VfsError::Exists { path: walked.path }.into())
            };
        }
        if walked.missing.len() > 1 && !parents {
            return Err(VfsError::NotFound { path: walked.path }.into());
        }
        self.plan_place(plan, &walked)?;
        plan.put(&walked.path, new_directory(plan.now));
        Ok(())
    }

    /// Checks that an entry may be made at a path where nothing is, and makes the directories above it.
    pub(crate) fn plan_place(&self, plan: &mut ChangePlan, walked: &WalkedPath<'a>) -> Looked<()> {
        // The limits come first, so that a path which can never exist gives the same error whatever the
        // rights are.
        check_depth(&walked.path)?;
        if walked.path.as_bytes().len() > avfs_core::PATH_MAX {
            let len = walked.path.as_bytes().len();
            return Err(VfsError::from(avfs_core::BadName::PathTooLong(len)).into());
        }
        let parent = walked.parent();
        parent.check_append(&walked.path)?;
        // Without a view nothing is hidden, and what is missing is really missing.
        if let (Some(_), Some(first)) = (&self.vfs.view, walked.missing.first()) {
            self.check_unhidden(parent, walked, first)?;
        }
        self.plan_own_parents(plan, walked);
        let mut path = above(&walked.path, walked.missing.len());
        if let Some((_, parents)) = walked.missing.split_last() {
            for name in parents {
                path.push(name);
                plan.put(&path, new_directory(plan.now));
            }
        }
        Ok(())
    }

    /// A caller with a view can neither replace what it cannot see, nor make what it could not see.
    fn check_unhidden(
        &self,
        parent: &VisibleEntry<'a>,
        walked: &WalkedPath<'a>,
        first: &EntryName,
    ) -> Looked<()> {
        let own = parent
            .own_directory()
            .and_then(|own| own.entries.get(first.as_bytes()));
        let is_taken = match own {
            // A whiteout: the provider has such an entry, but for everyone it is gone.
            Some(TreeNode::Removed) => false,
            Some(_) => true,
            None => {
                let path = above(&walked.path, walked.missing.len());
                self.provided(parent, &path)?.contains_key(first)
            }
        };
        // The new entry has no policy and no metadata yet, so the view judges it by its path alone.
        let is_shown = parent.standing.below(&SeenEntry {
            path: &walked.path,
            policy: None,
            metadata: None,
            is_directory: false,
        });
        if is_taken || is_shown.is_none() {
            return Err(VfsError::Denied {
                path: walked.path.clone(),
                right: Right::Write,
            }
            .into());
        }
        Ok(())
    }

    /// Directories that only a provider gives get an entry of the tree, so that it can hold others.
    pub(crate) fn plan_own_parents(&self, plan: &mut ChangePlan, walked: &WalkedPath<'a>) {
        if walked.above.iter().all(|found| found.own.is_some()) {
            return;
        }
        let mut path = TreePath::root();
        // The first of those above is the root, which always is an entry of the tree.
        for (found, name) in walked.above.iter().skip(1).zip(walked.path.components()) {
            path.push(&name);
            if found.own.is_none() {
                plan.put(
                    &path,
                    TreeNode::Directory(Arc::new(self.overlay(found, plan.now))),
                );
            }
        }
    }

    /// A directory of the tree that stands over a provided one.
    pub(crate) fn overlay(&self, found: &VisibleEntry<'a>, now: avfs_core::Timestamp) -> DirectoryNode {
        DirectoryNode {
            base: DirectoryBase::OfParent,
            attributes: self.shadowing(found, now),
            ..DirectoryNode::default()
        }
    }

    /// Other attributes for an entry. Of what a provider gives, a directory gets an entry of the tree, and a file
    /// becomes one with its content of now.
    pub(crate) fn plan_attributes(
        &self,
        plan: &mut ChangePlan,
        walked: &WalkedPath<'a>,
        edit: impl Fn(&mut NodeAttributes),
    ) -> Looked<()> {
        let path = &walked.path;
        let Some(found) = &walked.found else {
            return Err(VfsError::NotFound { path: path.clone() }.into());
        };
        if let Some(attributes) = found.own.and_then(TreeNode::attributes) {
            let mut attributes = attributes.clone();
            edit(&mut attributes);
            let path = path.clone();
            plan.edits.push(ChangeStep::Attributes { path, attributes });
            return Ok(());
        }
        self.plan_own_parents(plan, walked);
        let node = if found.is_directory() {
            let mut directory = self.overlay(found, plan.now);
            edit(&mut directory.attributes);
            TreeNode::Directory(Arc::new(directory))
        } else {
            let mut file = FileNode {
                content: self.content(found, path)?,
                version: self.state.last_version(path) + 1,
                attributes: self.shadowing(found, plan.now),
                shadows: true,
            };
            edit(&mut file.attributes);
            TreeNode::File(Arc::new(file))
        };
        plan.put(path, node);
        Ok(())
    }
}

pub(crate) fn new_directory(now: avfs_core::Timestamp) -> TreeNode {
    TreeNode::Directory(Arc::new(DirectoryNode {
        attributes: NodeAttributes::new(DIRECTORY_MODE, now),
        ..DirectoryNode::default()
    }))
}

/// The path so many names up.
fn above(path: &TreePath, count: usize) -> TreePath {
    (0..count).fold(path.clone(), |path, _| {
        path.split_last().map_or_else(TreePath::root, |(above, _)| above)
    })
}
