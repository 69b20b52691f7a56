//! Inode numbers and change times: attributes of a file that are kept outside of its tree and its id.
//!
//! The number of an entry is derived from its place when it is first loaded, so a tree needs no table of
//! numbers. Only exceptions to the rule are recorded, in a sorted map that a vault keeps beside its snapshot:
//! entries that were moved and keep their number, and change times that differ from the modification time.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use avfs_core::map::MapRecord;
use avfs_core::{ByteReader, DecodeError, EntryName, LinkId, Timestamp, Totals};

/// Numbers below this are not given to files.
const RESERVED: u64 = 16;
/// Derived numbers have this bit set; numbers of files of a source are smaller.
const OWN_NUMBERS: u64 = 1 << 48;

/// An inode number, unique within a vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    /// The root of the tree.
    pub const ROOT: Ino = Ino(1);

    /// The number of the entry `name` of `parent`, unless the table has another one. `attempt` counts numbers
    /// that turned out to be in use.
    pub fn derived(parent: Ino, name: &EntryName, attempt: u32) -> Ino {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&parent.0.to_le_bytes())
            .update(&attempt.to_le_bytes())
            .update(name.as_bytes());
        Ino::from_hash(&hasher.finalize())
    }

    /// The number of a file with several names is the id of its link.
    pub fn of_link(link: LinkId) -> Ino {
        Ino(link.0)
    }

    /// Positive as a signed number, and never one that a source may assign.
    pub fn from_hash(hash: &blake3::Hash) -> Ino {
        Ino(positive(hash) | OWN_NUMBERS)
    }

    /// Whether a source may assign this number to an entry: neither a reserved small one nor one that the
    /// rule derives.
    pub fn may_be_given(self) -> bool {
        (RESERVED..OWN_NUMBERS).contains(&self.0)
    }
}

/// A map by inode number.
pub(crate) type InoMap<V> = HashMap<Ino, V, BuildHasherDefault<InoHasher>>;
/// A set of inode numbers.
pub(crate) type InoSet = HashSet<Ino, BuildHasherDefault<InoHasher>>;

/// Releases memory once a table is mostly empty; so rarely that removing stays cheap. Hash tables do not
/// shrink by themselves, and after a walk over a million files they would keep all that memory.
pub(crate) fn give_room_back<K: Eq + Hash, V, S: BuildHasher>(table: &mut HashMap<K, V, S>) {
    const SMALLEST: usize = 16;
    if table.capacity() > SMALLEST && table.len() < table.capacity() / 4 {
        table.shrink_to(2 * table.len());
    }
}

/// Inode numbers are hashes already; but hash tables use the top bits first, and the top bit of a number is
/// always 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InoHasher(u64);

impl Hasher for InoHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(20);
    }
}

/// The table's record of one place (`parent`, `name`) for which the rule does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeRecord {
    /// The inode number; `None`: as the rule says.
    pub ino: Option<Ino>,
    /// The change time; `None`: as the rule says.
    pub ctime: Option<Timestamp>,
}

/// The key of a place in the table.
pub fn place_key(parent: Ino, name: &EntryName) -> Box<[u8]> {
    let mut key = vec![b'p'];
    key.extend_from_slice(&parent.0.to_be_bytes());
    key.extend_from_slice(name.as_bytes());
    key.into()
}

/// The key under which a number is marked as used by an entry that was moved away from its derived place.
pub fn taken_key(ino: Ino) -> Box<[u8]> {
    let mut key = vec![b't'];
    key.extend_from_slice(&ino.0.to_be_bytes());
    key.into()
}

/// The value of the mark of a used number: it identifies the place that has the number.
pub fn place_mark(place_key: &[u8]) -> Ino {
    Ino(positive(&blake3::hash(place_key)).max(RESERVED))
}

/// A number of 63 bits.
fn positive(hash: &blake3::Hash) -> u64 {
    let mut bytes = [0u8; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(bytes) >> 1
}

/// The key of a file with several names, which has no single place.
pub fn link_key(link: LinkId) -> Box<[u8]> {
    let mut key = vec![b'l'];
    key.extend_from_slice(&link.key());
    key.into()
}

const HAS_INO: u8 = 1;
const HAS_CTIME: u8 = 2;

impl MapRecord for InodeRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        let flag = |present: bool, bit: u8| if present { bit } else { 0 };
        out.push(flag(self.ino.is_some(), HAS_INO) | flag(self.ctime.is_some(), HAS_CTIME));
        if let Some(Ino(ino)) = self.ino {
            out.extend_from_slice(&ino.to_le_bytes());
        }
        if let Some(ctime) = self.ctime {
            ctime.encode(out);
        }
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<InodeRecord, DecodeError> {
        let flags = reader.byte()?;
        if flags & !(HAS_INO | HAS_CTIME) != 0 {
            return Err(DecodeError::Unknown {
                what: "inode flags",
                value: flags.into(),
            });
        }
        let ino = match flags & HAS_INO {
            0 => None,
            _ => {
                let mut bytes = [0u8; 8];
                bytes.copy_from_slice(reader.raw(8)?);
                Some(Ino(u64::from_le_bytes(bytes)))
            }
        };
        let ctime = match flags & HAS_CTIME {
            0 => None,
            _ => Some(Timestamp::decode(reader)?),
        };
        Ok(InodeRecord { ino, ctime })
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }
}
