//! How often each node is open in this mount: what must be known before the kernel is given contents unasked.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::nodes::NodeHasher;

/// How many parts the table has, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// Handles that were not released yet, by node. A node without any is not in it.
///
/// A part is locked before the tree is called, which never calls this table.
#[derive(Default)]
pub(super) struct Opens {
    shards: [Mutex<Shard>; SHARDS],
}

type Shard = HashMap<u64, u32, BuildHasherDefault<NodeHasher>>;

/// A node that nobody opens or closes, nor makes shorter or longer, as long as this lives.
pub(super) struct Held<'a> {
    node: u64,
    shard: MutexGuard<'a, Shard>,
}

impl Opens {
    pub fn hold(&self, node: u64) -> Held<'_> {
        Held { node, shard: lock(&self.shards[(node ^ node >> 32) as usize % SHARDS]) }
    }

    /// How many handles there are, of all nodes.
    pub fn total(&self) -> u64 {
        let handles = |shard: &Mutex<Shard>| lock(shard).values().map(|count| u64::from(*count)).sum::<u64>();
        self.shards.iter().map(handles).sum()
    }
}

impl Held<'_> {
    pub fn node(&self) -> u64 {
        self.node
    }

    pub fn is_open(&self) -> bool {
        self.shard.contains_key(&self.node)
    }

    /// There is one more handle.
    pub fn open(mut self) {
        *self.shard.entry(self.node).or_default() += 1;
    }

    /// There is one handle less.
    pub fn close(mut self) {
        if let Entry::Occupied(mut handles) = self.shard.entry(self.node) {
            *handles.get_mut() -= 1;
            if *handles.get() == 0 {
                handles.remove();
            }
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_open_until_its_last_handle_is_released() {
        let opens = Opens::default();
        opens.hold(7).open();
        opens.hold(7).open();
        opens.hold(8).open();
        opens.hold(7).close();
        assert!(opens.hold(7).is_open() && opens.hold(8).is_open());
        opens.hold(7).close();
        // One that was not counted, because it was opened without asking.
        opens.hold(9).close();
        assert!(!opens.hold(7).is_open() && !opens.hold(9).is_open());
        assert_eq!(opens.total(), 1);
    }
}
