//! Names of immutable objects: BLAKE3 hashes, one Rust type per kind of object.

use std::fmt;

/// The kind of an object. It is part of the hash of everything but file contents, so a file whose bytes are
/// an encoded tree, by accident or by forgery, can never be mistaken for that tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// File contents, or one chunk of them: named by the plain BLAKE3 of the bytes.
    Blob,
    /// A node of a chunk list: the contents of a very large or sparse file.
    Chunks,
    /// A node of a sorted map: a directory, a link table or an inode table.
    Node,
    /// A snapshot.
    Snapshot,
    /// The placeholder for an entry of a source that was not read yet.
    Promise,
}

impl ObjectKind {
    /// Every kind, in the order of their tags.
    pub const ALL: [ObjectKind; 5] = [
        ObjectKind::Blob,
        ObjectKind::Chunks,
        ObjectKind::Node,
        ObjectKind::Snapshot,
        ObjectKind::Promise,
    ];

    /// The name of an object of this kind with these bytes.
    pub fn hash(self, bytes: &[u8]) -> ObjectId {
        let hash = match self {
            ObjectKind::Blob => blake3::hash(bytes),
            ObjectKind::Chunks => tagged_hash(b'C', bytes),
            ObjectKind::Node => tagged_hash(b'N', bytes),
            ObjectKind::Snapshot => tagged_hash(b'S', bytes),
            ObjectKind::Promise => tagged_hash(b'P', bytes),
        };
        ObjectId(*hash.as_bytes())
    }

    /// The byte that represents this kind on disk.
    pub fn tag(self) -> u8 {
        match self {
            ObjectKind::Blob => b'B',
            ObjectKind::Chunks => b'C',
            ObjectKind::Node => b'N',
            ObjectKind::Snapshot => b'S',
            ObjectKind::Promise => b'P',
        }
    }

    /// The kind with this tag in encodings.
    pub fn from_tag(tag: u8) -> Option<ObjectKind> {
        ObjectKind::ALL.into_iter().find(|kind| kind.tag() == tag)
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ObjectKind::Blob => "blob",
            ObjectKind::Chunks => "chunk list",
            ObjectKind::Node => "tree node",
            ObjectKind::Snapshot => "snapshot",
            ObjectKind::Promise => "promise",
        })
    }
}

/// Keyed BLAKE3 with a key per kind: as fast as the plain hash, and no collision across kinds.
fn tagged_hash(tag: u8, bytes: &[u8]) -> blake3::Hash {
    let mut key = *b"agentvfs object format 1, kind ?";
    key[31] = tag;
    blake3::keyed_hash(&key, bytes)
}

/// The name of an object of any kind. The typed ids below convert into it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub [u8; 32]);

/// The text is not the id of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id is 64 hexadecimal digits")]
pub struct BadId;

impl ObjectId {
    /// The bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse_hex(text: &str) -> Result<ObjectId, BadId> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(BadId);
        }
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Ok(ObjectId(bytes))
    }
}

fn hex_digit(digit: u8) -> Result<u8, BadId> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(BadId),
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        f.pad(&text)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:.12}")
    }
}

macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident, $kind:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(ObjectId);

        impl $name {
            /// The kind of object that these ids name.
            pub const KIND: ObjectKind = $kind;

            /// The id of the object with these bytes.
            pub fn of(bytes: &[u8]) -> $name {
                $name($kind.hash(bytes))
            }

            /// Treats `id` as the id of an object of this kind; reading the object verifies that.
            pub fn from_object(id: ObjectId) -> $name {
                $name(id)
            }

            /// The id, without its kind.
            pub fn object(self) -> ObjectId {
                self.0
            }
        }

        impl From<$name> for ObjectId {
            fn from(id: $name) -> ObjectId {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

typed_id!(
    /// Names file contents, or one chunk of them.
    BlobId,
    ObjectKind::Blob
);
typed_id!(
    /// Names a node of a chunk list.
    ChunksId,
    ObjectKind::Chunks
);
typed_id!(
    /// Names a node of a sorted map.
    NodeId,
    ObjectKind::Node
);
typed_id!(
    /// Names a snapshot.
    SnapshotId,
    ObjectKind::Snapshot
);
typed_id!(
    /// Names a promise.
    PromiseId,
    ObjectKind::Promise
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_have_another_name_for_each_kind() {
        let mut ids: Vec<ObjectId> = ObjectKind::ALL.iter().map(|kind| kind.hash(b"x")).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), ObjectKind::ALL.len());
    }

    #[test]
    fn a_blob_is_named_by_its_plain_blake3() {
        let expected = "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";
        assert_eq!(BlobId::of(b"hello").to_string(), expected);
    }

    #[test]
    fn hex_reads_back_and_rejects_everything_else() {
        let id = ObjectKind::Node.hash(b"abc");
        assert_eq!(ObjectId::parse_hex(&id.to_string()), Ok(id));
        for bad in ["", "00", &"g".repeat(64), &"A".repeat(64), &"0".repeat(65)] {
            assert_eq!(ObjectId::parse_hex(bad), Err(BadId));
        }
    }

    #[test]
    fn tags_read_back() {
        for kind in ObjectKind::ALL {
            assert_eq!(ObjectKind::from_tag(kind.tag()), Some(kind));
        }
        assert_eq!(ObjectKind::from_tag(0), None);
    }
}
