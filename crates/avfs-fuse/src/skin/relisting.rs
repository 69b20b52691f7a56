//! Which directories are worth listing again, although the kernel has cached their listing.
//!
//! After a read the kernel requests the attributes of the file again, because it assumes that the time of
//! access has changed. If many files of a directory were read, listing it renews their attributes with a few
//! requests instead of one per file; but the kernel lists a directory again only if its cached listing is
//! dropped.

use super::directories::DirectoryRequests;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Mutex, MutexGuard, PoisonError};

use avfs_tree::{Ino, ReadPiece};

use super::MountAccess;
use super::nodes::NodeHasher;
use crate::abi::ReadIn;
use crate::abi::flags::open_out;

/// The number of shards of the table, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// Listing takes at least two requests: one for names, one that finds no more.
const READ_MIN: usize = 4;

/// Each name of a listing costs about an eighth of a request.
const NAMES_PER_READ: usize = 8;

/// Directories that were listed with attributes, until the kernel forgets them.
#[derive(Default)]
pub(super) struct AttributeListings {
    shards: [Mutex<ListingShard>; SHARDS],
}

type ListingShard = HashMap<Ino, ListedCounts, BuildHasherDefault<NodeHasher>>;

/// Counts for a directory since it was last listed from its beginning.
#[derive(Default)]
struct ListedCounts {
    names: usize,
    /// The number of reads of its files.
    read: usize,
}

impl ListedCounts {
    fn is_worth_listing(&self) -> bool {
        self.read >= READ_MIN && self.read * NAMES_PER_READ >= self.names
    }
}

impl AttributeListings {
    fn begun(&self, directory: Ino) {
        self.shard(directory).insert(directory, ListedCounts::default());
    }

    /// Records that this many names were listed so far.
    fn grown(&self, directory: Ino, names: usize) {
        if let Some(listed) = self.shard(directory).get_mut(&directory) {
            listed.names = names;
        }
    }

    /// Counts a read of a file in a directory. Returns whether the directory is now worth listing.
    fn read(&self, directory: Ino) -> bool {
        let mut shard = self.shard(directory);
        let Some(listed) = shard.get_mut(&directory) else {
            return false;
        };
        let was_worth_listing = listed.is_worth_listing();
        listed.read += 1;
        !was_worth_listing && listed.is_worth_listing()
    }

    fn is_worth_listing(&self, directory: Ino) -> bool {
        self.shard(directory)
            .get(&directory)
            .is_some_and(ListedCounts::is_worth_listing)
    }

    pub(super) fn forget(&self, directory: Ino) {
        self.shard(directory).remove(&directory);
    }

    fn shard(&self, directory: Ino) -> MutexGuard<'_, ListingShard> {
        let shard = &self.shards[(directory.0 ^ directory.0 >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirectoryRequests<'_> {
    /// A piece of a file is about to be returned. Only the first one of each file counts.
    pub(super) fn note_read(&self, read: &ReadIn, piece: ReadPiece) {
        // On a mount without changes, the kernel assumes that no time has changed.
        if read.offset != 0 || self.skin.options.access != MountAccess::Everything {
            return;
        }
        let worth_listing = piece.parent.filter(|parent| self.skin.listings.read(*parent));
        // If directories are not opened, there is no way to tell the kernel not to keep their listing.
        if self.skin.lists_itself()
            && let Some(node) = worth_listing.and_then(|parent| self.skin.nodes.known(parent))
        {
            self.skin.notices.contents_from(node, 0);
        }
    }

    /// Records that this many names of a directory were listed. A listing without attributes renews nothing.
    pub(super) fn note_listing(&self, directory: Ino, offset: u64, with_attributes: bool, names: usize) {
        if offset == 0 && with_attributes {
            self.skin.listings.begun(directory);
        }
        self.skin.listings.grown(directory, names);
    }

    /// What the kernel may do with the listing of a directory that is being opened.
    pub(super) fn listing_flags(&self, directory: Ino) -> u32 {
        if self.skin.listings.is_worth_listing(directory) {
            open_out::CACHE_DIR
        } else {
            open_out::CACHE_DIR | open_out::KEEP_CACHE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_worth_listing_when_an_eighth_of_it_was_read_and_listing_costs_less() {
        for (names, reads) in [(0, 4), (3, 4), (32, 4), (33, 5), (100, 13)] {
            let listings = AttributeListings::default();
            let directory = Ino(7);
            assert!(!listings.read(directory), "it has not been listed");
            listings.begun(directory);
            listings.grown(directory, names);
            let told: Vec<bool> = (0..reads + 2).map(|_| listings.read(directory)).collect();
            let expected: Vec<bool> = (0..reads + 2).map(|read| read + 1 == reads).collect();
            assert_eq!(told, expected, "{names}: told once");
            assert!(listings.is_worth_listing(directory));
            listings.begun(directory);
            assert!(!listings.is_worth_listing(directory), "{names}: listed again");
        }
    }
}
