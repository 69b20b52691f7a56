//! Which inodes the kernel knows, and under which node ids.
//!
//! A node id is the inode number, except for an inode that was replaced: it gets a number of its own with
//! the top bit set, which no inode has. The table holds one small record per node that the kernel knows; the
//! replaced ones are in a second table that nobody looks at while it is empty.

mod replaced;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avfs_tree::{At, Ino, WorkTree};
use rustix::io::Errno;

use self::replaced::Replaced;
use super::error::SkinError;

/// How many parts the table has, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// Lookups that the kernel has not taken back, by node id. The tree holds each inode as often, which is counted
/// by it when it tells us of one; this table is what knows of them when the kernel goes without a word.
///
/// No lock of this table is held while the tree is called: the tree calls it while it stands still.
pub(super) struct Nodes {
    tree: Arc<WorkTree>,
    shards: [Mutex<Shard>; SHARDS],
    replaced: Replaced,
}

type Shard = HashMap<u64, Known, BuildHasherDefault<NodeHasher>>;

/// What there is to know of a node. There may be a million of them.
#[derive(Default)]
struct Known {
    lookups: u32,
    /// The kernel was given its contents, or asks for them itself.
    has_contents: bool,
    /// How many more direct writes invalidate their own pages; zero if the kernel has no pages.
    cached_for: u16,
}

/// After this many direct writes during which the kernel has asked for no page, it drops all pages of the file, and the
/// direct writes that follow invalidate nothing.
const DIRECT_WRITES: u16 = 1000;

/// The pages that a direct write makes the kernel drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dropped {
    Written,
    Whole,
}

impl Nodes {
    pub fn new(tree: Arc<WorkTree>) -> Nodes {
        Nodes { tree, shards: Default::default(), replaced: Replaced::default() }
    }

    /// The inode of a node id.
    pub fn ino(&self, node: u64) -> Result<Ino, SkinError> {
        self.replaced.ino(node).ok_or(SkinError::Errno(Errno::STALE))
    }

    /// The inode that a node id stands or stood for.
    pub fn meant(&self, node: u64) -> Ino {
        self.replaced.meaning(node)
    }

    /// The inode of a node id, as it is known now: if it is replaced before it is used, the tree says so.
    pub fn at(&self, node: u64) -> Result<At, SkinError> {
        let known = Some(self.tree.moment());
        Ok(At { ino: self.ino(node)?, known })
    }

    /// The kernel is about to be told of an inode once more; returns the node id to tell.
    pub fn remember(&self, ino: Ino) -> u64 {
        let node = self.node(ino);
        self.shard(node).entry(node).or_default().lookups += 1;
        node
    }

    /// The kernel has taken lookups back. Returns the inode if it does not know it any more.
    pub fn forget(&self, node: u64, lookups: u64) -> Option<Ino> {
        let mut shard = self.shard(node);
        let Entry::Occupied(mut known) = shard.entry(node) else { return None };
        let lookups = u32::try_from(lookups).unwrap_or(u32::MAX).min(known.get().lookups);
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
    pub fn forget_all(&self) {
        for shard in &self.shards {
            let nodes = std::mem::take(&mut *lock(shard));
            nodes.into_iter().for_each(|(node, known)| _ = self.release(node, known.lookups, true));
        }
    }

    fn release(&self, node: u64, lookups: u32, is_last: bool) -> Ino {
        let ino = if is_last { self.replaced.forget(node) } else { self.replaced.meaning(node) };
        // An inode that is gone already has nothing to be released.
        let _ = self.tree.release(ino, lookups);
        ino
    }

    /// The node id under which the kernel is told of an inode.
    pub fn node(&self, ino: Ino) -> u64 {
        self.replaced.node(ino)
    }

    /// The same, if the kernel knows the inode.
    pub fn known(&self, ino: Ino) -> Option<u64> {
        let node = self.node(ino);
        (ino == Ino::ROOT || self.shard(node).contains_key(&node)).then_some(node)
    }

    /// Whether the kernel was given the contents of a node, or asks for them itself.
    pub fn has_contents(&self, node: u64) -> bool {
        self.shard(node).get(&node).is_some_and(|known| known.has_contents)
    }

    pub fn set_has_contents(&self, node: u64, has_contents: bool) {
        if let Some(known) = self.shard(node).get_mut(&node) {
            known.has_contents = has_contents;
        }
    }

    /// The kernel is about to have pages of a file.
    pub fn set_cached(&self, node: u64) {
        if let Some(known) = self.shard(node).get_mut(&node) {
            known.cached_for = DIRECT_WRITES;
        }
    }

    /// A file was written past the kernel's pages. Calls `invalidate` if the kernel may have any, before the next
    /// direct write could find that it has none.
    pub fn written_past_cache(&self, node: u64, invalidate: impl FnOnce(Dropped)) {
        let mut shard = self.shard(node);
        let Some(known) = shard.get_mut(&node).filter(|known| known.cached_for > 0) else { return };
        known.cached_for -= 1;
        invalidate(if known.cached_for == 0 { Dropped::Whole } else { Dropped::Written });
    }

    /// From now on the inode is told under another node id. Returns the one that the kernel knew.
    pub fn replace(&self, ino: Ino) -> Option<u64> {
        let old = self.known(ino)?;
        self.replaced.replace(ino, old);
        Some(old)
    }

    fn shard(&self, node: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[(node ^ node >> 32) as usize % SHARDS])
    }
}

/// After a walk over a million files the kernel forgets them one by one, and nothing would be left but room.
fn give_room_back(shard: &mut Shard) {
    const SMALLEST: usize = 64;
    if shard.capacity() > SMALLEST && shard.len() < shard.capacity() / 4 {
        shard.shrink_to(2 * shard.len());
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
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
