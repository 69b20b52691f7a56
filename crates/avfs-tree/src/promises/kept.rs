//! What a promise was kept as: decided when it is first asked for, and the same for ever after.

use avfs_core::codec::{put_id, put_number};
use avfs_core::map::Record;
use avfs_core::{BlobId, ChunksId, Content, DecodeError, Entry, NodeId, Reader, Timestamp, Totals};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Directory(KeptDirectory),
    /// The version that was promised.
    File(Content),
    /// The version that the source had when somebody asked.
    Moved {
        entry: Entry,
        ctime: Timestamp,
    },
    /// The source had nothing there any more.
    Gone,
}

/// A directory of a source as it was when somebody looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptDirectory {
    pub entries: Option<NodeId>,
    /// Numbers and change times of the entries, by name.
    pub numbers: Option<NodeId>,
    pub below: Totals,
}

mod tag {
    pub const DIRECTORY: u8 = 1;
    pub const FILE: u8 = 2;
    pub const MOVED: u8 = 3;
    pub const GONE: u8 = 4;
}

impl Kept {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Kept::Directory(kept) => {
                out.push(tag::DIRECTORY);
                kept.encode(&mut out);
            }
            Kept::File(content) => {
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
            Kept::Moved { entry, ctime } => {
                out.push(tag::MOVED);
                ctime.encode(&mut out);
                entry.encode(&mut out);
            }
            Kept::Gone => out.push(tag::GONE),
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Kept, DecodeError> {
        let mut reader = Reader::new(bytes);
        let kept = match reader.byte()? {
            tag::DIRECTORY => Kept::Directory(KeptDirectory::decode(&mut reader)?),
            tag::FILE => Kept::File(content(&mut reader)?),
            tag::MOVED => {
                let ctime = Timestamp::decode(&mut reader)?;
                Kept::Moved { ctime, entry: Entry::decode(&mut reader)? }
            }
            tag::GONE => Kept::Gone,
            other => return Err(DecodeError::Unknown { what: "way to keep a promise", value: other.into() }),
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

fn optional(reader: &mut Reader<'_>) -> Result<Option<NodeId>, DecodeError> {
    match reader.number()? {
        0 => Ok(None),
        1 => Ok(Some(NodeId::from_object(reader.id()?))),
        other => Err(DecodeError::Unknown { what: "flag", value: other }),
    }
}

fn content(reader: &mut Reader<'_>) -> Result<Content, DecodeError> {
    match reader.number()? {
        0 => Ok(Content::Empty),
        1 => Ok(Content::Blob(BlobId::from_object(reader.id()?))),
        2 => Ok(Content::Chunks(ChunksId::from_object(reader.id()?))),
        other => Err(DecodeError::Unknown { what: "form of contents", value: other }),
    }
}

impl KeptDirectory {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_optional(out, self.entries);
        put_optional(out, self.numbers);
        self.below.encode(out);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<KeptDirectory, DecodeError> {
        let (entries, numbers) = (optional(reader)?, optional(reader)?);
        Ok(KeptDirectory { entries, numbers, below: Totals::decode(reader)? })
    }
}

#[cfg(test)]
mod tests {
    use avfs_core::{EntryKind, Meta};

    use super::*;

    fn samples() -> Vec<Kept> {
        let below = Totals { inodes: 300, bytes: 5, links: 0 };
        let entries = Some(NodeId::of(b"entries"));
        let kind = EntryKind::File { size: 5, content: Content::Blob(BlobId::of(b"moved")) };
        vec![
            Kept::Directory(KeptDirectory::default()),
            Kept::Directory(KeptDirectory { entries, numbers: Some(NodeId::of(b"numbers")), below }),
            Kept::File(Content::Empty),
            Kept::File(Content::Blob(BlobId::of(b"bytes"))),
            Kept::File(Content::Chunks(ChunksId::of(b"list"))),
            Kept::Moved { entry: Entry { meta: Meta::default(), kind }, ctime: Timestamp::default() },
            Kept::Gone,
        ]
    }

    #[test]
    fn what_was_kept_reads_back() {
        for kept in samples() {
            assert_eq!(Kept::decode(&kept.encode()), Ok(kept));
        }
    }

    #[test]
    fn cut_and_flipped_bytes_are_refused_or_mean_themselves() {
        for bytes in samples().iter().map(Kept::encode) {
            for position in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[position] ^= 0x81;
                for bytes in [&bytes[..position], &flipped] {
                    if let Ok(kept) = Kept::decode(bytes) {
                        assert_eq!(kept.encode(), bytes);
                    }
                }
            }
        }
    }
}
