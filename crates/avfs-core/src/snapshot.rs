//! A snapshot: one state of a whole vault, and where it came from.

use crate::codec::{ByteReader, DecodeError, put_bytes, put_id, put_number};
use crate::entry::{Entry, Timestamp, Totals};
use crate::id::{NodeId, SnapshotId};
use crate::map::MapRecord;

/// A whole tree: its root directory and the table of files that have several names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Always a directory.
    pub directory: Entry,
    /// The table of files with several names; `None` if there are none.
    pub links: Option<NodeId>,
    /// Totals of everything in the tree: below the root directory and in the link table.
    pub totals: Totals,
}

/// An immutable record of a tree with its parents, time, author and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The tree.
    pub root: Root,
    /// The snapshots from which it was made: none for the first, several for a merge.
    pub parents: Vec<SnapshotId>,
    /// When it was taken.
    pub time: Timestamp,
    /// The user or program that made the changes.
    pub author: String,
    /// Why it was made: a command or a message.
    pub reason: String,
}

const FORMAT: u8 = 1;

impl Snapshot {
    /// The canonical encoding, by which the snapshot is named.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        self.root.directory.encode(&mut out);
        self.root.totals.encode(&mut out);
        put_number(&mut out, u64::from(self.root.links.is_some()));
        if let Some(links) = self.root.links {
            put_id(&mut out, links.object());
        }
        put_number(&mut out, self.parents.len() as u64);
        for parent in &self.parents {
            put_id(&mut out, parent.object());
        }
        self.time.encode(&mut out);
        put_bytes(&mut out, self.author.as_bytes());
        put_bytes(&mut out, self.reason.as_bytes());
        out
    }

    /// Reads an encoding; fails unless it is canonical.
    pub fn decode(bytes: &[u8]) -> Result<Snapshot, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        match reader.byte()? {
            FORMAT => {}
            other => {
                return Err(DecodeError::Unknown {
                    what: "snapshot format",
                    value: other.into(),
                });
            }
        }
        let snapshot = Snapshot {
            root: decode_root(&mut reader)?,
            parents: decode_parents(&mut reader)?,
            time: Timestamp::decode(&mut reader)?,
            author: reader.text()?.to_owned(),
            reason: reader.text()?.to_owned(),
        };
        reader.finish()?;
        Ok(snapshot)
    }
}

fn decode_root(reader: &mut ByteReader<'_>) -> Result<Root, DecodeError> {
    let directory = Entry::decode(reader)?;
    if !directory.is_directory() {
        return Err(DecodeError::Invalid("the root of a snapshot is not a directory"));
    }
    let totals = Totals::decode(reader)?;
    let links = match reader.number()? {
        0 => None,
        1 => Some(NodeId::from_object(reader.id()?)),
        other => {
            return Err(DecodeError::Unknown {
                what: "link table flag",
                value: other,
            });
        }
    };
    Ok(Root {
        directory,
        links,
        totals,
    })
}

fn decode_parents(reader: &mut ByteReader<'_>) -> Result<Vec<SnapshotId>, DecodeError> {
    let count = reader.number()?;
    (0..count)
        .map(|_| reader.id().map(SnapshotId::from_object))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{EntryKind, Meta};
    use proptest::prelude::*;

    fn sample() -> Snapshot {
        Snapshot {
            root: Root {
                directory: Entry::empty_directory(Meta {
                    mode: 0o755,
                    ..Meta::default()
                }),
                links: Some(NodeId::of(b"links")),
                totals: Totals {
                    inodes: 3,
                    bytes: 12,
                    links: 2,
                },
            },
            parents: vec![SnapshotId::of(b"parent")],
            time: Timestamp {
                seconds: -5,
                nanos: 999_999_999,
            },
            author: "user".into(),
            reason: "write /a".into(),
        }
    }

    #[test]
    fn a_snapshot_reads_back() {
        assert_eq!(Snapshot::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn a_snapshot_whose_root_is_a_file_is_refused() {
        let mut snapshot = sample();
        snapshot.root.directory.kind = EntryKind::Fifo;
        let expected = Err(DecodeError::Invalid("the root of a snapshot is not a directory"));
        assert_eq!(Snapshot::decode(&snapshot.encode()), expected);
    }

    proptest! {
        #[test]
        fn flipped_and_cut_bytes_never_panic(cut in 0usize..200, position in 0usize..200, flip: u8) {
            let mut bytes = sample().encode();
            let position = position % bytes.len();
            bytes[position] ^= flip;
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Ok(snapshot) = Snapshot::decode(&bytes) {
                prop_assert_eq!(snapshot.encode(), bytes);
            }
        }
    }
}
