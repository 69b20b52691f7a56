//! The errors of a working tree, with the errno of each.

use avfs_core::ObjectId;
use avfs_core::rules::Level;
use rustix::io::Errno;

use crate::inodes::Ino;
use crate::journal::JournalError;
use crate::objects::ObjectError;
use crate::source::SourceError;

/// Why an operation on a working tree failed. Each error has an [errno](FsError::errno).
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// There is no such entry.
    #[error("no such file or directory")]
    NotFound,
    /// There is an entry of this name.
    #[error("it exists already")]
    Exists,
    /// The operation needs a directory, and this is none.
    #[error("not a directory")]
    NotADirectory,
    /// The operation is impossible for directories.
    #[error("it is a directory")]
    IsADirectory,
    /// The directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The arguments make no sense; the text says why.
    #[error("{0}")]
    Invalid(&'static str),
    /// The new place of the directory is below its old one.
    #[error("a directory cannot be moved into itself")]
    IntoItself,
    /// The inode has no name left, or holds another point in time.
    #[error("inode {} is gone", .0.0)]
    Stale(Ino),
    /// The file would be larger than one can be.
    #[error("a file cannot be larger than {} bytes", avfs_core::chunks::FILE_MAX)]
    TooLarge,
    /// The file would have more names than one can have.
    #[error("a file cannot have more names")]
    TooManyLinks,
    /// There is no such extended attribute.
    #[error("no such extended attribute")]
    NoXattr,
    /// The vault would have more bytes than it may.
    #[error("the quota of {limit} bytes is used up")]
    OverBytes {
        /// Its limit.
        limit: u64,
    },
    /// The vault would have more files than it may.
    #[error("the quota of {limit} files is used up")]
    OverFiles {
        /// Its limit.
        limit: u64,
    },
    /// To the caller it looks as if the entry did not exist.
    #[error("no such file or directory")]
    Hidden,
    /// The rules do not allow it, and the entry is visible.
    #[error("the rules give {level} there{}", needed_level(.needed))]
    Denied {
        /// What they allow there.
        level: Level,
        /// `None`: no level would be enough.
        needed: Option<Level>,
    },
    /// Below the directory, the rules differ at its new place.
    #[error("other rules hold there, so that a directory cannot be moved as a whole")]
    OtherRulesThere,
    /// The connection was closed after an error.
    #[error("this view was closed after an error")]
    Closed,
    /// Only returned to doors that never wait; they try again when the name is ready.
    #[error("it is being made ready")]
    InPreparation,
    /// An object could not be read or stored.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What must be fetched before a request can be answered without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedItem {
    /// This object, from the store.
    Object(ObjectId),
    /// The end of the preparation of a name.
    Preparation,
}

impl FsError {
    /// What a door that does not wait must fetch before it tries again.
    pub fn wanted(&self) -> Option<WantedItem> {
        match self {
            FsError::Object(ObjectError::NotAtHand { id }) => Some(WantedItem::Object(*id)),
            FsError::InPreparation => Some(WantedItem::Preparation),
            _ => None,
        }
    }

    /// The error number that a system call returns for it.
    pub fn errno(&self) -> Errno {
        match self {
            FsError::NotFound => Errno::NOENT,
            FsError::Exists => Errno::EXIST,
            FsError::NotADirectory => Errno::NOTDIR,
            FsError::IsADirectory => Errno::ISDIR,
            FsError::NotEmpty => Errno::NOTEMPTY,
            FsError::Invalid(_) | FsError::IntoItself => Errno::INVAL,
            FsError::Stale(_) => Errno::STALE,
            FsError::TooLarge => Errno::FBIG,
            FsError::TooManyLinks => Errno::MLINK,
            FsError::NoXattr => Errno::NODATA,
            FsError::OverBytes { .. } | FsError::OverFiles { .. } => Errno::DQUOT,
            FsError::Hidden => Errno::NOENT,
            FsError::Denied { .. } | FsError::Closed => Errno::ACCESS,
            FsError::OtherRulesThere => Errno::XDEV,
            FsError::InPreparation => Errno::AGAIN,
            FsError::Object(ObjectError::TooLarge { .. }) => Errno::NOMEM,
            FsError::Object(ObjectError::Promised { source, .. }) => source_errno(source),
            FsError::Object(_) => Errno::IO,
            FsError::Journal(JournalError::Full { .. }) => Errno::NOSPC,
            FsError::Journal(_) => Errno::IO,
        }
    }
}

fn source_errno(error: &SourceError) -> Errno {
    match error {
        SourceError::Restless => Errno::BUSY,
        SourceError::Io { source, .. } => Errno::from_io_error(source).unwrap_or(Errno::IO),
        SourceError::Unknown | SourceError::Moved | SourceError::Store(_) => Errno::IO,
    }
}

fn needed_level(needed: &Option<Level>) -> String {
    needed.map_or_else(String::new, |needed| format!(", and this takes {needed}"))
}
