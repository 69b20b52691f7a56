//! The nodes that the kernel knows by number: a name in a directory, and the file that had it when it was
//! looked up.

use std::collections::HashMap;

use rustix::fs::Stat;
use rustix::io::Errno;

use crate::abi::ROOT_ID;

/// Identifies a file of the host: another file under the same name is another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// A directory of a cache keeps its identity, whether it is in the layer already or only on the host.
    pub(super) const CACHED_DIRECTORY: FileIdentity = FileIdentity {
        device: u64::MAX,
        inode: u64::MAX,
    };
}

impl From<&Stat> for FileIdentity {
    fn from(stat: &Stat) -> FileIdentity {
        FileIdentity {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

type NodeName = Box<[u8]>;

struct PathNode {
    parent: u64,
    name: NodeName,
    is: FileIdentity,
    lookups: u64,
    /// The number of nodes whose parent it is.
    children: u64,
    /// Its name was removed or belongs to another node by now.
    nameless: bool,
}

pub(super) struct PathNodes {
    known: HashMap<u64, PathNode>,
    by_name: HashMap<(u64, NodeName), u64>,
    next: u64,
}

impl Default for PathNodes {
    fn default() -> PathNodes {
        PathNodes {
            known: HashMap::new(),
            by_name: HashMap::new(),
            next: ROOT_ID + 1,
        }
    }
}

impl PathNodes {
    /// The names that lead to a node from the root.
    pub(super) fn names(&self, mut node: u64) -> Result<Vec<NodeName>, Errno> {
        let mut names = Vec::new();
        while node != ROOT_ID {
            let known = self
                .known
                .get(&node)
                .filter(|known| !known.nameless)
                .ok_or(Errno::STALE)?;
            names.push(known.name.clone());
            node = known.parent;
        }
        names.reverse();
        Ok(names)
    }

    pub(super) fn identity(&self, node: u64) -> Option<FileIdentity> {
        self.known.get(&node).map(|known| known.is)
    }

    /// The node that the kernel knows by a name.
    pub(super) fn named(&self, parent: u64, name: &[u8]) -> Option<u64> {
        self.by_name.get(&(parent, NodeName::from(name))).copied()
    }

    /// A node now represents another file.
    pub(super) fn identify(&mut self, node: u64, is: FileIdentity) {
        if let Some(known) = self.known.get_mut(&node) {
            known.is = is;
        }
    }

    /// Counts a lookup by the kernel; returns the node's number.
    pub(super) fn look_up(&mut self, parent: u64, name: &[u8], is: FileIdentity) -> u64 {
        let key = (parent, NodeName::from(name));
        if let Some(node) = self.by_name.get(&key).copied() {
            match self.known.get_mut(&node) {
                Some(known) if known.is == is => {
                    known.lookups += 1;
                    return node;
                }
                Some(_) | None => self.unname(parent, name),
            }
        }
        let node = self.next;
        self.next += 1;
        let fresh = PathNode {
            parent,
            name: key.1.clone(),
            is,
            lookups: 1,
            children: 0,
            nameless: false,
        };
        self.known.insert(node, fresh);
        self.by_name.insert(key, node);
        self.count_child(parent, 1);
        node
    }

    /// A name was removed. Programs that have the file open can still use it.
    pub(super) fn unname(&mut self, parent: u64, name: &[u8]) {
        if let Some(node) = self.by_name.remove(&(parent, NodeName::from(name)))
            && let Some(known) = self.known.get_mut(&node)
        {
            known.nameless = true;
        }
    }

    pub(super) fn rename(&mut self, old: (u64, &[u8]), new: (u64, &[u8])) {
        self.unname(new.0, new.1);
        let Some(node) = self.by_name.remove(&(old.0, NodeName::from(old.1))) else {
            return;
        };
        self.count_child(old.0, -1);
        self.count_child(new.0, 1);
        if let Some(known) = self.known.get_mut(&node) {
            known.parent = new.0;
            known.name = new.1.into();
        }
        self.by_name.insert((new.0, new.1.into()), node);
    }

    pub(super) fn exchange(&mut self, one: (u64, &[u8]), other: (u64, &[u8])) {
        // The kernel looks both up again.
        self.unname(one.0, one.1);
        self.unname(other.0, other.1);
    }

    pub(super) fn forget(&mut self, node: u64, lookups: u64) {
        if let Some(known) = self.known.get_mut(&node) {
            known.lookups = known.lookups.saturating_sub(lookups);
        }
        self.drop_unused(node);
    }

    fn count_child(&mut self, parent: u64, by: i64) {
        if let Some(known) = self.known.get_mut(&parent) {
            known.children = known.children.saturating_add_signed(by);
        }
    }

    /// Removes a node when the kernel has forgotten it and knows nothing below it.
    fn drop_unused(&mut self, mut node: u64) {
        while let Some(known) = self
            .known
            .get(&node)
            .filter(|known| known.lookups == 0 && known.children == 0)
        {
            let parent = known.parent;
            let key = (known.parent, known.name.clone());
            if self.by_name.get(&key) == Some(&node) {
                self.by_name.remove(&key);
            }
            self.known.remove(&node);
            self.count_child(parent, -1);
            node = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64) -> FileIdentity {
        FileIdentity { device: 1, inode }
    }

    #[test]
    fn another_file_under_the_same_name_is_another_node() {
        let mut nodes = PathNodes::default();
        let first = nodes.look_up(ROOT_ID, b"a", file(1));
        assert_eq!(nodes.look_up(ROOT_ID, b"a", file(1)), first);
        let second = nodes.look_up(ROOT_ID, b"a", file(2));
        assert_ne!(second, first);
        assert_eq!(nodes.names(first), Err(Errno::STALE));
        assert_eq!(nodes.names(second).unwrap(), [NodeName::from(*b"a")]);
    }

    #[test]
    fn entries_below_a_moved_directory_move_along() {
        let mut nodes = PathNodes::default();
        let directory = nodes.look_up(ROOT_ID, b"d", file(1));
        let inner = nodes.look_up(directory, b"f", file(2));
        nodes.rename((ROOT_ID, b"d"), (ROOT_ID, b"e"));
        assert_eq!(
            nodes.names(inner).unwrap(),
            [NodeName::from(*b"e"), NodeName::from(*b"f")]
        );
    }

    #[test]
    fn forgotten_inode_goes_with_the_directories_above_it() {
        let mut nodes = PathNodes::default();
        let directory = nodes.look_up(ROOT_ID, b"d", file(1));
        let inner = nodes.look_up(directory, b"f", file(2));
        nodes.forget(directory, 1);
        assert!(nodes.names(inner).is_ok());
        nodes.forget(inner, 1);
        assert!(nodes.known.is_empty() && nodes.by_name.is_empty());
    }
}
