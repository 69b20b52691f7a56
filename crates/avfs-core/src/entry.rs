//! The contents of a directory: entries, their attributes and their file contents by name.

use crate::codec::{ByteReader, DecodeError, put_bytes, put_id, put_number, put_signed};
use crate::id::{BlobId, ChunksId, NodeId};
use crate::label::Labels;
use crate::map::MapRecord;
use crate::name::EntryName;

/// A point in time with nanosecond resolution, as file times have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds since 1970, negative before.
    pub seconds: i64,
    /// Below 1,000,000,000.
    pub nanos: u32,
}

impl Timestamp {
    /// Nanoseconds in a second.
    pub const NANOS_PER_SECOND: u32 = 1_000_000_000;

    /// `None` if `nanos` is a second or more.
    pub fn new(seconds: i64, nanos: u32) -> Option<Timestamp> {
        (nanos < Timestamp::NANOS_PER_SECOND).then_some(Timestamp { seconds, nanos })
    }

    /// From nanoseconds since 1970. Times that do not fit are cut off at the first or the last that does.
    pub fn from_nanos(nanos: i128) -> Timestamp {
        let per_second = i128::from(Timestamp::NANOS_PER_SECOND);
        let seconds = nanos
            .div_euclid(per_second)
            // A file may claim any time; one beyond the range is the last that can be stored.
            .clamp(i64::MIN.into(), i64::MAX.into());
        Timestamp {
            seconds: seconds as i64,
            nanos: nanos.rem_euclid(per_second) as u32,
        }
    }

    /// Nanoseconds since 1970.
    pub fn as_nanos(self) -> i128 {
        i128::from(self.seconds) * i128::from(Timestamp::NANOS_PER_SECOND) + i128::from(self.nanos)
    }

    /// Appends the canonical encoding.
    pub fn encode(self, out: &mut Vec<u8>) {
        put_signed(out, self.seconds);
        put_number(out, u64::from(self.nanos));
    }

    /// Reads what [`Timestamp::encode`] wrote.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Timestamp, DecodeError> {
        Timestamp::new(reader.signed()?, reader.number_u32()?)
            .ok_or(DecodeError::Invalid("a time has too many nanoseconds"))
    }
}

/// Extended attributes, sorted by name. Most files have none, and an empty list needs no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xattrs(Box<[Xattr]>);

/// Name and value.
type Xattr = (Box<[u8]>, Box<[u8]>);

impl Xattrs {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of an attribute.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let index = self.0.binary_search_by(|pair| pair.0[..].cmp(name)).ok()?;
        Some(&self.0[index].1)
    }

    /// Sets an attribute, or replaces its value.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        match self.0.binary_search_by(|pair| pair.0[..].cmp(name)) {
            // In place: most changes of an attribute give it another value of its own.
            Ok(index) => self.0[index].1 = value.into(),
            Err(index) => self.edit(|pairs| pairs.insert(index, (name.into(), value.into()))),
        }
    }

    /// Returns whether the attribute existed.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let found = self.0.binary_search_by(|pair| pair.0[..].cmp(name));
        found
            .map(|index| self.edit(|pairs| drop(pairs.remove(index))))
            .is_ok()
    }

    fn edit(&mut self, change: impl FnOnce(&mut Vec<Xattr>)) {
        // A boxed list is two words where most files have none; a vector exists only while it changes.
        let mut pairs = std::mem::take(&mut self.0).into_vec();
        change(&mut pairs);
        self.0 = pairs.into();
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (&name[..], &value[..]))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.0.len() as u64);
        for (name, value) in &self.0 {
            put_bytes(out, name);
            put_bytes(out, value);
        }
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Xattrs, DecodeError> {
        let count = reader.number()?;
        // Without room for the count, which may be damaged.
        let mut pairs: Vec<Xattr> = Vec::new();
        for _ in 0..count {
            let name: Box<[u8]> = reader.bytes()?.into();
            // Equal trees must have equal ids, so each set of attributes has one encoding: sorted, each name
            // once.
            if pairs.last().is_some_and(|last| last.0 >= name) {
                return Err(DecodeError::Invalid("extended attributes are not in order"));
            }
            pairs.push((name, reader.bytes()?.into()));
        }
        Ok(Xattrs(pairs.into()))
    }
}

/// The attributes that every entry has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Meta {
    /// Permission bits with setuid, setgid and sticky: at most 0o7777.
    pub mode: u32,
    /// The user who owns it.
    pub uid: u32,
    /// The group that owns it.
    pub gid: u32,
    /// When its contents were last changed.
    pub mtime: Timestamp,
    /// Extended attributes.
    pub xattrs: Xattrs,
    /// Properties that rules can match instead of the path.
    pub labels: Labels,
}

/// The bytes of a file. Which form a file has depends on its bytes and holes alone:
/// see [`BLOB_MAX`](crate::chunks::BLOB_MAX).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// No bytes at all.
    Empty,
    /// One object.
    Blob(BlobId),
    /// A list of chunks, with holes.
    Chunks(ChunksId),
}

/// How much lies below a directory or in an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Totals {
    /// Everything that has an inode: files, directories, links.
    pub inodes: u64,
    /// Sum of the file sizes.
    pub bytes: u64,
    /// Names of files that have several: a search for the names of a linked file skips directories without
    /// any.
    pub links: u64,
}

impl Totals {
    /// Both together. Sums that do not fit stay at the largest number.
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            inodes: self.inodes.saturating_add(other.inodes),
            bytes: self.bytes.saturating_add(other.bytes),
            links: self.links.saturating_add(other.links),
        }
    }

    /// The totals without `other`, which is a part of them.
    pub fn minus(self, other: Totals) -> Totals {
        Totals {
            inodes: self.inodes.saturating_sub(other.inodes),
            bytes: self.bytes.saturating_sub(other.bytes),
            links: self.links.saturating_sub(other.links),
        }
    }

    /// Appends the canonical encoding.
    pub fn encode(self, out: &mut Vec<u8>) {
        put_number(out, self.inodes);
        put_number(out, self.bytes);
        put_number(out, self.links);
    }

    /// Reads what [`Totals::encode`] wrote.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Totals, DecodeError> {
        Ok(Totals {
            inodes: reader.number()?,
            bytes: reader.number()?,
            links: reader.number()?,
        })
    }
}

/// Names a record in the link table of a snapshot: a file that several directory entries share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

impl LinkId {
    /// The key of this record in the link table; its order is that of the numbers.
    pub fn key(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// The kind of an entry, with what only that kind has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Its length, with its holes.
        size: u64,
        /// Its bytes.
        content: Content,
    },
    /// A directory.
    Directory {
        /// The map of the entries; `None` if there are none.
        entries: Option<NodeId>,
        /// Totals of everything below, without the directory itself.
        below: Totals,
    },
    /// A symbolic link.
    Symlink {
        /// The path that it holds, as it was written.
        target: Box<[u8]>,
    },
    /// A named pipe.
    Fifo,
    /// A socket, which connects nothing here.
    Socket,
    /// A character device.
    CharDevice {
        /// The number of the device, as `mknod` takes it.
        device: u64,
    },
    /// A block device.
    BlockDevice {
        /// The number of the device, as `mknod` takes it.
        device: u64,
    },
}

/// A file system object, in a directory or, if it has several names, in the link table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The attributes that every kind has.
    pub meta: Meta,
    /// The kind, with its contents.
    pub kind: EntryKind,
}

impl Entry {
    /// A directory without entries.
    pub fn empty_directory(meta: Meta) -> Entry {
        Entry {
            meta,
            kind: EntryKind::Directory {
                entries: None,
                below: Totals::default(),
            },
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, EntryKind::Directory { .. })
    }

    /// The size as `stat` reports it: of a file or a link's target, and 0 otherwise.
    pub fn size(&self) -> u64 {
        match &self.kind {
            EntryKind::File { size, .. } => *size,
            EntryKind::Symlink { target } => target.len() as u64,
            EntryKind::Directory { .. }
            | EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice { .. }
            | EntryKind::BlockDevice { .. } => 0,
        }
    }

    fn kind_tag(&self) -> u8 {
        match &self.kind {
            EntryKind::File {
                content: Content::Empty,
                ..
            } => tag::EMPTY,
            EntryKind::File {
                content: Content::Blob(_),
                ..
            } => tag::BLOB,
            EntryKind::File {
                content: Content::Chunks(_),
                ..
            } => tag::CHUNKS,
            EntryKind::Directory { .. } => tag::DIRECTORY,
            EntryKind::Symlink { .. } => tag::SYMLINK,
            EntryKind::Fifo => tag::FIFO,
            EntryKind::Socket => tag::SOCKET,
            EntryKind::CharDevice { .. } => tag::CHAR_DEVICE,
            EntryKind::BlockDevice { .. } => tag::BLOCK_DEVICE,
        }
    }
}

mod tag {
    pub(crate) const EMPTY: u8 = 0;
    pub(crate) const BLOB: u8 = 1;
    pub(crate) const CHUNKS: u8 = 2;
    pub(crate) const DIRECTORY: u8 = 3;
    pub(crate) const SYMLINK: u8 = 4;
    pub(crate) const FIFO: u8 = 5;
    pub(crate) const SOCKET: u8 = 6;
    pub(crate) const CHAR_DEVICE: u8 = 7;
    pub(crate) const BLOCK_DEVICE: u8 = 8;
    pub(crate) const LINK: u8 = 9;
    /// Set on the tag of an entry with extended attributes.
    pub(crate) const WITH_XATTRS: u8 = 0x80;
    /// Set on the tag of an entry with labels.
    pub(crate) const WITH_LABELS: u8 = 0x40;
}

impl MapRecord for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        // Two bits of the first byte say what follows, because most entries have neither.
        let xattrs = if self.meta.xattrs.is_empty() {
            0
        } else {
            tag::WITH_XATTRS
        };
        let labels = if self.meta.labels.is_empty() {
            0
        } else {
            tag::WITH_LABELS
        };
        out.push(self.kind_tag() | xattrs | labels);
        // Numbers have a variable length, and most of these take two bytes.
        put_number(out, u64::from(self.meta.mode));
        put_number(out, u64::from(self.meta.uid));
        put_number(out, u64::from(self.meta.gid));
        self.meta.mtime.encode(out);
        if xattrs != 0 {
            self.meta.xattrs.encode(out);
        }
        if labels != 0 {
            self.meta.labels.encode(out);
        }
        match &self.kind {
            EntryKind::File { size, content } => {
                put_number(out, *size);
                match content {
                    Content::Empty => {}
                    Content::Blob(id) => put_id(out, id.object()),
                    Content::Chunks(id) => put_id(out, id.object()),
                }
            }
            EntryKind::Directory { entries, below } => {
                // Before the id, which is there only if anything is below.
                below.encode(out);
                if let Some(id) = entries {
                    put_id(out, id.object());
                }
            }
            EntryKind::Symlink { target } => put_bytes(out, target),
            EntryKind::Fifo | EntryKind::Socket => {}
            EntryKind::CharDevice { device } | EntryKind::BlockDevice { device } => put_number(out, *device),
        }
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Entry, DecodeError> {
        let byte = reader.byte()?;
        let meta = decode_meta(reader, byte)?;
        let kind = match byte & !(tag::WITH_XATTRS | tag::WITH_LABELS) {
            tag::EMPTY => EntryKind::File {
                size: decode_empty_size(reader)?,
                content: Content::Empty,
            },
            tag::BLOB => EntryKind::File {
                size: decode_size(reader)?,
                content: Content::Blob(BlobId::from_object(reader.id()?)),
            },
            tag::CHUNKS => EntryKind::File {
                size: decode_size(reader)?,
                content: Content::Chunks(ChunksId::from_object(reader.id()?)),
            },
            tag::DIRECTORY => decode_directory(reader)?,
            tag::SYMLINK => EntryKind::Symlink {
                target: reader.bytes()?.into(),
            },
            tag::FIFO => EntryKind::Fifo,
            tag::SOCKET => EntryKind::Socket,
            tag::CHAR_DEVICE => EntryKind::CharDevice {
                device: reader.number()?,
            },
            tag::BLOCK_DEVICE => EntryKind::BlockDevice {
                device: reader.number()?,
            },
            other => {
                return Err(DecodeError::Unknown {
                    what: "kind of entry",
                    value: other.into(),
                });
            }
        };
        Ok(Entry { meta, kind })
    }

    fn totals(&self) -> Totals {
        let own = Totals {
            inodes: 1,
            bytes: 0,
            links: 0,
        };
        match &self.kind {
            EntryKind::File { size, .. } => Totals {
                inodes: 1,
                bytes: *size,
                links: 0,
            },
            EntryKind::Directory { below, .. } => own.plus(*below),
            EntryKind::Symlink { .. }
            | EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice { .. }
            | EntryKind::BlockDevice { .. } => own,
        }
    }
}

fn decode_meta(reader: &mut ByteReader<'_>, tag: u8) -> Result<Meta, DecodeError> {
    let mode = reader.number_u32()?;
    // The kind of an entry has a byte of its own; here it would be a second truth.
    if mode > 0o7777 {
        return Err(DecodeError::Invalid("a mode has more than permission bits"));
    }
    let uid = reader.number_u32()?;
    let gid = reader.number_u32()?;
    let mtime = Timestamp::decode(reader)?;
    let with_xattrs = tag & tag::WITH_XATTRS != 0;
    let xattrs = if with_xattrs {
        Xattrs::decode(reader)?
    } else {
        Xattrs::default()
    };
    // A second encoding of the same entry, which would give it another id.
    if with_xattrs && xattrs.is_empty() {
        return Err(DecodeError::Invalid(
            "an empty list of extended attributes is written out",
        ));
    }
    let labels = if tag & tag::WITH_LABELS != 0 {
        Labels::decode(reader)?
    } else {
        Labels::default()
    };
    Ok(Meta {
        mode,
        uid,
        gid,
        mtime,
        xattrs,
        labels,
    })
}

fn decode_empty_size(reader: &mut ByteReader<'_>) -> Result<u64, DecodeError> {
    match reader.number()? {
        0 => Ok(0),
        _ => Err(DecodeError::Invalid("a file without content has a size")),
    }
}

fn decode_size(reader: &mut ByteReader<'_>) -> Result<u64, DecodeError> {
    match reader.number()? {
        // An empty file has the tag of one, and no object.
        0 => Err(DecodeError::Invalid("a file with content has no size")),
        size if size > crate::chunks::FILE_MAX => Err(DecodeError::Invalid("a file is too large")),
        size => Ok(size),
    }
}

fn decode_directory(reader: &mut ByteReader<'_>) -> Result<EntryKind, DecodeError> {
    let below = Totals::decode(reader)?;
    let entries = match below.inodes {
        0 if below != Totals::default() => return Err(DecodeError::Invalid("an empty directory has totals")),
        0 => None,
        _ => Some(NodeId::from_object(reader.id()?)),
    };
    Ok(EntryKind::Directory { entries, below })
}

/// What a name in a directory refers to: an entry of its own, or one of several names of a linked file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// An entry that has this name only.
    Own(Entry),
    /// A file that has other names as well.
    Link(LinkId),
}

impl MapRecord for Slot {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Slot::Own(entry) => entry.encode(out),
            Slot::Link(LinkId(id)) => {
                out.push(tag::LINK);
                out.extend_from_slice(&id.to_le_bytes());
            }
        }
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Slot, DecodeError> {
        // Looked at without being taken: an entry reads its tag itself.
        if reader.clone().byte()? != tag::LINK {
            return Ok(Slot::Own(Entry::decode(reader)?));
        }
        reader.byte()?;
        let mut id = [0u8; 8];
        // Eight bytes, not a number of variable length: they are the key of the table.
        id.copy_from_slice(reader.raw(8)?);
        Ok(Slot::Link(LinkId(u64::from_le_bytes(id))))
    }

    fn allows_key(key: &[u8]) -> bool {
        EntryName::new(key).is_ok()
    }

    /// A linked file counts as a name here and with its bytes in the link table, so that its bytes count only
    /// once.
    fn totals(&self) -> Totals {
        match self {
            Slot::Own(entry) => entry.totals(),
            Slot::Link(_) => Totals {
                inodes: 1,
                bytes: 0,
                links: 1,
            },
        }
    }
}

/// A file with several names, as stored in the link table of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LinkedFile {
    /// The file itself.
    pub entry: Entry,
    /// The number of its names: at least one.
    pub names: u32,
}

impl MapRecord for LinkedFile {
    fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, u64::from(self.names));
        self.entry.encode(out);
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<LinkedFile, DecodeError> {
        let names = reader.number_u32()?;
        let entry = Entry::decode(reader)?;
        // Such a record is reachable from nowhere, or makes a directory a child of two.
        if names == 0 || entry.is_directory() {
            return Err(DecodeError::Invalid(
                "a linked file has no name or is a directory",
            ));
        }
        Ok(LinkedFile { entry, names })
    }

    fn allows_key(key: &[u8]) -> bool {
        key.len() == size_of::<LinkId>()
    }

    fn totals(&self) -> Totals {
        Totals {
            inodes: 0,
            bytes: self.entry.totals().bytes,
            links: 0,
        }
    }
}
