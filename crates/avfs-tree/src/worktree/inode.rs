//! An inode of the working tree in memory. There is one for each file that the kernel knows, so its size
//! matters: fields that few inodes need are boxed.

use std::collections::{BTreeSet, HashMap};

use avfs_core::{Content, Entry, EntryKind, EntryName, Meta, NodeId, Timestamp, Totals};

use crate::error::FsError;
use crate::file::EditedFile;
use crate::inodes::Ino;
use crate::op::EntryPlace;
use crate::worktree::TreeMoment;

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub meta: Meta,
    pub ctime: Timestamp,
    /// Set only by `utimensat`, kept only in memory.
    pub atime: Option<Box<Timestamp>>,
    pub body: InodeBody,
    /// Its place; `None` for the root, for a file with several names and for one without any.
    pub place: Option<EntryPlace>,
    /// Has or had several names: its record is in the link table, under its number.
    pub linked: bool,
    /// Differs from the last snapshot.
    pub dirty: bool,
    /// The number of its names.
    pub names: u32,
    /// How many handles, or doors that know its number, keep it in memory.
    pub holds: u32,
    /// Was held and no longer is: every door that knew its number has forgotten it.
    pub forgotten: bool,
    /// When its contents were last replaced by those of another point in time.
    pub replaced: TreeMoment,
}

#[derive(Clone, Debug)]
pub(crate) enum InodeBody {
    /// A file as in the last snapshot.
    Stored {
        size: u64,
        content: Content,
    },
    Edited(Box<EditedFile>),
    Directory(Box<DirectoryBody>),
    Symlink(Box<[u8]>),
    Fifo,
    Socket,
    CharDevice(u64),
    BlockDevice(u64),
}

/// A directory: stored entries below, the names that changed since on top.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirectoryBody {
    pub base: Option<NodeId>,
    /// The current totals below.
    pub below: Totals,
    /// The entries that are in memory.
    pub children: HashMap<EntryName, Ino>,
    /// The names whose stored slot is outdated; without a child, the name is gone.
    pub changed: BTreeSet<EntryName>,
    /// The changed names that a snapshot has captured and not stored yet.
    pub settling: BTreeSet<EntryName>,
    /// Numbers and change times of its entries, as long as no snapshot has them in its table.
    pub numbers: Option<NodeId>,
    /// The number of its subdirectories, once computed.
    pub directories: Option<u32>,
}

impl DirectoryBody {
    /// Whether the stored slot of a name is outdated.
    pub(crate) fn is_overlaid(&self, name: &[u8]) -> bool {
        self.changed.contains(name) || self.settling.contains(name)
    }
}

impl Inode {
    pub(crate) fn from_entry(entry: Entry, ctime: Timestamp) -> Inode {
        let body = match entry.kind {
            EntryKind::File { size, content } => InodeBody::Stored { size, content },
            EntryKind::Directory { entries, below } => InodeBody::Directory(Box::new(DirectoryBody {
                base: entries,
                below,
                ..DirectoryBody::default()
            })),
            EntryKind::Symlink { target } => InodeBody::Symlink(target),
            EntryKind::Fifo => InodeBody::Fifo,
            EntryKind::Socket => InodeBody::Socket,
            EntryKind::CharDevice { device } => InodeBody::CharDevice(device),
            EntryKind::BlockDevice { device } => InodeBody::BlockDevice(device),
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
            replaced: TreeMoment::default(),
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.body, InodeBody::Directory(_))
    }

    pub(crate) fn size(&self) -> u64 {
        match &self.body {
            InodeBody::Symlink(target) => target.len() as u64,
            _ => self.file_bytes(),
        }
    }

    /// The size that counts against a quota: the bytes of a regular file.
    pub(crate) fn file_bytes(&self) -> u64 {
        match &self.body {
            InodeBody::Stored { size, .. } => *size,
            InodeBody::Edited(file) => file.size,
            InodeBody::Directory(_)
            | InodeBody::Symlink(_)
            | InodeBody::Fifo
            | InodeBody::Socket
            | InodeBody::CharDevice(_)
            | InodeBody::BlockDevice(_) => 0,
        }
    }

    /// The size of a regular file, or why it has none.
    pub(crate) fn file_size(&self) -> Result<u64, FsError> {
        match &self.body {
            InodeBody::Stored { .. } | InodeBody::Edited(_) => Ok(self.file_bytes()),
            InodeBody::Directory(_) => Err(FsError::IsADirectory),
            _ => Err(FsError::Invalid("not a regular file")),
        }
    }

    /// The contents of a regular file, for modification.
    pub(crate) fn edit_file(&mut self) -> Result<&mut EditedFile, FsError> {
        if let InodeBody::Stored { size, content } = self.body {
            self.body = InodeBody::Edited(Box::new(EditedFile::stored(size, content)));
        }
        match &mut self.body {
            InodeBody::Edited(file) => Ok(file),
            InodeBody::Directory(_) => Err(FsError::IsADirectory),
            _ => Err(FsError::Invalid("not a regular file")),
        }
    }

    /// The totals that this inode's slot adds to its directory.
    pub(crate) fn totals_in_parent(&self) -> Totals {
        match &self.body {
            _ if self.linked => Totals {
                inodes: 1,
                bytes: 0,
                links: 1,
            },
            InodeBody::Directory(directory) => Totals {
                inodes: 1,
                ..Totals::default()
            }
            .plus(directory.below),
            _ => Totals {
                inodes: 1,
                bytes: self.file_bytes(),
                links: 0,
            },
        }
    }
}
