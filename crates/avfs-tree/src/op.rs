//! The operations on a working tree, as values: the journal contains them and replay repeats them.
//!
//! An operation carries everything on which its effect depends, including the time and the new inode number,
//! so applying the same operations to the same snapshot gives the same tree.

use avfs_core::codec::{put_bytes, put_number};
use avfs_core::map::MapRecord;
use avfs_core::{
    ByteReader, Content, DecodeError, Entry, EntryKind, EntryName, Labels, LinkId, LinkedFile, Meta,
    Timestamp,
};

use crate::inodes::Ino;
use crate::promises::KeptDirectory;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryPlace {
    /// The directory.
    pub parent: Ino,
    /// The name in it.
    pub name: EntryName,
}

impl EntryPlace {
    /// The entry of a directory with this name.
    pub fn new(parent: Ino, name: EntryName) -> EntryPlace {
        EntryPlace { parent, name }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JournalOp {
    /// Changes nothing: records where an inode was found, so that replay knows the number when an operation
    /// refers to it.
    Found {
        ino: Ino,
        at: EntryPlace,
    },
    /// The same for a file with several names.
    FoundLink {
        link: LinkId,
    },
    /// Puts a new entry at a free place, or a whole stored tree with its linked files.
    Place {
        at: EntryPlace,
        ino: Ino,
        entry: Entry,
        links: Vec<(LinkId, LinkedFile)>,
        ctime: Timestamp,
    },
    /// Puts one of the names of a linked file that came with a stored tree.
    PlaceLink {
        at: EntryPlace,
        link: LinkId,
        links: Vec<(LinkId, LinkedFile)>,
        time: Timestamp,
    },
    /// Removes a name, and everything below it.
    Remove {
        at: EntryPlace,
        time: Timestamp,
    },
    /// Moves the entry at `from` to `to`, replacing the entry there or, in an exchange, swapping the two.
    Rename {
        from: EntryPlace,
        to: EntryPlace,
        exchange: bool,
        time: Timestamp,
    },
    /// Gives a file another name.
    Link {
        ino: Ino,
        at: EntryPlace,
        time: Timestamp,
    },
    SetMode {
        ino: Ino,
        mode: u32,
        time: Timestamp,
    },
    SetOwner {
        ino: Ino,
        uid: u32,
        gid: u32,
        time: Timestamp,
    },
    SetMtime {
        ino: Ino,
        mtime: Timestamp,
        time: Timestamp,
    },
    Resize {
        ino: Ino,
        size: u64,
        time: Timestamp,
    },
    SetXattr {
        ino: Ino,
        name: Vec<u8>,
        value: Vec<u8>,
        time: Timestamp,
    },
    RemoveXattr {
        ino: Ino,
        name: Vec<u8>,
        time: Timestamp,
    },
    SetLabels {
        ino: Ino,
        labels: Labels,
        time: Timestamp,
    },
    /// The bytes follow the operation in the journal.
    Write {
        ino: Ino,
        offset: u64,
        len: u64,
        time: Timestamp,
    },
    /// Replaces the contents of a file with stored ones.
    SetContent {
        ino: Ino,
        size: u64,
        content: Content,
        time: Timestamp,
    },
    /// The promise of a directory of a source was resolved to these entries.
    Unfold {
        ino: Ino,
        kept: KeptDirectory,
    },
    /// The promise of a file of a source was resolved to this version. Not a change by a user.
    Fulfil {
        ino: Ino,
        entry: Entry,
        ctime: Timestamp,
    },
    /// A promised entry no longer exists in the source. Not a removal by a user.
    Gone {
        at: EntryPlace,
    },
    /// A source has a different entry in the place of a promised one.
    Arrive {
        at: EntryPlace,
        ino: Ino,
        entry: Entry,
        ctime: Timestamp,
    },
    /// Turns a range into a hole without changing the size.
    Punch {
        ino: Ino,
        offset: u64,
        len: u64,
        time: Timestamp,
    },
}

mod tag {
    pub(super) const PLACE: u8 = 1;
    pub(super) const REMOVE: u8 = 2;
    pub(super) const RENAME: u8 = 3;
    pub(super) const LINK: u8 = 4;
    pub(super) const SET_MODE: u8 = 5;
    pub(super) const SET_OWNER: u8 = 6;
    pub(super) const SET_MTIME: u8 = 7;
    pub(super) const RESIZE: u8 = 8;
    pub(super) const SET_XATTR: u8 = 9;
    pub(super) const REMOVE_XATTR: u8 = 10;
    pub(super) const WRITE: u8 = 11;
    pub(super) const PUNCH: u8 = 12;
    pub(super) const FOUND: u8 = 13;
    pub(super) const FOUND_LINK: u8 = 14;
    pub(super) const SET_CONTENT: u8 = 15;
    pub(super) const PLACE_LINK: u8 = 16;
    pub(super) const SET_LABELS: u8 = 17;
    pub(super) const CLEAR_LABELS: u8 = 18;
    pub(super) const UNFOLD: u8 = 19;
    pub(super) const FULFIL: u8 = 20;
    pub(super) const GONE: u8 = 21;
    pub(super) const ARRIVE: u8 = 22;
}

impl JournalOp {
    /// The inode that the operation changes by its number.
    pub(crate) fn inode(&self) -> Option<Ino> {
        match self {
            JournalOp::Found { .. }
            | JournalOp::FoundLink { .. }
            | JournalOp::Place { .. }
            | JournalOp::PlaceLink { .. }
            | JournalOp::Remove { .. }
            | JournalOp::Gone { .. }
            | JournalOp::Arrive { .. }
            | JournalOp::Rename { .. } => None,
            JournalOp::Link { ino, .. }
            | JournalOp::SetMode { ino, .. }
            | JournalOp::SetOwner { ino, .. }
            | JournalOp::SetMtime { ino, .. }
            | JournalOp::Resize { ino, .. }
            | JournalOp::SetXattr { ino, .. }
            | JournalOp::RemoveXattr { ino, .. }
            | JournalOp::SetLabels { ino, .. }
            | JournalOp::Write { ino, .. }
            | JournalOp::SetContent { ino, .. }
            | JournalOp::Unfold { ino, .. }
            | JournalOp::Fulfil { ino, .. }
            | JournalOp::Punch { ino, .. } => Some(*ino),
        }
    }

    /// The directories in which the operation changes names.
    pub(crate) fn parents(&self) -> Vec<Ino> {
        match self {
            JournalOp::Place { at, .. }
            | JournalOp::PlaceLink { at, .. }
            | JournalOp::Remove { at, .. }
            | JournalOp::Gone { at }
            | JournalOp::Arrive { at, .. }
            | JournalOp::Link { at, .. } => vec![at.parent],
            JournalOp::Rename { from, to, .. } => vec![from.parent, to.parent],
            _ => Vec::new(),
        }
    }

    /// Whether the operation removes something, and so helps when the disk is full.
    pub(crate) fn makes_room(&self) -> bool {
        matches!(
            self,
            JournalOp::Remove { .. }
                | JournalOp::Gone { .. }
                | JournalOp::Punch { .. }
                | JournalOp::Resize { .. }
        )
    }

    /// Whether the operation refers to contents that are stored as objects.
    pub(crate) fn names_objects(&self) -> bool {
        // Such a record must not reach the disk before the objects that it names.
        let empty = |kind: &EntryKind| match kind {
            EntryKind::File { content, .. } => *content == Content::Empty,
            EntryKind::Directory { entries, .. } => entries.is_none(),
            _ => true,
        };
        match self {
            // Linked files may name contents of their own.
            JournalOp::Place { entry, links, .. } => !links.is_empty() || !empty(&entry.kind),
            JournalOp::PlaceLink { .. } | JournalOp::SetContent { .. } | JournalOp::Unfold { .. } => true,
            JournalOp::Fulfil { entry, .. } | JournalOp::Arrive { entry, .. } => !empty(&entry.kind),
            _ => false,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            JournalOp::Found { ino, at } => {
                out.push(tag::FOUND);
                put_number(out, ino.0);
                put_place(out, at);
            }
            JournalOp::FoundLink { link } => {
                out.push(tag::FOUND_LINK);
                put_number(out, link.0);
            }
            JournalOp::Place {
                at,
                ino,
                entry,
                links,
                ctime,
            } => {
                out.push(tag::PLACE);
                put_place(out, at);
                put_number(out, ino.0);
                ctime.encode(out);
                entry.encode(out);
                put_links(out, links);
            }
            JournalOp::PlaceLink {
                at,
                link,
                links,
                time,
            } => {
                out.push(tag::PLACE_LINK);
                put_place(out, at);
                put_number(out, link.0);
                put_links(out, links);
                time.encode(out);
            }
            JournalOp::Remove { at, time } => {
                out.push(tag::REMOVE);
                put_place(out, at);
                time.encode(out);
            }
            JournalOp::Rename {
                from,
                to,
                exchange,
                time,
            } => {
                out.push(tag::RENAME);
                put_place(out, from);
                put_place(out, to);
                // A number and not a byte of its own: the format has no flags.
                put_number(out, u64::from(*exchange));
                time.encode(out);
            }
            JournalOp::Link { ino, at, time } => {
                put_head(out, tag::LINK, *ino, *time);
                put_place(out, at);
            }
            JournalOp::SetMode { ino, mode, time } => {
                put_head(out, tag::SET_MODE, *ino, *time);
                put_number(out, u64::from(*mode));
            }
            JournalOp::SetOwner { ino, uid, gid, time } => {
                put_head(out, tag::SET_OWNER, *ino, *time);
                put_number(out, u64::from(*uid));
                put_number(out, u64::from(*gid));
            }
            JournalOp::SetMtime { ino, mtime, time } => {
                put_head(out, tag::SET_MTIME, *ino, *time);
                mtime.encode(out);
            }
            JournalOp::Resize { ino, size, time } => {
                put_head(out, tag::RESIZE, *ino, *time);
                put_number(out, *size);
            }
            JournalOp::SetXattr {
                ino,
                name,
                value,
                time,
            } => {
                put_head(out, tag::SET_XATTR, *ino, *time);
                put_bytes(out, name);
                put_bytes(out, value);
            }
            JournalOp::RemoveXattr { ino, name, time } => {
                put_head(out, tag::REMOVE_XATTR, *ino, *time);
                put_bytes(out, name);
            }
            // A tag of its own, because the encoding of labels has no empty set.
            JournalOp::SetLabels { ino, labels, time } if labels.is_empty() => {
                put_head(out, tag::CLEAR_LABELS, *ino, *time);
            }
            JournalOp::SetLabels { ino, labels, time } => {
                put_head(out, tag::SET_LABELS, *ino, *time);
                labels.encode(out);
            }
            JournalOp::Write {
                ino,
                offset,
                len,
                time,
            } => {
                put_head(out, tag::WRITE, *ino, *time);
                put_number(out, *offset);
                put_number(out, *len);
            }
            JournalOp::SetContent {
                ino,
                size,
                content,
                time,
            } => {
                put_head(out, tag::SET_CONTENT, *ino, *time);
                // Contents are encoded as an entry whose attributes are the default ones; decoding checks
                // that.
                Entry {
                    meta: Meta::default(),
                    kind: EntryKind::File {
                        size: *size,
                        content: *content,
                    },
                }
                .encode(out);
            }
            JournalOp::Unfold { ino, kept } => {
                out.push(tag::UNFOLD);
                put_number(out, ino.0);
                kept.encode(out);
            }
            JournalOp::Fulfil { ino, entry, ctime } => {
                put_head(out, tag::FULFIL, *ino, *ctime);
                entry.encode(out);
            }
            JournalOp::Gone { at } => {
                out.push(tag::GONE);
                put_place(out, at);
            }
            JournalOp::Arrive {
                at,
                ino,
                entry,
                ctime,
            } => {
                out.push(tag::ARRIVE);
                put_place(out, at);
                put_number(out, ino.0);
                ctime.encode(out);
                entry.encode(out);
            }
            JournalOp::Punch {
                ino,
                offset,
                len,
                time,
            } => {
                put_head(out, tag::PUNCH, *ino, *time);
                put_number(out, *offset);
                put_number(out, *len);
            }
        }
    }

    /// Decodes one operation; the bytes of a write are left in the reader.
    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<JournalOp, DecodeError> {
        let op = match reader.byte()? {
            tag::FOUND => JournalOp::Found {
                ino: Ino(reader.number()?),
                at: place(reader)?,
            },
            tag::FOUND_LINK => JournalOp::FoundLink {
                link: LinkId(reader.number()?),
            },
            tag::PLACE => return decode_place_op(reader),
            tag::PLACE_LINK => JournalOp::PlaceLink {
                at: place(reader)?,
                link: LinkId(reader.number()?),
                links: links(reader)?,
                time: Timestamp::decode(reader)?,
            },
            tag::REMOVE => JournalOp::Remove {
                at: place(reader)?,
                time: Timestamp::decode(reader)?,
            },
            tag::RENAME => JournalOp::Rename {
                from: place(reader)?,
                to: place(reader)?,
                exchange: flag(reader)?,
                time: Timestamp::decode(reader)?,
            },
            tag::UNFOLD => JournalOp::Unfold {
                ino: Ino(reader.number()?),
                kept: KeptDirectory::decode(reader)?,
            },
            tag::GONE => JournalOp::Gone { at: place(reader)? },
            tag::ARRIVE => JournalOp::Arrive {
                at: place(reader)?,
                ino: Ino(reader.number()?),
                ctime: Timestamp::decode(reader)?,
                entry: Entry::decode(reader)?,
            },
            tag => return decode_inode_op(tag, reader),
        };
        Ok(op)
    }
}

fn decode_place_op(reader: &mut ByteReader<'_>) -> Result<JournalOp, DecodeError> {
    let at = place(reader)?;
    let ino = Ino(reader.number()?);
    let ctime = Timestamp::decode(reader)?;
    let entry = Entry::decode(reader)?;
    Ok(JournalOp::Place {
        at,
        ino,
        entry,
        links: links(reader)?,
        ctime,
    })
}

fn links(reader: &mut ByteReader<'_>) -> Result<Vec<(LinkId, LinkedFile)>, DecodeError> {
    let count = reader.number()?;
    let mut links = Vec::new();
    // No room is reserved for the count: a damaged one would ask for any amount of memory.
    for _ in 0..count {
        links.push((LinkId(reader.number()?), LinkedFile::decode(reader)?));
    }
    Ok(links)
}

fn put_links(out: &mut Vec<u8>, links: &[(LinkId, LinkedFile)]) {
    put_number(out, links.len() as u64);
    for (id, file) in links {
        put_number(out, id.0);
        file.encode(out);
    }
}

fn decode_inode_op(tag: u8, reader: &mut ByteReader<'_>) -> Result<JournalOp, DecodeError> {
    let ino = Ino(reader.number()?);
    let time = Timestamp::decode(reader)?;
    Ok(match tag {
        tag::LINK => JournalOp::Link {
            ino,
            at: place(reader)?,
            time,
        },
        tag::SET_MODE => JournalOp::SetMode {
            ino,
            mode: reader.number_u32()?,
            time,
        },
        tag::SET_OWNER => JournalOp::SetOwner {
            ino,
            uid: reader.number_u32()?,
            gid: reader.number_u32()?,
            time,
        },
        tag::SET_MTIME => JournalOp::SetMtime {
            ino,
            mtime: Timestamp::decode(reader)?,
            time,
        },
        tag::RESIZE => JournalOp::Resize {
            ino,
            size: reader.number()?,
            time,
        },
        tag::SET_XATTR => JournalOp::SetXattr {
            ino,
            name: reader.bytes()?.to_vec(),
            value: reader.bytes()?.to_vec(),
            time,
        },
        tag::REMOVE_XATTR => JournalOp::RemoveXattr {
            ino,
            name: reader.bytes()?.to_vec(),
            time,
        },
        tag::SET_LABELS => JournalOp::SetLabels {
            ino,
            labels: Labels::decode(reader)?,
            time,
        },
        tag::CLEAR_LABELS => JournalOp::SetLabels {
            ino,
            labels: Labels::default(),
            time,
        },
        tag::WRITE => JournalOp::Write {
            ino,
            offset: reader.number()?,
            len: reader.number()?,
            time,
        },
        tag::SET_CONTENT => match Entry::decode(reader)? {
            Entry {
                meta,
                kind: EntryKind::File { size, content },
                // The record is an entry of which only the contents count; anything else in it has come from no
                // writer.
            } if meta == Meta::default() => JournalOp::SetContent {
                ino,
                size,
                content,
                time,
            },
            _ => return Err(DecodeError::Invalid("contents that are not a file's")),
        },
        tag::FULFIL => JournalOp::Fulfil {
            ino,
            entry: Entry::decode(reader)?,
            ctime: time,
        },
        tag::PUNCH => JournalOp::Punch {
            ino,
            offset: reader.number()?,
            len: reader.number()?,
            time,
        },
        other => {
            return Err(DecodeError::Unknown {
                what: "operation",
                value: other.into(),
            });
        }
    })
}

fn put_head(out: &mut Vec<u8>, tag: u8, ino: Ino, time: Timestamp) {
    out.push(tag);
    put_number(out, ino.0);
    time.encode(out);
}

fn put_place(out: &mut Vec<u8>, place: &EntryPlace) {
    put_number(out, place.parent.0);
    put_bytes(out, place.name.as_bytes());
}

fn place(reader: &mut ByteReader<'_>) -> Result<EntryPlace, DecodeError> {
    let parent = Ino(reader.number()?);
    let name = EntryName::new(reader.bytes()?).map_err(|_| DecodeError::Invalid("a bad name"))?;
    Ok(EntryPlace { parent, name })
}

fn flag(reader: &mut ByteReader<'_>) -> Result<bool, DecodeError> {
    match reader.number()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(DecodeError::Unknown {
            what: "flag",
            value: other,
        }),
    }
}
