//! The result of a promise: fixed when it is first resolved, and never changed afterwards.

use avfs_core::codec::{put_id, put_number};
use avfs_core::map::MapRecord;
use avfs_core::{BlobId, ByteReader, ChunksId, Content, DecodeError, Entry, NodeId, Timestamp, Totals};

/// What a promise was resolved to. It is kept forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptPromise {
    /// The entries of a directory, some of which may be promises again.
    Directory(KeptDirectory),
    /// The version that was promised.
    File(Content),
    /// The version that the source had at the first read.
    Moved {
        /// The other version.
        entry: Entry,
        /// When it was last changed.
        ctime: Timestamp,
    },
    /// The source no longer had an entry there.
    Gone,
}

/// A directory of a source as it was at its first read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptDirectory {
    /// The map of its entries; `None` if it has none.
    pub entries: Option<NodeId>,
    /// Numbers and change times of the entries, by name.
    pub numbers: Option<NodeId>,
    /// The totals of what is below, as far as it is known.
    pub below: Totals,
}

mod tag {
    pub(super) const DIRECTORY: u8 = 1;
    pub(super) const FILE: u8 = 2;
    pub(super) const MOVED: u8 = 3;
    pub(super) const GONE: u8 = 4;
}

impl KeptPromise {
    /// The canonical encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            KeptPromise::Directory(kept) => {
                out.push(tag::DIRECTORY);
                kept.encode(&mut out);
            }
            KeptPromise::File(content) => {
                out.push(tag::FILE);
                let (form, id) = match content {
                    Content::Empty => (0, None),
                    Content::Blob(id) => (1, Some(id.object())),
                    Content::Chunks(id) => (2, Some(id.object())),
                };
                put_number(&mut out, form);
                if let Some(id) = id {
                    put_id(&mut out, id);
                }
            }
            KeptPromise::Moved { entry, ctime } => {
                out.push(tag::MOVED);
                ctime.encode(&mut out);
                entry.encode(&mut out);
            }
            KeptPromise::Gone => out.push(tag::GONE),
        }
        out
    }

    /// Reads an encoding; fails unless it is canonical.
    pub fn decode(bytes: &[u8]) -> Result<KeptPromise, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let kept = match reader.byte()? {
            tag::DIRECTORY => KeptPromise::Directory(KeptDirectory::decode(&mut reader)?),
            tag::FILE => KeptPromise::File(content(&mut reader)?),
            tag::MOVED => {
                let ctime = Timestamp::decode(&mut reader)?;
                KeptPromise::Moved {
                    ctime,
                    entry: Entry::decode(&mut reader)?,
                }
            }
            tag::GONE => KeptPromise::Gone,
            other => {
                return Err(DecodeError::Unknown {
                    what: "way to keep a promise",
                    value: other.into(),
                });
            }
        };
        reader.finish()?;
        Ok(kept)
    }
}

fn put_optional(out: &mut Vec<u8>, id: Option<NodeId>) {
    put_number(out, u64::from(id.is_some()));
    if let Some(id) = id {
        put_id(out, id.object());
    }
}

fn optional(reader: &mut ByteReader<'_>) -> Result<Option<NodeId>, DecodeError> {
    match reader.number()? {
        0 => Ok(None),
        1 => Ok(Some(NodeId::from_object(reader.id()?))),
        other => Err(DecodeError::Unknown {
            what: "flag",
            value: other,
        }),
    }
}

fn content(reader: &mut ByteReader<'_>) -> Result<Content, DecodeError> {
    match reader.number()? {
        0 => Ok(Content::Empty),
        1 => Ok(Content::Blob(BlobId::from_object(reader.id()?))),
        2 => Ok(Content::Chunks(ChunksId::from_object(reader.id()?))),
        other => Err(DecodeError::Unknown {
            what: "form of contents",
            value: other,
        }),
    }
}

impl KeptDirectory {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_optional(out, self.entries);
        put_optional(out, self.numbers);
        self.below.encode(out);
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<KeptDirectory, DecodeError> {
        let entries = optional(reader)?;
        let numbers = optional(reader)?;
        Ok(KeptDirectory {
            entries,
            numbers,
            below: Totals::decode(reader)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use avfs_core::{EntryKind, Meta};

    use super::*;

    fn samples() -> Vec<KeptPromise> {
        let below = Totals {
            inodes: 300,
            bytes: 5,
            links: 0,
        };
        let entries = Some(NodeId::of(b"entries"));
        let kind = EntryKind::File {
            size: 5,
            content: Content::Blob(BlobId::of(b"moved")),
        };
        vec![
            KeptPromise::Directory(KeptDirectory::default()),
            KeptPromise::Directory(KeptDirectory {
                entries,
                numbers: Some(NodeId::of(b"numbers")),
                below,
            }),
            KeptPromise::File(Content::Empty),
            KeptPromise::File(Content::Blob(BlobId::of(b"bytes"))),
            KeptPromise::File(Content::Chunks(ChunksId::of(b"list"))),
            KeptPromise::Moved {
                entry: Entry {
                    meta: Meta::default(),
                    kind,
                },
                ctime: Timestamp::default(),
            },
            KeptPromise::Gone,
        ]
    }

    #[test]
    fn kept_value_reads_back() {
        for kept in samples() {
            assert_eq!(KeptPromise::decode(&kept.encode()), Ok(kept));
        }
    }

    #[test]
    fn cut_and_flipped_bytes_are_refused_or_mean_themselves() {
        for bytes in samples().iter().map(KeptPromise::encode) {
            for position in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[position] ^= 0x81;
                for bytes in [&bytes[..position], &flipped] {
                    if let Ok(kept) = KeptPromise::decode(bytes) {
                        assert_eq!(kept.encode(), bytes);
                    }
                }
            }
        }
    }
}
