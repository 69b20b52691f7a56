//! What can go wrong on a working tree, with the errno of each.

use avfs_core::ObjectId;
use avfs_core::rules::Level;
use rustix::io::Errno;

use crate::inodes::Ino;
use crate::journal::JournalError;
use crate::objects::ObjectError;
use crate::source::SourceError;

#[derive(Debug, thiserror::Error)]
pub enum FsError {
    #[error("no such file or directory")]
    NotFound,
    #[error("it exists already")]
    Exists,
    #[error("not a directory")]
    NotADirectory,
    #[error("it is a directory")]
    IsADirectory,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("{0}")]
    Invalid(&'static str),
    #[error("a directory cannot be moved into itself")]
    IntoItself,
    #[error("inode {} is gone", .0.0)]
    Stale(Ino),
    #[error("a file cannot be larger than {} bytes", avfs_core::chunks::FILE_MAX)]
    TooLarge,
    #[error("a file cannot have more names")]
    TooManyLinks,
    #[error("no such extended attribute")]
    NoXattr,
    #[error("the quota of {limit} bytes is used up")]
    OverBytes { limit: u64 },
    #[error("the quota of {limit} files is used up")]
    OverFiles { limit: u64 },
    /// To whoever asks it is as if it were not there.
    #[error("no such file or directory")]
    Hidden,
    #[error("the rules give {level} there{}", needed_level(.needed))]
    Denied {
        level: Level,
        /// `None`: no level would do.
        needed: Option<Level>,
    },
    #[error("other rules hold there, so that a directory cannot be moved as a whole")]
    OtherRulesThere,
    #[error("this view was closed after an error")]
    Closed,
    /// Only doors that never wait are told so; they try again when it is ready.
    #[error("it is being made ready")]
    InPreparation,
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What has to be fetched before something can be answered without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Object(ObjectId),
    /// The end of what is being made ready.
    Preparation,
}

impl FsError {
    /// What a door that does not wait has to fetch before it tries again.
    pub fn wanted(&self) -> Option<Wanted> {
        match self {
            FsError::Object(ObjectError::NotAtHand { id }) => Some(Wanted::Object(*id)),
            FsError::InPreparation => Some(Wanted::Preparation),
            _ => None,
        }
    }

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
