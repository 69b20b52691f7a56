//! The inodes that the kernel knows, and their node ids.
//!
//! A node id is the inode number, except for an inode that was replaced: it gets a number of its own with the
//! top bit set, which no inode has. The table holds one small record per node that the kernel knows; the
//! replaced ones are in a second table that is skipped while it is empty.

mod replaced;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avfs_tree::{Ino, KnownInode, WorkTree};
use rustix::io::Errno;

use self::replaced::ReplacedNodes;
use super::error::SkinError;

/// The number of shards of the table, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// Lookups that the kernel has not forgotten, by node id. The tree counts the same number of holds per inode
/// when it returns one; this table is needed to release them when the kernel disappears without forgetting.
///
/// No lock of this table is held while the tree is called: the tree calls it while it is locked.
pub(super) struct KernelNodes {
    tree: Arc<WorkTree>,
    shards: [Mutex<NodeShard>; SHARDS],
    replaced: ReplacedNodes,
}

type NodeShard = HashMap<u64, KnownNode, BuildHasherDefault<NodeHasher>>;

/// The state of a node. There may be a million of them.
#[derive(Default)]
struct KnownNode {
    lookups: u32,
    /// The kernel was given its contents, or requests them itself.
    has_contents: bool,
    /// How many more direct writes invalidate their own pages; zero if the kernel has no pages.
    cached_for: u16,
}

/// After this many direct writes without a page request from the kernel, all pages of the file are dropped,
/// and later direct writes invalidate nothing.
const DIRECT_WRITES: u16 = 1000;

/// The pages that a direct write makes the kernel drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DroppedPages {
    Written,
    Whole,
}

impl KernelNodes {
    pub(super) fn new(tree: Arc<WorkTree>) -> KernelNodes {
        KernelNodes {
            tree,
            shards: Default::default(),
            replaced: ReplacedNodes::default(),
        }
    }

    /// The inode of a node id.
    pub(super) fn ino(&self, node: u64) -> Result<Ino, SkinError> {
        self.replaced.ino(node).ok_or(SkinError::Errno(Errno::STALE))
    }

    /// The current or former inode of a node id.
    pub(super) fn meant(&self, node: u64) -> Ino {
        self.replaced.meaning(node)
    }

    /// The inode of a node id, as it is known now: if it is replaced before it is used, the tree refuses the
    /// request.
    pub(super) fn at(&self, node: u64) -> Result<KnownInode, SkinError> {
        let known = Some(self.tree.moment());
        Ok(KnownInode {
            ino: self.ino(node)?,
            known,
        })
    }

    /// An inode is about to be reported to the kernel once more; returns the node id to report.
    pub(super) fn remember(&self, ino: Ino) -> u64 {
        let node = self.node(ino);
        self.shard(node).entry(node).or_default().lookups += 1;
        node
    }

    /// The kernel has forgotten lookups. Returns the inode if it no longer knows it.
    pub(super) fn forget(&self, node: u64, lookups: u64) -> Option<Ino> {
        let mut shard = self.shard(node);
        let Entry::Occupied(mut known) = shard.entry(node) else {
            return None;
        };
        let lookups = u32::try_from(lookups)
            .unwrap_or(u32::MAX)
            .min(known.get().lookups);
        known.get_mut().lookups -= lookups;
        let is_last = known.get().lookups == 0;
        if is_last {
            known.remove();
            give_room_back(&mut shard);
        }
        drop(shard);
        let ino = self.release(node, lookups, is_last);
        is_last.then_some(ino)
    }

    /// The kernel is gone.
    pub(super) fn forget_all(&self) {
        for shard in &self.shards {
            let nodes = std::mem::take(&mut *lock(shard));
            nodes
                .into_iter()
                .for_each(|(node, known)| _ = self.release(node, known.lookups, true));
        }
    }

    fn release(&self, node: u64, lookups: u32, is_last: bool) -> Ino {
        let ino = if is_last {
            self.replaced.forget(node)
        } else {
            self.replaced.meaning(node)
        };
        // An inode that is gone needs no release.
        let _ = self.tree.release(ino, lookups);
        ino
    }

    /// The node id under which an inode is reported to the kernel.
    pub(super) fn node(&self, ino: Ino) -> u64 {
        self.replaced.node(ino)
    }

    /// The same, if the kernel knows the inode.
    pub(super) fn known(&self, ino: Ino) -> Option<u64> {
        let node = self.node(ino);
        (ino == Ino::ROOT || self.shard(node).contains_key(&node)).then_some(node)
    }

    /// Whether the kernel was given the contents of a node, or requests them itself.
    pub(super) fn has_contents(&self, node: u64) -> bool {
        self.shard(node)
            .get(&node)
            .is_some_and(|known| known.has_contents)
    }

    pub(super) fn set_has_contents(&self, node: u64, has_contents: bool) {
        if let Some(known) = self.shard(node).get_mut(&node) {
            known.has_contents = has_contents;
        }
    }

    /// The kernel is about to have pages of a file.
    pub(super) fn set_cached(&self, node: u64) {
        if let Some(known) = self.shard(node).get_mut(&node) {
            known.cached_for = DIRECT_WRITES;
        }
    }

    /// A file was written past the kernel's pages. Calls `invalidate` if the kernel may have any, before the
    /// next direct write could conclude that it has none.
    pub(super) fn written_past_cache(&self, node: u64, invalidate: impl FnOnce(DroppedPages)) {
        let mut shard = self.shard(node);
        let Some(known) = shard.get_mut(&node).filter(|known| known.cached_for > 0) else {
            return;
        };
        known.cached_for -= 1;
        invalidate(if known.cached_for == 0 {
            DroppedPages::Whole
        } else {
            DroppedPages::Written
        });
    }

    /// From now on the inode is reported under another node id. Returns the one that the kernel knew.
    pub(super) fn replace(&self, ino: Ino) -> Option<u64> {
        let old = self.known(ino)?;
        self.replaced.replace(ino, old);
        Some(old)
    }

    fn shard(&self, node: u64) -> MutexGuard<'_, NodeShard> {
        lock(&self.shards[(node ^ node >> 32) as usize % SHARDS])
    }
}

/// After a walk over a million files the kernel forgets them one by one; without shrinking, the empty table
/// would keep its memory.
fn give_room_back(shard: &mut NodeShard) {
    const SMALLEST: usize = 64;
    if shard.capacity() > SMALLEST && shard.len() < shard.capacity() / 4 {
        shard.shrink_to(2 * shard.len());
    }
}

fn lock(shard: &Mutex<NodeShard>) -> MutexGuard<'_, NodeShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Inode numbers are hashes themselves; fresh node ids are consecutive, which this spreads.
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
        self.0 = (self.0 ^ number)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }
}
