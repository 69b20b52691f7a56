//! How often each node is open in this mount: checked before the kernel is given contents that it did not
//! request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::nodes::NodeHasher;

/// The number of shards of the table, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// Handles that were not released yet, by node. A node without any has no entry.
///
/// Lock order: a shard, then the tree, which never calls this table.
#[derive(Default)]
pub(super) struct OpenHandles {
    shards: [Mutex<OpenShard>; SHARDS],
}

type OpenShard = HashMap<u64, u32, BuildHasherDefault<NodeHasher>>;

/// While this lives, no request opens or closes the node, nor changes its size.
pub(super) struct HeldNode<'a> {
    node: u64,
    shard: MutexGuard<'a, OpenShard>,
}

impl OpenHandles {
    pub(super) fn hold(&self, node: u64) -> HeldNode<'_> {
        HeldNode {
            node,
            shard: lock(&self.shards[(node ^ node >> 32) as usize % SHARDS]),
        }
    }

    /// The number of handles of all nodes.
    pub(super) fn total(&self) -> u64 {
        let handles =
            |shard: &Mutex<OpenShard>| lock(shard).values().map(|count| u64::from(*count)).sum::<u64>();
        self.shards.iter().map(handles).sum()
    }
}

impl HeldNode<'_> {
    pub(super) fn node(&self) -> u64 {
        self.node
    }

    pub(super) fn is_open(&self) -> bool {
        self.shard.contains_key(&self.node)
    }

    /// Adds a handle.
    pub(super) fn open(mut self) {
        *self.shard.entry(self.node).or_default() += 1;
    }

    /// Removes a handle.
    pub(super) fn close(mut self) {
        if let Entry::Occupied(mut handles) = self.shard.entry(self.node) {
            *handles.get_mut() -= 1;
            if *handles.get() == 0 {
                handles.remove();
            }
        }
    }
}

fn lock(shard: &Mutex<OpenShard>) -> MutexGuard<'_, OpenShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_open_until_its_last_handle_is_released() {
        let opens = OpenHandles::default();
        opens.hold(7).open();
        opens.hold(7).open();
        opens.hold(8).open();
        opens.hold(7).close();
        assert!(opens.hold(7).is_open() && opens.hold(8).is_open());
        opens.hold(7).close();
        // Inode 9 was not counted, because it was opened without a request.
        opens.hold(9).close();
        assert!(!opens.hold(7).is_open() && !opens.hold(9).is_open());
        assert_eq!(opens.total(), 1);
    }
}
