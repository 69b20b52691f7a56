//! Promises: placeholders in a tree for a directory or file of a source that has not been read yet.
//!
//! The id of a promise takes the place of the id of a node, a blob or a chunk list in an entry. The object
//! that a promise is resolved to, on first use, is recorded outside of the promise and never changes, so a
//! tree of promises is as immutable as any other.

use std::fmt;

use crate::codec::{ByteReader, DecodeError, put_bytes, put_number};
use crate::entry::{Timestamp, Totals};
use crate::id::PromiseId;
use crate::name::TreePath;

/// A permanent name of a source, independent of its location.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub [u8; 16]);

impl SourceId {
    /// Reads the hexadecimal form.
    pub fn parse_hex(text: &str) -> Option<SourceId> {
        let is_hex = text.len() == 32
            && text
                .bytes()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        u128::from_str_radix(text, 16)
            .ok()
            .filter(|_| is_hex)
            .map(|id| SourceId(id.to_be_bytes()))
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:.8}")
    }
}

/// Identifies the version of a file. Two versions of one file have different stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The device that the file is on.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When its contents were changed.
    pub mtime: Timestamp,
    /// When its contents or its attributes were changed.
    pub ctime: Timestamp,
    /// Permission bits and kind, as `stat` gives them.
    pub mode: u32,
}

/// What a tree holds in place of something in a source that no program has looked at yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Promise {
    /// A directory in the state that its first reader finds. Each generation of a source reads it again.
    Directory {
        /// The source that has it.
        source: SourceId,
        /// The pass over the source in which it is listed.
        generation: u64,
        /// Its path in the source.
        path: TreePath,
    },
    /// One version of a file. Every generation that finds the same version makes the same promise.
    File {
        /// The source that has it.
        source: SourceId,
        /// Its path in the source.
        path: TreePath,
        /// The version that was listed.
        stamp: Stamp,
    },
}

mod tag {
    pub(crate) const DIRECTORY: u8 = 1;
    pub(crate) const FILE: u8 = 2;
}

impl Promise {
    /// The totals of a directory that has not been read yet, for the trees that contain it: assumed not to be
    /// empty.
    pub const BELOW: Totals = Totals {
        inodes: 1,
        bytes: 0,
        links: 0,
    };

    /// The source that has it.
    pub fn source(&self) -> SourceId {
        match self {
            Promise::Directory { source, .. } | Promise::File { source, .. } => *source,
        }
    }

    /// Its path in the source.
    pub fn path(&self) -> &TreePath {
        match self {
            Promise::Directory { path, .. } | Promise::File { path, .. } => path,
        }
    }

    /// The id under which it is stored.
    pub fn id(&self) -> PromiseId {
        PromiseId::of(&self.encode())
    }

    /// The canonical encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Promise::Directory {
                source,
                generation,
                path,
            } => {
                out.push(tag::DIRECTORY);
                out.extend_from_slice(&source.0);
                put_number(&mut out, *generation);
                put_bytes(&mut out, path.as_bytes());
            }
            Promise::File { source, path, stamp } => {
                out.push(tag::FILE);
                out.extend_from_slice(&source.0);
                put_bytes(&mut out, path.as_bytes());
                stamp.encode(&mut out);
            }
        }
        out
    }

    /// Reads an encoding; fails unless it is canonical.
    pub fn decode(bytes: &[u8]) -> Result<Promise, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let tag = reader.byte()?;
        let mut source = [0u8; 16];
        source.copy_from_slice(reader.raw(16)?);
        let source = SourceId(source);
        let promise = match tag {
            tag::DIRECTORY => Promise::Directory {
                source,
                generation: reader.number()?,
                path: decode_path(&mut reader)?,
            },
            tag::FILE => Promise::File {
                source,
                path: decode_path(&mut reader)?,
                stamp: Stamp::decode(&mut reader)?,
            },
            other => {
                return Err(DecodeError::Unknown {
                    what: "kind of promise",
                    value: other.into(),
                });
            }
        };
        reader.finish()?;
        Ok(promise)
    }
}

impl Stamp {
    fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.device);
        put_number(out, self.inode);
        put_number(out, self.size);
        self.mtime.encode(out);
        self.ctime.encode(out);
        put_number(out, u64::from(self.mode));
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Stamp, DecodeError> {
        Ok(Stamp {
            device: reader.number()?,
            inode: reader.number()?,
            size: reader.number()?,
            mtime: Timestamp::decode(reader)?,
            ctime: Timestamp::decode(reader)?,
            mode: reader.number_u32()?,
        })
    }
}

/// Paths have many spellings and one encoding.
fn decode_path(reader: &mut ByteReader<'_>) -> Result<TreePath, DecodeError> {
    let raw = reader.bytes()?;
    let path = TreePath::parse(raw).map_err(|_| DecodeError::Invalid("a promise has a bad path"))?;
    if path.as_bytes() == raw {
        Ok(path)
    } else {
        Err(DecodeError::Invalid("a promise spells its path in another way"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn directory() -> Promise {
        let path = TreePath::parse(b"/src/deep").unwrap();
        Promise::Directory {
            source: SourceId([7; 16]),
            generation: 300,
            path,
        }
    }

    fn file() -> Promise {
        let time = Timestamp {
            seconds: -5,
            nanos: 999_999_999,
        };
        let stamp = Stamp {
            device: 1,
            inode: 1 << 40,
            size: 70_000,
            mtime: time,
            ctime: time,
            mode: 0o100_644,
        };
        Promise::File {
            source: SourceId([7; 16]),
            path: TreePath::parse(b"/src/a").unwrap(),
            stamp,
        }
    }

    #[test]
    fn promises_read_back() {
        for promise in [directory(), file()] {
            assert_eq!(Promise::decode(&promise.encode()), Ok(promise));
        }
    }

    #[test]
    fn the_name_of_a_source_reads_back() {
        let id = SourceId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(SourceId::parse_hex(&id.to_string()), Some(id));
        for bad in ["", "00", &"A".repeat(32), &"+".repeat(32), &"0".repeat(33)] {
            assert_eq!(SourceId::parse_hex(bad), None);
        }
    }

    proptest! {
        #[test]
        fn flipped_and_cut_bytes_never_panic(which: bool, cut in 0usize..80, position in 0usize..80, flip: u8) {
            let mut bytes = if which { directory() } else { file() }.encode();
            let position = position % bytes.len();
            bytes[position] ^= flip;
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Ok(promise) = Promise::decode(&bytes) {
                prop_assert_eq!(promise.encode(), bytes);
            }
        }
    }
}
