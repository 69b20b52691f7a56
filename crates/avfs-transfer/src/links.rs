//! Files with several names: found while a tree is read, numbered when all of it is known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use avfs_core::map::MapRecord;
use avfs_core::{Entry, LinkId, LinkedFile, Slot, Totals};
use avfs_tree::inodes::Ino;

/// Says whether a vault uses this id already.
pub(super) type IsTaken<'a> = &'a (dyn Fn(LinkId) -> bool + Sync);

/// The identity by which two host names are one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HostFileKey {
    pub device: u64,
    pub inode: u64,
}

/// One file with the names found so far.
pub(super) struct SharedFile {
    entry: Entry,
    names: u32,
    /// The least of its names: the whole path in the vault. It decides the id, so that one tree has the
    /// same ids in whatever order it is read.
    least: Box<[u8]>,
}

impl SharedFile {
    pub(super) fn new(entry: Entry, path: &[u8]) -> SharedFile {
        SharedFile {
            entry,
            names: 1,
            least: path.into(),
        }
    }

    pub(super) fn add_name(&mut self, path: &[u8]) {
        self.names += 1;
        if *path < *self.least {
            self.least = path.into();
        }
    }
}

const SHARDS: usize = 16;

/// The files with several links of a host directory, gathered by several threads.
#[derive(Default)]
pub(super) struct SharedFiles {
    shards: [Mutex<HashMap<HostFileKey, SharedFile>>; SHARDS],
}

impl SharedFiles {
    fn with<T>(&self, key: HostFileKey, act: impl FnOnce(&mut HashMap<HostFileKey, SharedFile>) -> T) -> T {
        let shard = &self.shards[key.inode as usize % SHARDS];
        act(&mut shard.lock().expect("no panic happens while the lock is held"))
    }

    /// Adds a name of a file that was read before; `false` if it was not.
    pub(super) fn add_name(&self, key: HostFileKey, path: &[u8]) -> bool {
        self.with(key, |files| {
            files.get_mut(&key).map(|shared| shared.add_name(path)).is_some()
        })
    }

    /// Adds a file that was read just now; `false` if another thread was faster.
    pub(super) fn add(&self, key: HostFileKey, path: &[u8], entry: Entry) -> bool {
        self.with(key, |files| match files.get_mut(&key) {
            Some(shared) => {
                shared.add_name(path);
                false
            }
            None => files.insert(key, SharedFile::new(entry, path)).is_none(),
        })
    }

    pub(super) fn into_files(self) -> HashMap<HostFileKey, SharedFile> {
        let shards = self.shards.into_iter();
        shards
            .flat_map(|shard| shard.into_inner().expect("no panic happened under the lock"))
            .collect()
    }
}

/// The result for each file: an entry of its own, or a record of the link table.
pub(super) struct NumberedLinks<K> {
    slots: HashMap<K, Slot>,
    pub links: BTreeMap<LinkId, LinkedFile>,
}

impl<K: Eq + std::hash::Hash> NumberedLinks<K> {
    /// Gives an id to each file that has several names.
    pub(super) fn new(
        files: impl IntoIterator<Item = (K, SharedFile)>,
        is_taken: IsTaken<'_>,
    ) -> NumberedLinks<K> {
        let mut numbered = NumberedLinks {
            slots: HashMap::new(),
            links: BTreeMap::new(),
        };
        let (mut linked, single): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(_, shared)| shared.names > 1);
        numbered.slots.extend(
            single
                .into_iter()
                .map(|(key, shared)| (key, Slot::Own(shared.entry))),
        );
        linked.sort_by(|(_, a), (_, b)| a.least.cmp(&b.least));
        let mut used = HashSet::new();
        for (key, shared) in linked {
            let id = free_id(&shared.least, |id| used.contains(&id) || is_taken(id));
            used.insert(id);
            numbered.slots.insert(key, Slot::Link(id));
            numbered.links.insert(
                id,
                LinkedFile {
                    entry: shared.entry,
                    names: shared.names,
                },
            );
        }
        numbered
    }

    /// The totals that the link table adds to those of a tree.
    pub(super) fn totals(&self) -> Totals {
        self.links
            .values()
            .map(LinkedFile::totals)
            .fold(Totals::default(), Totals::plus)
    }

    pub(super) fn slot(&self, key: &K) -> Option<Slot> {
        self.slots.get(key).cloned()
    }
}

/// The id of a file whose least name is `path`, by rule; further ones if it is in use.
fn free_id(path: &[u8], is_taken: impl Fn(LinkId) -> bool) -> LinkId {
    let mut id = LinkId(Ino::from_hash(&blake3::hash(path)).0);
    let mut attempt = 0u64;
    while is_taken(id) {
        attempt += 1;
        let mut hasher = blake3::Hasher::new();
        hasher.update(path).update(&attempt.to_le_bytes());
        id = LinkId(Ino::from_hash(&hasher.finalize()).0);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use avfs_core::{EntryKind, Meta};

    fn shared(paths: &[&[u8]]) -> SharedFile {
        let mut shared = SharedFile::new(
            Entry {
                meta: Meta::default(),
                kind: EntryKind::Fifo,
            },
            paths[0],
        );
        paths[1..].iter().for_each(|path| shared.add_name(path));
        shared
    }

    #[test]
    fn the_id_comes_from_the_least_name_whatever_came_first() {
        let one = NumberedLinks::new([(1, shared(&[b"b", b"a", b"c"]))], &|_| false);
        let other = NumberedLinks::new([(1, shared(&[b"a", b"c", b"b"]))], &|_| false);
        assert_eq!(one.slot(&1), other.slot(&1));
        assert_eq!(
            one.slot(&1),
            Some(Slot::Link(LinkId(Ino::from_hash(&blake3::hash(b"a")).0)))
        );
    }

    #[test]
    fn a_file_with_one_name_is_an_entry_of_its_own() {
        let numbered = NumberedLinks::new([(1, shared(&[b"a"]))], &|_| false);
        assert!(matches!(numbered.slot(&1), Some(Slot::Own(_))));
        assert!(numbered.links.is_empty());
    }

    #[test]
    fn an_id_that_the_vault_uses_is_passed_over() {
        let rule = LinkId(Ino::from_hash(&blake3::hash(b"a")).0);
        let numbered = NumberedLinks::new([(1, shared(&[b"a", b"b"]))], &|id| id == rule);
        assert!(!numbered.links.contains_key(&rule));
        assert_eq!(numbered.links.len(), 1);
    }
}
