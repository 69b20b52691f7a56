//! An inode of the working tree in memory. There is one for each file that the kernel knows, so its size
//! counts: what few inodes have is boxed.

use std::collections::{BTreeSet, HashMap};

use avfs_core::{Content, Entry, EntryKind, EntryName, Meta, NodeId, Timestamp, Totals};

use crate::error::FsError;
use crate::file::FileBody;
use crate::inodes::Ino;
use crate::op::Place;
use crate::worktree::Moment;

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub meta: Meta,
    pub ctime: Timestamp,
    /// Set by `utimensat` alone, kept in memory alone.
    pub atime: Option<Box<Timestamp>>,
    pub body: Body,
    /// Where it is; `None` for the root, for a file with several names and for one without any.
    pub place: Option<Place>,
    /// Has or had several names: its record is in the link table, under its number.
    pub linked: bool,
    /// Differs from the last snapshot.
    pub dirty: bool,
    /// How many names it has.
    pub names: u32,
    /// How many handles, or doors that know its number, keep it in memory.
    pub holds: u32,
    /// Was held, and nobody holds it any more: whoever knew its number has forgotten it.
    pub forgotten: bool,
    /// When its contents were last replaced by those of another time.
    pub replaced: Moment,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A file as the last snapshot has it.
    Stored {
        size: u64,
        content: Content,
    },
    Edited(Box<FileBody>),
    Directory(Box<DirectoryBody>),
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
    /// The changed names that a snapshot has taken and not stored yet.
    pub settling: BTreeSet<EntryName>,
    /// Numbers and change times of its entries, as long as no snapshot has them in its table.
    pub numbers: Option<NodeId>,
    /// How many directories are in it, once somebody has asked.
    pub directories: Option<u32>,
}

impl DirectoryBody {
    /// Whether the stored slot of a name no longer holds.
    pub fn is_overlaid(&self, name: &[u8]) -> bool {
        self.changed.contains(name) || self.settling.contains(name)
    }
}

impl Inode {
    pub fn from_entry(entry: Entry, ctime: Timestamp) -> Inode {
        let body = match entry.kind {
            EntryKind::File { size, content } => Body::Stored { size, content },
            EntryKind::Directory { entries, below } => {
                Body::Directory(Box::new(DirectoryBody { base: entries, below, ..DirectoryBody::default() }))
            }
            EntryKind::Symlink { target } => Body::Symlink(target),
            EntryKind::Fifo => Body::Fifo,
            EntryKind::Socket => Body::Socket,
            EntryKind::CharDevice { device } => Body::CharDevice(device),
            EntryKind::BlockDevice { device } => Body::BlockDevice(device),
        };
        Inode {
            meta: entry.meta,
            ctime,
            atime: None,
            body,
            place: None,
            linked: false,
            dirty: false,
            names: 1,
            holds: 0,
            forgotten: false,
            replaced: Moment::default(),
        }
    }

    pub fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    pub fn size(&self) -> u64 {
        match &self.body {
            Body::Symlink(target) => target.len() as u64,
            _ => self.file_bytes(),
        }
    }

    /// What counts against a quota: the bytes of a regular file.
    pub fn file_bytes(&self) -> u64 {
        match &self.body {
            Body::Stored { size, .. } => *size,
            Body::Edited(file) => file.size,
            Body::Directory(_)
            | Body::Symlink(_)
            | Body::Fifo
            | Body::Socket
            | Body::CharDevice(_)
            | Body::BlockDevice(_) => 0,
        }
    }

    /// The size of a regular file, or why it has none.
    pub fn file_size(&self) -> Result<u64, FsError> {
        match &self.body {
            Body::Stored { .. } | Body::Edited(_) => Ok(self.file_bytes()),
            Body::Directory(_) => Err(FsError::IsADirectory),
            _ => Err(FsError::Invalid("not a regular file")),
        }
    }

    /// The contents of a regular file, to be changed.
    pub fn edit_file(&mut self) -> Result<&mut FileBody, FsError> {
        if let Body::Stored { size, content } = self.body {
            self.body = Body::Edited(Box::new(FileBody::stored(size, content)));
        }
        match &mut self.body {
            Body::Edited(file) => Ok(file),
            Body::Directory(_) => Err(FsError::IsADirectory),
            _ => Err(FsError::Invalid("not a regular file")),
        }
    }

    /// What this inode's slot adds to the directory that holds it.
    pub fn totals_in_parent(&self) -> Totals {
        match &self.body {
            _ if self.linked => Totals { inodes: 1, bytes: 0, links: 1 },
            Body::Directory(directory) => Totals { inodes: 1, ..Totals::default() }.plus(directory.below),
            _ => Totals { inodes: 1, bytes: self.file_bytes(), links: 0 },
        }
    }
}
