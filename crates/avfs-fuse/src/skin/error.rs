//! Why a request is refused.

use avfs_core::BadName;
use avfs_tree::{FsError, WantedItem};
use rustix::io::Errno;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SkinError {
    #[error(transparent)]
    Tree(#[from] FsError),
    #[error(transparent)]
    Name(#[from] BadName),
    #[error(transparent)]
    Errno(#[from] Errno),
}

impl SkinError {
    /// What must be fetched before the request can be retried.
    pub(super) fn wanted(&self) -> Option<WantedItem> {
        match self {
            SkinError::Tree(error) => error.wanted(),
            SkinError::Name(_) | SkinError::Errno(_) => None,
        }
    }

    pub(super) fn errno(&self) -> Errno {
        match self {
            SkinError::Tree(error) => error.errno(),
            SkinError::Name(BadName::TooLong(_) | BadName::PathTooLong(_)) => Errno::NAMETOOLONG,
            SkinError::Name(BadName::Empty) => Errno::NOENT,
            SkinError::Name(BadName::Nul | BadName::Slash | BadName::Dots(_)) => Errno::INVAL,
            SkinError::Errno(errno) => *errno,
        }
    }
}
