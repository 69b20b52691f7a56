//! Inodes that are not known under their own number, because they were replaced without a request of the
//! kernel.

use std::collections::HashMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use avfs_tree::Ino;

/// No inode number has this bit.
const FRESH: u64 = 1 << 63;

#[derive(Default)]
pub(super) struct ReplacedNodes {
    /// Whether the table is in use: checked first by every request.
    used: AtomicBool,
    table: RwLock<ReplacedTable>,
}

#[derive(Default)]
struct ReplacedTable {
    /// The node id of an inode, if it differs from the inode number.
    current: HashMap<Ino, u64>,
    /// The meaning of a node id, if it is not the inode of that number; old ones are kept until the kernel
    /// forgets them.
    nodes: HashMap<u64, NodeMeaning>,
    fresh: u64,
}

#[derive(Clone, Copy)]
struct NodeMeaning {
    ino: Ino,
    stale: bool,
}

impl ReplacedNodes {
    /// The inode of a node id; `None` if it was replaced.
    pub(super) fn ino(&self, node: u64) -> Option<Ino> {
        let meaning = self.look(|table| table.nodes.get(&node).copied()).flatten();
        match meaning {
            Some(NodeMeaning { stale: true, .. }) => None,
            Some(NodeMeaning { ino, stale: false }) => Some(ino),
            None => Some(Ino(node)),
        }
    }

    /// The current or former inode of a node id.
    pub(super) fn meaning(&self, node: u64) -> Ino {
        self.look(|table| table.nodes.get(&node).copied())
            .flatten()
            .map_or(Ino(node), |meaning| meaning.ino)
    }

    /// The node id of an inode.
    pub(super) fn node(&self, ino: Ino) -> u64 {
        self.look(|table| table.current.get(&ino).copied())
            .flatten()
            .unwrap_or(ino.0)
    }

    fn look<T>(&self, ask: impl FnOnce(&ReplacedTable) -> T) -> Option<T> {
        let used = self.used.load(Ordering::Acquire);
        used.then(|| {
            ask(&self
                .table
                .read()
                .expect("no panic happens while the lock is held"))
        })
    }

    /// Gives an inode a fresh node id.
    pub(super) fn replace(&self, ino: Ino, old: u64) {
        let mut table = self
            .table
            .write()
            .expect("no panic happens while the lock is held");
        table.fresh += 1;
        let fresh = FRESH | table.fresh;
        table.nodes.insert(old, NodeMeaning { ino, stale: true });
        table.nodes.insert(fresh, NodeMeaning { ino, stale: false });
        table.current.insert(ino, fresh);
        // After the table is filled: a thread that sees the flag finds the entries.
        self.used.store(true, Ordering::Release);
    }

    /// The kernel no longer knows a node id; returns its inode. A fresh one stays in use, because the inode's
    /// number may still be known as a stale node.
    pub(super) fn forget(&self, node: u64) -> Ino {
        let known = self.look(|table| table.nodes.get(&node).copied()).flatten();
        let Some(meaning) = known else { return Ino(node) };
        if meaning.stale {
            let mut table = self
                .table
                .write()
                .expect("no panic happens while the lock is held");
            table.nodes.remove(&node);
        }
        meaning.ino
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_inode_has_a_fresh_node_and_the_old_one_is_stale() {
        let replaced = ReplacedNodes::default();
        let ino = Ino(77);
        assert_eq!((replaced.node(ino), replaced.ino(77)), (77, Some(ino)));
        replaced.replace(ino, 77);
        let fresh = replaced.node(ino);
        assert_eq!(fresh >> 63, 1);
        assert_eq!((replaced.ino(77), replaced.ino(fresh)), (None, Some(ino)));
        replaced.replace(ino, fresh);
        assert_eq!(replaced.ino(fresh), None);
        assert_ne!(replaced.node(ino), fresh);
        assert_eq!(replaced.forget(77), ino, "what it stood for is released");
        assert_eq!(replaced.ino(replaced.node(ino)), Some(ino));
    }
}
