//! A filesystem as a list of entries, for formats that keep one.

use std::sync::Arc;

use avfs_core::{Timestamp, TreePath};

use crate::change::{ChangePlan, ChangeStep, StoreChange};
use crate::error::{Result, VfsError};
use crate::look::{CallerLook, Looked, VisibleEntry};
use crate::node::{Content, DirectoryNode, FileNode, Metadata, NodeAttributes, SymlinkNode, TreeNode};
use crate::policy::NodePolicy;
use crate::vfs::Vfs;

/// What an entry holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortableNode {
    /// Bytes with their version.
    File {
        /// The bytes.
        content: Content,
        /// At least 1.
        version: u64,
    },
    /// Its entries have entries of their own in the list.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: Vec<u8>,
    },
}

/// One entry with everything that is kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortableEntry {
    /// The path; the root has an entry too.
    pub path: TreePath,
    /// What it holds.
    pub node: PortableNode,
    /// Permission bits.
    pub mode: u32,
    /// When the content was last changed.
    pub mtime: Timestamp,
    /// What callers attached to it.
    pub metadata: Metadata,
    /// Its own policy.
    pub policy: Option<NodePolicy>,
}

impl PortableEntry {
    fn attributes(&self) -> NodeAttributes {
        let mut attributes = NodeAttributes::new(self.mode & 0o7777, self.mtime);
        attributes.edit_extra(|extra| {
            extra.metadata.clone_from(&self.metadata);
            extra.policy = self.policy.clone().map(Arc::new);
        });
        attributes
    }

    fn attributes_edit(&self) -> ChangeStep {
        ChangeStep::Attributes {
            path: self.path.clone(),
            attributes: self.attributes(),
        }
    }
}

/// [`Vfs::entries`].
pub(crate) fn entries(vfs: &Vfs) -> Result<Vec<PortableEntry>> {
    vfs.check_owner()?;
    vfs.look(|look| {
        let mut entries = Vec::new();
        collect(look, &look.root(), &TreePath::root(), &mut entries)?;
        Ok(entries)
    })
}

/// [`Vfs::from_entries`].
pub(crate) fn from_entries(entries: impl IntoIterator<Item = PortableEntry>) -> Result<Vfs> {
    let vfs = Vfs::new();
    vfs.change_many(StoreChange::Stored, |draft| {
        let mut directories = Vec::new();
        for entry in entries {
            draft.step(|look, plan| plan_entry(look, plan, &entry))?;
            if entry.node == PortableNode::Directory {
                directories.push(entry);
            }
        }
        // What is made in a directory sets its time.
        directories.iter().try_for_each(|entry| {
            draft.step(|_, plan| {
                plan.edits.push(entry.attributes_edit());
                Ok(())
            })
        })
    })?;
    Ok(vfs)
}

fn collect<'a>(
    look: &CallerLook<'a>,
    found: &VisibleEntry<'a>,
    path: &TreePath,
    entries: &mut Vec<PortableEntry>,
) -> Looked<()> {
    let policy = match (found.own.and_then(TreeNode::attributes), &found.base) {
        (Some(own), _) => own.policy(),
        (None, base) => base.as_ref().and_then(|base| base.policy()),
    };
    let node = match found.own {
        _ if found.is_directory() => PortableNode::Directory,
        Some(TreeNode::Symlink(link)) => PortableNode::Symlink {
            target: link.target.to_vec(),
        },
        _ => PortableNode::File {
            content: look.content(found, path)?,
            version: found.version().max(1),
        },
    };
    entries.push(PortableEntry {
        path: path.clone(),
        node,
        mode: found.mode(),
        mtime: found.mtime(),
        metadata: found.metadata().cloned().unwrap_or_default(),
        policy: policy.map(|policy| (**policy).clone()),
    });
    if found.is_directory() {
        for (name, child) in look.children(found, path)? {
            collect(look, &child, &path.join(&name), entries)?;
        }
    }
    Ok(())
}

fn plan_entry<'a>(look: &CallerLook<'a>, plan: &mut ChangePlan, entry: &PortableEntry) -> Looked<()> {
    let path = entry.path.clone();
    if path.is_root() {
        if entry.node != PortableNode::Directory {
            return Err(VfsError::NotADirectory { path }.into());
        }
        plan.edits.push(entry.attributes_edit());
        return Ok(());
    }
    let walked = look.walk(&path, false)?;
    if walked.found.is_some() {
        return Err(VfsError::Exists { path }.into());
    }
    if walked.missing.len() > 1 || walked.path != path {
        return Err(VfsError::NotFound { path }.into());
    }
    crate::vfs::check_depth(&path)?;
    let attributes = entry.attributes();
    let node = match &entry.node {
        PortableNode::File { content, version } => TreeNode::File(Arc::new(FileNode {
            content: Arc::clone(content),
            version: (*version).max(1),
            attributes,
            shadows: false,
        })),
        PortableNode::Directory => TreeNode::Directory(Arc::new(DirectoryNode {
            attributes,
            ..DirectoryNode::default()
        })),
        PortableNode::Symlink { target } => TreeNode::Symlink(Arc::new(SymlinkNode {
            target: target.clone().into(),
            attributes,
        })),
    };
    plan.put(&path, node);
    Ok(())
}
