//! Why a request is refused.

use avfs_core::BadName;
use avfs_tree::FsError;
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
    pub fn errno(&self) -> Errno {
        match self {
            SkinError::Tree(error) => error.errno(),
            SkinError::Name(BadName::TooLong(_) | BadName::PathTooLong(_)) => Errno::NAMETOOLONG,
            SkinError::Name(BadName::Empty) => Errno::NOENT,
            SkinError::Name(BadName::Nul | BadName::Slash | BadName::Dots(_)) => Errno::INVAL,
            SkinError::Errno(errno) => *errno,
        }
    }
}
