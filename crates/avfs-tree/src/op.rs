//! Everything that can be done to a working tree, as values: what the journal holds and replay repeats.
//!
//! An operation carries all that its effect depends on, the time and the new inode number included, so
//! applying the same operations to the same snapshot gives the same tree.

use avfs_core::codec::{put_bytes, put_number};
use avfs_core::map::Record;
use avfs_core::{
    Content, DecodeError, Entry, EntryKind, EntryName, Labels, LinkId, LinkedFile, Meta, Reader, Timestamp,
};

use crate::inodes::Ino;
use crate::promises::KeptDirectory;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub parent: Ino,
    pub name: EntryName,
}

impl Place {
    pub fn new(parent: Ino, name: EntryName) -> Place {
        Place { parent, name }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Changes nothing: says where an inode was found, so that replay knows the number when it comes up.
    Found {
        ino: Ino,
        at: Place,
    },
    /// The same for a file with several names.
    FoundLink {
        link: LinkId,
    },
    /// Puts a new entry at a free place, or a whole stored tree with its linked files.
    Place {
        at: Place,
        ino: Ino,
        entry: Entry,
        links: Vec<(LinkId, LinkedFile)>,
        ctime: Timestamp,
    },
    /// Puts one of the names of a linked file that came with a stored tree.
    PlaceLink {
        at: Place,
        link: LinkId,
        links: Vec<(LinkId, LinkedFile)>,
        time: Timestamp,
    },
    /// Takes a name away, and what is below it.
    Remove {
        at: Place,
        time: Timestamp,
    },
    /// Moves what is at `from` to `to`, replacing what is there or, in an exchange, swapping the two.
    Rename {
        from: Place,
        to: Place,
        exchange: bool,
        time: Timestamp,
    },
    /// Gives a file another name.
    Link {
        ino: Ino,
        at: Place,
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
    /// Replaces the contents of a file by stored ones.
    SetContent {
        ino: Ino,
        size: u64,
        content: Content,
        time: Timestamp,
    },
    /// A directory that a source had promised is what it was kept as.
    Unfold {
        ino: Ino,
        kept: KeptDirectory,
    },
    /// A file that a source had promised is this version of it. Nobody has changed it.
    Settle {
        ino: Ino,
        entry: Entry,
        ctime: Timestamp,
    },
    /// What a source had promised is not there any more. Nobody has removed it.
    Gone {
        at: Place,
    },
    /// A source has something else in the place of what it had promised.
    Arrive {
        at: Place,
        ino: Ino,
        entry: Entry,
        ctime: Timestamp,
    },
    /// Makes a range a hole without changing the size.
    Punch {
        ino: Ino,
        offset: u64,
        len: u64,
        time: Timestamp,
    },
}

mod tag {
    pub const PLACE: u8 = 1;
    pub const REMOVE: u8 = 2;
    pub const RENAME: u8 = 3;
    pub const LINK: u8 = 4;
    pub const SET_MODE: u8 = 5;
    pub const SET_OWNER: u8 = 6;
    pub const SET_MTIME: u8 = 7;
    pub const RESIZE: u8 = 8;
    pub const SET_XATTR: u8 = 9;
    pub const REMOVE_XATTR: u8 = 10;
    pub const WRITE: u8 = 11;
    pub const PUNCH: u8 = 12;
    pub const FOUND: u8 = 13;
    pub const FOUND_LINK: u8 = 14;
    pub const SET_CONTENT: u8 = 15;
    pub const PLACE_LINK: u8 = 16;
    pub const SET_LABELS: u8 = 17;
    pub const CLEAR_LABELS: u8 = 18;
    pub const UNFOLD: u8 = 19;
    pub const SETTLE: u8 = 20;
    pub const GONE: u8 = 21;
    pub const ARRIVE: u8 = 22;
}

impl Op {
    /// The inode that the operation changes by its number.
    pub fn inode(&self) -> Option<Ino> {
        match self {
            Op::Found { .. }
            | Op::FoundLink { .. }
            | Op::Place { .. }
            | Op::PlaceLink { .. }
            | Op::Remove { .. }
            | Op::Gone { .. }
            | Op::Arrive { .. }
            | Op::Rename { .. } => None,
            Op::Link { ino, .. }
            | Op::SetMode { ino, .. }
            | Op::SetOwner { ino, .. }
            | Op::SetMtime { ino, .. }
            | Op::Resize { ino, .. }
            | Op::SetXattr { ino, .. }
            | Op::RemoveXattr { ino, .. }
            | Op::SetLabels { ino, .. }
            | Op::Write { ino, .. }
            | Op::SetContent { ino, .. }
            | Op::Unfold { ino, .. }
            | Op::Settle { ino, .. }
            | Op::Punch { ino, .. } => Some(*ino),
        }
    }

    /// The directories in which the operation changes names.
    pub fn parents(&self) -> Vec<Ino> {
        match self {
            Op::Place { at, .. }
            | Op::PlaceLink { at, .. }
            | Op::Remove { at, .. }
            | Op::Gone { at }
            | Op::Arrive { at, .. }
            | Op::Link { at, .. } => vec![at.parent],
            Op::Rename { from, to, .. } => vec![from.parent, to.parent],
            _ => Vec::new(),
        }
    }

    /// Whether the operation refers to contents that are stored as objects.
    pub fn makes_room(&self) -> bool {
        matches!(self, Op::Remove { .. } | Op::Gone { .. } | Op::Punch { .. } | Op::Resize { .. })
    }

    pub fn names_objects(&self) -> bool {
        let empty = |kind: &EntryKind| match kind {
            EntryKind::File { content, .. } => *content == Content::Empty,
            EntryKind::Directory { entries, .. } => entries.is_none(),
            _ => true,
        };
        match self {
            Op::Place { entry, links, .. } => !links.is_empty() || !empty(&entry.kind),
            Op::PlaceLink { .. } | Op::SetContent { .. } | Op::Unfold { .. } => true,
            Op::Settle { entry, .. } | Op::Arrive { entry, .. } => !empty(&entry.kind),
            _ => false,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Op::Found { ino, at } => {
                out.push(tag::FOUND);
                put_number(out, ino.0);
                put_place(out, at);
            }
            Op::FoundLink { link } => {
                out.push(tag::FOUND_LINK);
                put_number(out, link.0);
            }
            Op::Place { at, ino, entry, links, ctime } => {
                out.push(tag::PLACE);
                put_place(out, at);
                put_number(out, ino.0);
                ctime.encode(out);
                entry.encode(out);
                put_links(out, links);
            }
            Op::PlaceLink { at, link, links, time } => {
                out.push(tag::PLACE_LINK);
                put_place(out, at);
                put_number(out, link.0);
                put_links(out, links);
                time.encode(out);
            }
            Op::Remove { at, time } => {
                out.push(tag::REMOVE);
                put_place(out, at);
                time.encode(out);
            }
            Op::Rename { from, to, exchange, time } => {
                out.push(tag::RENAME);
                put_place(out, from);
                put_place(out, to);
                put_number(out, u64::from(*exchange));
                time.encode(out);
            }
            Op::Link { ino, at, time } => {
                put_head(out, tag::LINK, *ino, *time);
                put_place(out, at);
            }
            Op::SetMode { ino, mode, time } => {
                put_head(out, tag::SET_MODE, *ino, *time);
                put_number(out, u64::from(*mode));
            }
            Op::SetOwner { ino, uid, gid, time } => {
                put_head(out, tag::SET_OWNER, *ino, *time);
                put_number(out, u64::from(*uid));
                put_number(out, u64::from(*gid));
            }
            Op::SetMtime { ino, mtime, time } => {
                put_head(out, tag::SET_MTIME, *ino, *time);
                mtime.encode(out);
            }
            Op::Resize { ino, size, time } => {
                put_head(out, tag::RESIZE, *ino, *time);
                put_number(out, *size);
            }
            Op::SetXattr { ino, name, value, time } => {
                put_head(out, tag::SET_XATTR, *ino, *time);
                put_bytes(out, name);
                put_bytes(out, value);
            }
            Op::RemoveXattr { ino, name, time } => {
                put_head(out, tag::REMOVE_XATTR, *ino, *time);
                put_bytes(out, name);
            }
            Op::SetLabels { ino, labels, time } if labels.is_empty() => {
                put_head(out, tag::CLEAR_LABELS, *ino, *time);
            }
            Op::SetLabels { ino, labels, time } => {
                put_head(out, tag::SET_LABELS, *ino, *time);
                labels.encode(out);
            }
            Op::Write { ino, offset, len, time } => {
                put_head(out, tag::WRITE, *ino, *time);
                put_number(out, *offset);
                put_number(out, *len);
            }
            Op::SetContent { ino, size, content, time } => {
                put_head(out, tag::SET_CONTENT, *ino, *time);
                Entry { meta: Meta::default(), kind: EntryKind::File { size: *size, content: *content } }
                    .encode(out);
            }
            Op::Unfold { ino, kept } => {
                out.push(tag::UNFOLD);
                put_number(out, ino.0);
                kept.encode(out);
            }
            Op::Settle { ino, entry, ctime } => {
                put_head(out, tag::SETTLE, *ino, *ctime);
                entry.encode(out);
            }
            Op::Gone { at } => {
                out.push(tag::GONE);
                put_place(out, at);
            }
            Op::Arrive { at, ino, entry, ctime } => {
                out.push(tag::ARRIVE);
                put_place(out, at);
                put_number(out, ino.0);
                ctime.encode(out);
                entry.encode(out);
            }
            Op::Punch { ino, offset, len, time } => {
                put_head(out, tag::PUNCH, *ino, *time);
                put_number(out, *offset);
                put_number(out, *len);
            }
        }
    }

    /// Reads one operation off the front; the bytes of a write are left in the reader.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Op, DecodeError> {
        let op = match reader.byte()? {
            tag::FOUND => Op::Found { ino: Ino(reader.number()?), at: place(reader)? },
            tag::FOUND_LINK => Op::FoundLink { link: LinkId(reader.number()?) },
            tag::PLACE => return decode_place_op(reader),
            tag::PLACE_LINK => Op::PlaceLink {
                at: place(reader)?,
                link: LinkId(reader.number()?),
                links: links(reader)?,
                time: Timestamp::decode(reader)?,
            },
            tag::REMOVE => Op::Remove { at: place(reader)?, time: Timestamp::decode(reader)? },
            tag::RENAME => Op::Rename {
                from: place(reader)?,
                to: place(reader)?,
                exchange: flag(reader)?,
                time: Timestamp::decode(reader)?,
            },
            tag::UNFOLD => Op::Unfold { ino: Ino(reader.number()?), kept: KeptDirectory::decode(reader)? },
            tag::GONE => Op::Gone { at: place(reader)? },
            tag::ARRIVE => Op::Arrive {
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

fn decode_place_op(reader: &mut Reader<'_>) -> Result<Op, DecodeError> {
    let (at, ino, ctime) = (place(reader)?, Ino(reader.number()?), Timestamp::decode(reader)?);
    let entry = Entry::decode(reader)?;
    Ok(Op::Place { at, ino, entry, links: links(reader)?, ctime })
}

fn links(reader: &mut Reader<'_>) -> Result<Vec<(LinkId, LinkedFile)>, DecodeError> {
    let count = reader.number()?;
    let mut links = Vec::new();
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

fn decode_inode_op(tag: u8, reader: &mut Reader<'_>) -> Result<Op, DecodeError> {
    let (ino, time) = (Ino(reader.number()?), Timestamp::decode(reader)?);
    Ok(match tag {
        tag::LINK => Op::Link { ino, at: place(reader)?, time },
        tag::SET_MODE => Op::SetMode { ino, mode: reader.number_u32()?, time },
        tag::SET_OWNER => Op::SetOwner { ino, uid: reader.number_u32()?, gid: reader.number_u32()?, time },
        tag::SET_MTIME => Op::SetMtime { ino, mtime: Timestamp::decode(reader)?, time },
        tag::RESIZE => Op::Resize { ino, size: reader.number()?, time },
        tag::SET_XATTR => {
            Op::SetXattr { ino, name: reader.bytes()?.to_vec(), value: reader.bytes()?.to_vec(), time }
        }
        tag::REMOVE_XATTR => Op::RemoveXattr { ino, name: reader.bytes()?.to_vec(), time },
        tag::SET_LABELS => Op::SetLabels { ino, labels: Labels::decode(reader)?, time },
        tag::CLEAR_LABELS => Op::SetLabels { ino, labels: Labels::default(), time },
        tag::WRITE => Op::Write { ino, offset: reader.number()?, len: reader.number()?, time },
        tag::SET_CONTENT => match Entry::decode(reader)? {
            Entry { meta, kind: EntryKind::File { size, content } } if meta == Meta::default() => {
                Op::SetContent { ino, size, content, time }
            }
            _ => return Err(DecodeError::Invalid("contents that are not a file's")),
        },
        tag::SETTLE => Op::Settle { ino, entry: Entry::decode(reader)?, ctime: time },
        tag::PUNCH => Op::Punch { ino, offset: reader.number()?, len: reader.number()?, time },
        other => return Err(DecodeError::Unknown { what: "operation", value: other.into() }),
    })
}

fn put_head(out: &mut Vec<u8>, tag: u8, ino: Ino, time: Timestamp) {
    out.push(tag);
    put_number(out, ino.0);
    time.encode(out);
}

fn put_place(out: &mut Vec<u8>, place: &Place) {
    put_number(out, place.parent.0);
    put_bytes(out, place.name.as_bytes());
}

fn place(reader: &mut Reader<'_>) -> Result<Place, DecodeError> {
    let parent = Ino(reader.number()?);
    let name = EntryName::new(reader.bytes()?).map_err(|_| DecodeError::Invalid("a bad name"))?;
    Ok(Place { parent, name })
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.number()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(DecodeError::Unknown { what: "flag", value: other }),
    }
}
