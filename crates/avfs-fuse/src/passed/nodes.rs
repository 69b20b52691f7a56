//! What the kernel knows by number: a name in a directory, and which file had it when it was looked up.

use std::collections::HashMap;

use rustix::fs::Stat;
use rustix::io::Errno;

use crate::abi::ROOT_ID;

/// Which file of the host: another one under the same name is another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// A directory of a cache is one and the same, whether it is in the layer already or on the host alone.
    pub(super) const CACHED_DIRECTORY: Identity = Identity { device: u64::MAX, inode: u64::MAX };
}

impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Identity {
        Identity { device: stat.st_dev, inode: stat.st_ino }
    }
}

type Name = Box<[u8]>;

struct Node {
    parent: u64,
    name: Name,
    is: Identity,
    lookups: u64,
    /// How many nodes have it for a parent.
    children: u64,
    /// Its name is another's by now, or nobody's.
    nameless: bool,
}

pub(super) struct Nodes {
    known: HashMap<u64, Node>,
    by_name: HashMap<(u64, Name), u64>,
    next: u64,
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes { known: HashMap::new(), by_name: HashMap::new(), next: ROOT_ID + 1 }
    }
}

impl Nodes {
    /// The names that lead to a node from the root.
    pub(super) fn names(&self, mut node: u64) -> Result<Vec<Name>, Errno> {
        let mut names = Vec::new();
        while node != ROOT_ID {
            let known = self.known.get(&node).filter(|known| !known.nameless).ok_or(Errno::STALE)?;
            names.push(known.name.clone());
            node = known.parent;
        }
        names.reverse();
        Ok(names)
    }

    pub(super) fn identity(&self, node: u64) -> Option<Identity> {
        self.known.get(&node).map(|known| known.is)
    }

    /// The node that the kernel knows by a name.
    pub(super) fn named(&self, parent: u64, name: &[u8]) -> Option<u64> {
        self.by_name.get(&(parent, Name::from(name))).copied()
    }

    /// A node has become another file.
    pub(super) fn identify(&mut self, node: u64, is: Identity) {
        if let Some(known) = self.known.get_mut(&node) {
            known.is = is;
        }
    }

    /// The kernel is told of an entry; the answer is its number.
    pub(super) fn look_up(&mut self, parent: u64, name: &[u8], is: Identity) -> u64 {
        let key = (parent, Name::from(name));
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
        let fresh = Node { parent, name: key.1.clone(), is, lookups: 1, children: 0, nameless: false };
        self.known.insert(node, fresh);
        self.by_name.insert(key, node);
        self.count_child(parent, 1);
        node
    }

    /// A name is gone. Whoever has the file open has it on.
    pub(super) fn unname(&mut self, parent: u64, name: &[u8]) {
        if let Some(node) = self.by_name.remove(&(parent, Name::from(name)))
            && let Some(known) = self.known.get_mut(&node)
        {
            known.nameless = true;
        }
    }

    pub(super) fn rename(&mut self, old: (u64, &[u8]), new: (u64, &[u8])) {
        self.unname(new.0, new.1);
        let Some(node) = self.by_name.remove(&(old.0, Name::from(old.1))) else { return };
        self.count_child(old.0, -1);
        self.count_child(new.0, 1);
        if let Some(known) = self.known.get_mut(&node) {
            (known.parent, known.name) = (new.0, new.1.into());
        }
        self.by_name.insert((new.0, new.1.into()), node);
    }

    pub(super) fn exchange(&mut self, one: (u64, &[u8]), other: (u64, &[u8])) {
        // The kernel asks anew for both.
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

    /// A node goes when the kernel has forgotten it and nothing below it is known.
    fn drop_unused(&mut self, mut node: u64) {
        while let Some(known) =
            self.known.get(&node).filter(|known| known.lookups == 0 && known.children == 0)
        {
            let (parent, key) = (known.parent, (known.parent, known.name.clone()));
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

    fn file(inode: u64) -> Identity {
        Identity { device: 1, inode }
    }

    #[test]
    fn another_file_under_the_same_name_is_another_node() {
        let mut nodes = Nodes::default();
        let first = nodes.look_up(ROOT_ID, b"a", file(1));
        assert_eq!(nodes.look_up(ROOT_ID, b"a", file(1)), first);
        let second = nodes.look_up(ROOT_ID, b"a", file(2));
        assert_ne!(second, first);
        assert_eq!(nodes.names(first), Err(Errno::STALE));
        assert_eq!(nodes.names(second).unwrap(), [Name::from(*b"a")]);
    }

    #[test]
    fn what_is_below_a_moved_directory_moves_along() {
        let mut nodes = Nodes::default();
        let directory = nodes.look_up(ROOT_ID, b"d", file(1));
        let inner = nodes.look_up(directory, b"f", file(2));
        nodes.rename((ROOT_ID, b"d"), (ROOT_ID, b"e"));
        assert_eq!(nodes.names(inner).unwrap(), [Name::from(*b"e"), Name::from(*b"f")]);
    }

    #[test]
    fn what_the_kernel_forgot_goes_with_the_directories_above_it() {
        let mut nodes = Nodes::default();
        let directory = nodes.look_up(ROOT_ID, b"d", file(1));
        let inner = nodes.look_up(directory, b"f", file(2));
        nodes.forget(directory, 1);
        assert!(nodes.names(inner).is_ok());
        nodes.forget(inner, 1);
        assert!(nodes.known.is_empty() && nodes.by_name.is_empty());
    }
}
