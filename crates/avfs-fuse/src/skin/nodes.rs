//! Which inodes the kernel knows, and under which node ids.
//!
//! A node id is the inode number, except for an inode that was replaced: it gets a number of its own with
//! the top bit set, which no inode has. The table holds one small record per node that the kernel knows; the
//! replaced ones are in a second table that nobody looks at while it is empty.

mod replaced;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use avfs_tree::{Ino, WorkTree};
use rustix::io::Errno;

use self::replaced::Replaced;
use super::error::SkinError;

/// How many parts the table has, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// Lookups that the kernel has not taken back, by node id. While there are any, the tree keeps the inode.
///
/// Lock order: a shard, then the table of replaced nodes, then the tree.
pub(super) struct Nodes {
    tree: Arc<WorkTree>,
    shards: [Mutex<Shard>; SHARDS],
    replaced: Replaced,
}

type Shard = HashMap<u64, u64, BuildHasherDefault<NodeHasher>>;

impl Nodes {
    pub fn new(tree: Arc<WorkTree>) -> Nodes {
        Nodes { tree, shards: Default::default(), replaced: Replaced::default() }
    }

    /// The inode of a node id.
    pub fn ino(&self, node: u64) -> Result<Ino, SkinError> {
        self.replaced.ino(node).ok_or(SkinError::Errno(Errno::STALE))
    }

    /// The kernel is about to be told of an inode once more; returns the node id to tell.
    pub fn remember(&self, ino: Ino) -> Result<u64, SkinError> {
        let node = self.replaced.node(ino);
        if ino == Ino::ROOT {
            return Ok(node);
        }
        match self.shard(node).entry(node) {
            Entry::Occupied(mut lookups) => *lookups.get_mut() += 1,
            Entry::Vacant(vacant) => {
                self.tree.open(ino)?;
                vacant.insert(1);
            }
        }
        Ok(node)
    }

    /// The kernel has taken lookups back.
    pub fn forget(&self, node: u64, lookups: u64) {
        let mut shard = self.shard(node);
        let Entry::Occupied(mut known) = shard.entry(node) else { return };
        *known.get_mut() = known.get().saturating_sub(lookups);
        if *known.get() == 0 {
            known.remove();
            self.release(node);
        }
    }

    /// The kernel is gone.
    pub fn forget_all(&self) {
        for shard in &self.shards {
            let nodes = std::mem::take(&mut *shard.lock().expect("no panic happens while the lock is held"));
            nodes.into_keys().for_each(|node| self.release(node));
        }
    }

    fn release(&self, node: u64) {
        let ino = self.replaced.forget(node);
        // An inode that is gone already has nothing to be released.
        let _ = self.tree.release(ino);
    }

    /// The node id under which the kernel knows an inode.
    pub fn known(&self, ino: Ino) -> Option<u64> {
        let node = self.replaced.node(ino);
        (ino == Ino::ROOT || self.shard(node).contains_key(&node)).then_some(node)
    }

    /// From now on the inode is told under another node id. Returns the one that the kernel knew.
    pub fn replace(&self, ino: Ino) -> Option<u64> {
        let old = self.replaced.node(ino);
        let shard = self.shard(old);
        shard.contains_key(&old).then(|| {
            self.replaced.replace(ino, old);
            old
        })
    }

    fn shard(&self, node: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(node ^ node >> 32) as usize % SHARDS];
        shard.lock().expect("no panic happens while the lock is held")
    }
}

/// Inode numbers are hashes themselves; new node ids count up, which this spreads.
#[derive(Default)]
pub(super) struct NodeHasher(u64);

impl Hasher for NodeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}
