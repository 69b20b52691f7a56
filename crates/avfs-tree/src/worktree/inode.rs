//! An inode of the working tree in memory.

use std::collections::{BTreeSet, HashMap};

use avfs_core::{Entry, EntryKind, EntryName, LinkId, Meta, NodeId, Timestamp, Totals};

use crate::file::FileBody;
use crate::inodes::Ino;
use crate::op::Place;

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub meta: Meta,
    pub ctime: Timestamp,
    pub body: Body,
    /// Where it is; `None` for the root, for a file with several names and for one without any.
    pub place: Option<Place>,
    pub link: Option<LinkId>,
    /// How many names it has.
    pub names: u32,
    /// Differs from the last snapshot.
    pub dirty: bool,
    /// How many handles keep it alive without a name.
    pub opens: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    File(FileBody),
    Directory(DirectoryBody),
    Symlink(Box<[u8]>),
    Fifo,
    Socket,
    CharDevice(u64),
    BlockDevice(u64),
}

/// A directory: stored entries below, the names that changed since above.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirectoryBody {
    pub base: Option<NodeId>,
    /// What lies below now.
    pub below: Totals,
    /// The entries that are in memory.
    pub children: HashMap<EntryName, Ino>,
    /// The names whose stored slot no longer holds; without a child, the name is gone.
    pub changed: BTreeSet<EntryName>,
}

impl Inode {
    pub fn from_entry(entry: Entry, ctime: Timestamp) -> Inode {
        let body = match entry.kind {
            EntryKind::File { size, content } => Body::File(FileBody::stored(size, content)),
            EntryKind::Directory { entries, below } => {
                Body::Directory(DirectoryBody { base: entries, below, ..DirectoryBody::default() })
            }
            EntryKind::Symlink { target } => Body::Symlink(target),
            EntryKind::Fifo => Body::Fifo,
            EntryKind::Socket => Body::Socket,
            EntryKind::CharDevice { device } => Body::CharDevice(device),
            EntryKind::BlockDevice { device } => Body::BlockDevice(device),
        };
        Inode { meta: entry.meta, ctime, body, place: None, link: None, names: 1, dirty: false, opens: 0 }
    }

    pub fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    pub fn size(&self) -> u64 {
        match &self.body {
            Body::File(file) => file.size,
            Body::Symlink(target) => target.len() as u64,
            Body::Directory(_) | Body::Fifo | Body::Socket | Body::CharDevice(_) | Body::BlockDevice(_) => 0,
        }
    }

    /// What counts against a quota: the bytes of a regular file.
    pub fn file_bytes(&self) -> u64 {
        if let Body::File(file) = &self.body { file.size } else { 0 }
    }

    /// What this inode's slot adds to the directory that holds it.
    pub fn totals_in_parent(&self) -> Totals {
        match &self.body {
            _ if self.link.is_some() => Totals { inodes: 1, bytes: 0, links: 1 },
            Body::File(file) => Totals { inodes: 1, bytes: file.size, links: 0 },
            Body::Directory(directory) => Totals { inodes: 1, ..Totals::default() }.plus(directory.below),
            Body::Symlink(_) | Body::Fifo | Body::Socket | Body::CharDevice(_) | Body::BlockDevice(_) => {
                Totals { inodes: 1, ..Totals::default() }
            }
        }
    }
}
