//! What can go wrong in a transfer as a whole, and what can be left out of it.

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::{BadName, TreePath, printable};
use avfs_tree::{ObjectError, ReadError};
use rustix::io::Errno;

use crate::git::GitError;
use crate::listed::listed;

/// A transfer that failed. After a failed import no vault has changed; a failed export leaves what it
/// had written.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The host refused; the source says why.
    #[error("{action} {}", shown(path))]
    Host {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a directory", shown(path))]
    NotADirectory { path: PathBuf },
    /// Export into a new place, or ask for a merge.
    #[error("{} is not empty", shown(path))]
    NotEmpty { path: PathBuf },
    /// Export to a new place, or ask for a merge.
    #[error("{} exists already", shown(path))]
    Exists { path: PathBuf },
    /// Some entries cannot be imported, each for its own reason. Ask for them to be skipped, or repair them.
    #[error("{}", refusals(refused))]
    Refused { refused: Vec<Skipped> },
    /// Not a tar archive, or a damaged one.
    #[error("the archive cannot be read at {place}")]
    Archive {
        /// The entry, or where in the archive.
        place: String,
        #[source]
        source: io::Error,
    },
    #[error("writing {path} to the archive")]
    Output {
        path: TreePath,
        #[source]
        source: io::Error,
    },
    #[error("storing {path}")]
    Object {
        path: TreePath,
        #[source]
        source: ObjectError,
    },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl TransferError {
    pub(super) fn host(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        TransferError::Host { action, path: path.into(), source: source.into() }
    }
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// How many refusals a message names.
const SHOWN: usize = 20;

fn refusals(refused: &[Skipped]) -> String {
    let what = if refused.len() == 1 { "entry" } else { "entries" };
    listed(format_args!("{} {what} cannot be imported", refused.len()), refused, SHOWN)
}

/// Something that was left out of a transfer, or was not kept exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// From the directory that is imported or exported, or as the archive spells it. Empty: the whole.
    pub path: Box<[u8]>,
    pub reason: Reason,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path[..] {
            b"" => write!(f, ".: {}", self.reason),
            path => write!(f, "{}: {}", printable(path), self.reason),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("left out as asked")]
    Excluded,
    #[error("on another file system")]
    OtherFileSystem,
    #[error("removed while the directory was read")]
    Vanished,
    #[error("it kept changing while it was read")]
    Changing,
    #[error("it cannot be read: {0}")]
    Unreadable(Errno),
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("larger than a file in a vault can be ({0} bytes)")]
    TooLarge(u64),
    #[error("neither a file nor anything else that a vault can hold")]
    UnknownKind,

    #[error("an absolute path")]
    Absolute,
    #[error("a path with '..'")]
    DotDot,
    #[error("it goes through the symbolic link {}", printable(.0))]
    ThroughLink(Box<[u8]>),
    #[error("{} is not a directory", printable(.0))]
    UnderFile(Box<[u8]>),
    #[error("a directory with entries has this name already")]
    DirectoryInTheWay,
    #[error("a hard link to {}, which is outside", printable(.0))]
    LinkOutside(Box<[u8]>),
    #[error("a hard link to {}, which is not in the archive before it", printable(.0))]
    LinkToNothing(Box<[u8]>),
    #[error("a hard link to {}, which is a directory", printable(.0))]
    LinkToDirectory(Box<[u8]>),
    #[error("a device node")]
    Device,
    #[error("the setuid and setgid bits and file capabilities were dropped")]
    PrivilegeDropped,

    #[error("the rules do not let it be read")]
    Denied,
    #[error("an archive cannot hold sockets")]
    Socket,
    #[error("device nodes are made by root only")]
    DeviceNeedsRoot,
    #[error("owners are set by root only: everything belongs to whoever ran this")]
    OwnersNeedRoot,
    #[error("the extended attribute {} could not be set: {errno}", printable(name))]
    Xattr { name: Box<[u8]>, errno: Errno },
}

impl Reason {
    /// Whether something is missing that the user may count on. The rest is as asked, or unavoidable.
    pub fn is_refusal(&self) -> bool {
        match self {
            Reason::Changing
            | Reason::Unreadable(_)
            | Reason::Name(_)
            | Reason::TooLarge(_)
            | Reason::UnknownKind
            | Reason::Absolute
            | Reason::DotDot
            | Reason::ThroughLink(_)
            | Reason::UnderFile(_)
            | Reason::DirectoryInTheWay
            | Reason::LinkOutside(_)
            | Reason::LinkToNothing(_)
            | Reason::LinkToDirectory(_)
            | Reason::Device => true,
            Reason::Excluded
            | Reason::OtherFileSystem
            | Reason::Vanished
            | Reason::PrivilegeDropped
            | Reason::Denied
            | Reason::Socket
            | Reason::DeviceNeedsRoot
            | Reason::OwnersNeedRoot
            | Reason::Xattr { .. } => false,
        }
    }
}
