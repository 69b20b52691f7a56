//! What a tree in memory consists of. Every node is behind a counted pointer, so that trees share what is equal.

use std::collections::BTreeMap;
use std::sync::Arc;

use avfs_core::{EntryName, Timestamp};

use crate::map::PersistentMap;
use crate::policy::NodePolicy;
use crate::provider::ProvidedNode;

/// Words that a caller attached to an entry.
pub type Metadata = BTreeMap<String, String>;

/// The bytes of a file. Clones share them.
pub type Content = Arc<Vec<u8>>;

/// The entries of a directory by name.
pub(crate) type Entries = PersistentMap<EntryName, TreeNode>;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum TreeNode {
    File(Arc<FileNode>),
    Directory(Arc<DirectoryNode>),
    Symlink(Arc<SymlinkNode>),
    /// A provided file, where it was mounted.
    Provided(Arc<ProvidedNode>),
    /// Hides an entry that the provider of the directory would give.
    Removed,
}

#[derive(Clone, Debug)]
pub(crate) struct FileNode {
    pub content: Content,
    pub version: u64,
    pub attributes: NodeAttributes,
    /// Whether a provided file was there before: then its creation is reported as an update.
    pub shadows: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SymlinkNode {
    pub target: Box<[u8]>,
    pub attributes: NodeAttributes,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DirectoryNode {
    pub entries: Entries,
    pub base: DirectoryBase,
    pub attributes: NodeAttributes,
}

/// What lies below the entries of a directory.
#[derive(Clone, Debug, Default)]
pub(crate) enum DirectoryBase {
    #[default]
    Nothing,
    /// A provided directory that was mounted here.
    Mounted(Arc<ProvidedNode>),
    /// The directory of this name that the base of the parent provides.
    OfParent,
}

/// What every entry has. Most entries have nothing extra.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeAttributes {
    pub mode: u32,
    pub mtime: Timestamp,
    pub extra: Option<Arc<NodeExtra>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeExtra {
    pub metadata: Metadata,
    pub policy: Option<Arc<NodePolicy>>,
}

impl NodeAttributes {
    pub(crate) fn new(mode: u32, mtime: Timestamp) -> NodeAttributes {
        NodeAttributes {
            mode,
            mtime,
            extra: None,
        }
    }

    pub(crate) fn policy(&self) -> Option<&Arc<NodePolicy>> {
        self.extra.as_ref()?.policy.as_ref()
    }

    pub(crate) fn metadata(&self) -> Option<&Metadata> {
        Some(&self.extra.as_ref()?.metadata)
    }

    pub(crate) fn edit_extra(&mut self, edit: impl FnOnce(&mut NodeExtra)) {
        let mut extra = self
            .extra
            .take()
            .map_or_else(NodeExtra::default, Arc::unwrap_or_clone);
        edit(&mut extra);
        self.extra = (extra != NodeExtra::default()).then(|| Arc::new(extra));
    }
}

impl TreeNode {
    pub(crate) fn attributes(&self) -> Option<&NodeAttributes> {
        match self {
            TreeNode::File(file) => Some(&file.attributes),
            TreeNode::Directory(directory) => Some(&directory.attributes),
            TreeNode::Symlink(link) => Some(&link.attributes),
            TreeNode::Provided(_) | TreeNode::Removed => None,
        }
    }

    pub(crate) fn attributes_mut(&mut self) -> Option<&mut NodeAttributes> {
        match self {
            TreeNode::File(file) => Some(&mut Arc::make_mut(file).attributes),
            TreeNode::Directory(directory) => Some(&mut Arc::make_mut(directory).attributes),
            TreeNode::Symlink(link) => Some(&mut Arc::make_mut(link).attributes),
            TreeNode::Provided(_) | TreeNode::Removed => None,
        }
    }

    /// Whether both are the same object in memory.
    pub(crate) fn is_same(&self, other: &TreeNode) -> bool {
        match (self, other) {
            (TreeNode::File(a), TreeNode::File(b)) => Arc::ptr_eq(a, b),
            (TreeNode::Directory(a), TreeNode::Directory(b)) => Arc::ptr_eq(a, b),
            (TreeNode::Symlink(a), TreeNode::Symlink(b)) => Arc::ptr_eq(a, b),
            (TreeNode::Provided(a), TreeNode::Provided(b)) => Arc::ptr_eq(a, b),
            (TreeNode::Removed, TreeNode::Removed) => true,
            _ => false,
        }
    }
}

/// How much a tree holds itself, without what providers would give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Files, directories and links, without the root.
    pub entries: u64,
    /// The sum of the file sizes.
    pub bytes: u64,
}

impl Usage {
    pub(crate) fn of(node: &TreeNode) -> Usage {
        let own = |bytes: usize| Usage {
            entries: 1,
            bytes: bytes as u64,
        };
        match node {
            TreeNode::File(file) => own(file.content.len()),
            TreeNode::Symlink(_) | TreeNode::Provided(_) => own(0),
            TreeNode::Removed => Usage::default(),
            TreeNode::Directory(directory) => directory
                .entries
                .iter()
                .map(|(_, node)| Usage::of(node))
                .fold(own(0), Usage::plus),
        }
    }

    pub(crate) fn plus(self, other: Usage) -> Usage {
        Usage {
            entries: self.entries + other.entries,
            bytes: self.bytes + other.bytes,
        }
    }

    pub(crate) fn minus(self, other: Usage) -> Usage {
        Usage {
            entries: self.entries.saturating_sub(other.entries),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}
