//! Which directories are worth listing anew, though the kernel has kept their listing.
//!
//! After a read the kernel asks for the attributes of the file again, because it takes the time of access to have
//! changed. Where many files of a directory were read, listing it renews their attributes with a few requests, which
//! would be one for each file otherwise; but the kernel lists a directory anew only if its listing is dropped.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Mutex, MutexGuard, PoisonError};

use avfs_tree::{Ino, Piece};

use super::nodes::NodeHasher;
use super::{Access, Skin};
use crate::abi::ReadIn;
use crate::abi::flags::open_out;

/// How many parts the table has, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// Listing takes at least two requests: one for names, one that finds no more.
const READ_MIN: usize = 4;

/// Each name of a listing costs about an eighth of a request.
const NAMES_PER_READ: usize = 8;

/// Directories that were listed with attributes, until the kernel forgets them.
#[derive(Default)]
pub(super) struct Listings {
    shards: [Mutex<Shard>; SHARDS],
}

type Shard = HashMap<Ino, Listed, BuildHasherDefault<NodeHasher>>;

/// What happened to a directory since it was last listed from its beginning.
#[derive(Default)]
struct Listed {
    names: usize,
    /// How often a file in it was read.
    read: usize,
}

impl Listed {
    fn is_worth_listing(&self) -> bool {
        self.read >= READ_MIN && self.read * NAMES_PER_READ >= self.names
    }
}

impl Listings {
    fn begun(&self, directory: Ino) {
        self.shard(directory).insert(directory, Listed::default());
    }

    /// So many names were listed so far.
    fn grown(&self, directory: Ino, names: usize) {
        if let Some(listed) = self.shard(directory).get_mut(&directory) {
            listed.names = names;
        }
    }

    /// A file in a directory was read. Returns whether that has made the directory worth listing.
    fn read(&self, directory: Ino) -> bool {
        let mut shard = self.shard(directory);
        let Some(listed) = shard.get_mut(&directory) else { return false };
        let was_worth_listing = listed.is_worth_listing();
        listed.read += 1;
        !was_worth_listing && listed.is_worth_listing()
    }

    fn is_worth_listing(&self, directory: Ino) -> bool {
        self.shard(directory).get(&directory).is_some_and(Listed::is_worth_listing)
    }

    pub fn forget(&self, directory: Ino) {
        self.shard(directory).remove(&directory);
    }

    fn shard(&self, directory: Ino) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(directory.0 ^ directory.0 >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Skin {
    /// A piece of a file is about to be told. Only the first one of each file counts.
    pub(super) fn note_read(&self, read: &ReadIn, piece: Piece) {
        // Where nothing can be changed, the kernel takes no time to have changed.
        if read.offset != 0 || self.options.access != Access::Everything {
            return;
        }
        let worth_listing = piece.parent.filter(|parent| self.listings.read(*parent));
        // Where directories are not opened, nobody can say then that their listing is not to be kept.
        if self.lists_itself()
            && let Some(node) = worth_listing.and_then(|parent| self.nodes.known(parent))
        {
            self.notices.contents_from(node, 0);
        }
    }

    /// Names of a directory were listed, so many of them by now. A listing without attributes renews nothing.
    pub(super) fn note_listing(&self, directory: Ino, offset: u64, with_attributes: bool, names: usize) {
        if offset == 0 && with_attributes {
            self.listings.begun(directory);
        }
        self.listings.grown(directory, names);
    }

    /// What the kernel may do with the listing of a directory that is being opened.
    pub(super) fn listing_flags(&self, directory: Ino) -> u32 {
        match self.listings.is_worth_listing(directory) {
            true => open_out::CACHE_DIR,
            false => open_out::CACHE_DIR | open_out::KEEP_CACHE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_worth_listing_when_an_eighth_of_it_was_read_and_listing_costs_less() {
        for (names, reads) in [(0, 4), (3, 4), (32, 4), (33, 5), (100, 13)] {
            let (listings, directory) = (Listings::default(), Ino(7));
            assert!(!listings.read(directory), "nobody has listed it");
            listings.begun(directory);
            listings.grown(directory, names);
            let told: Vec<bool> = (0..reads + 2).map(|_| listings.read(directory)).collect();
            let expected: Vec<bool> = (0..reads + 2).map(|read| read + 1 == reads).collect();
            assert_eq!(told, expected, "{names}: told once");
            assert!(listings.is_worth_listing(directory));
            listings.begun(directory);
            assert!(!listings.is_worth_listing(directory), "{names}: listed anew");
        }
    }
}
