//! Errors of a transfer as a whole, and reasons for omitting entries from it.

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::{BadName, TreePath, capped_list, printable};
use avfs_tree::{ObjectError, ReadError};
use rustix::io::Errno;

/// A transfer that failed. After a failed import no vault has changed; a failed export leaves what it
/// had written.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A system call on the host failed; the source says why.
    #[error("{action} {}", shown(path))]
    Host {
        /// What was attempted.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The place to read from or to write to is something else.
    #[error("{} is not a directory", shown(path))]
    NotADirectory {
        /// The place.
        path: PathBuf,
    },
    /// Export into a new place, or ask for a merge.
    #[error("{} is not empty", shown(path))]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Export to a new place, or ask for a merge.
    #[error("{} exists already", shown(path))]
    Exists {
        /// The place.
        path: PathBuf,
    },
    /// Some entries cannot be imported, each for its own reason. Ask for them to be skipped, or repair them.
    #[error("{}", refusals(refused))]
    Refused {
        /// The entries, with the reasons.
        refused: Vec<SkippedEntry>,
    },
    /// Not a tar archive, or a damaged one.
    #[error("the archive cannot be read at {place}")]
    Archive {
        /// The entry, or where in the archive.
        place: String,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// More than the caller allows: perhaps an archive that was made to fill the disk.
    #[error("it has more than {limit} {what}, and is refused")]
    OverLimit {
        /// What there is too much of.
        what: &'static str,
        /// How much of it is allowed.
        limit: u64,
    },
    /// An image of a container that misses something, or contradicts itself.
    #[error("this is not an image that can be imported: {reason}")]
    BadImage {
        /// What is missing, or contradicts what.
        reason: String,
    },
    /// Import one of them alone.
    #[error("it holds several images: {}", names.join(", "))]
    SeveralImages {
        /// Their names.
        names: Vec<String>,
    },
    /// The file is not an export of a vault, or a damaged one.
    #[error("{place} is not a vault file: {reason}")]
    BadBundle {
        /// The file.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The archive could not be written.
    #[error("writing {path} to the archive")]
    Output {
        /// The entry that was being written.
        path: TreePath,
        /// The error of the destination.
        #[source]
        source: io::Error,
    },
    /// An entry could not be stored.
    #[error("storing {path}")]
    Object {
        /// The entry.
        path: TreePath,
        /// The error of the store.
        #[source]
        source: ObjectError,
    },
    /// The tree that is exported could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl TransferError {
    pub(super) fn host(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        TransferError::Host {
            action,
            path: path.into(),
            source: source.into(),
        }
    }
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// How many refusals a message names.
const SHOWN: usize = 20;

fn refusals(refused: &[SkippedEntry]) -> String {
    let what = if refused.len() == 1 { "entry" } else { "entries" };
    capped_list(
        format_args!("{} {what} cannot be imported", refused.len()),
        refused,
        SHOWN,
    )
}

/// Something that was left out of a transfer, or was not kept exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// From the directory that is imported or exported, or as the archive spells it. Empty: the whole.
    pub path: Box<[u8]>,
    /// Why it was left out, or what was lost.
    pub reason: SkipReason,
}

impl fmt::Display for SkippedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path[..] {
            b"" => write!(f, ".: {}", self.reason),
            path => write!(f, "{}: {}", printable(path), self.reason),
        }
    }
}

/// Why an entry was left out of a transfer, or what of it was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// The caller excluded it.
    #[error("left out as asked")]
    Excluded,
    /// It is on another file system, and the caller asked for one only.
    #[error("on another file system")]
    OtherFileSystem,
    /// It was removed while its directory was read.
    #[error("removed while the directory was read")]
    Vanished,
    /// Each attempt to read it found another state.
    #[error("it kept changing while it was read")]
    Changing,
    /// The system refused to read it.
    #[error("it cannot be read: {0}")]
    Unreadable(Errno),
    /// A vault cannot hold its name.
    #[error(transparent)]
    Name(#[from] BadName),
    /// It has so many bytes, which is more than a file of a vault can have.
    #[error("larger than a file in a vault can be ({0} bytes)")]
    TooLarge(u64),
    /// It is of a kind that a vault does not have.
    #[error("neither a file nor anything else that a vault can hold")]
    UnknownKind,

    /// Its path in the archive is absolute.
    #[error("an absolute path")]
    Absolute,
    /// Its path in the archive has `..`.
    #[error("a path with '..'")]
    DotDot,
    /// Its path leads through this symbolic link.
    #[error("it goes through the symbolic link {}", printable(.0))]
    ThroughLink(Box<[u8]>),
    /// Its path leads through this, which is not a directory.
    #[error("{} is not a directory", printable(.0))]
    UnderFile(Box<[u8]>),
    /// A directory with entries has its name already.
    #[error("a directory with entries has this name already")]
    DirectoryInTheWay,
    /// It is a hard link to this, which is outside of the archive.
    #[error("a hard link to {}, which is outside", printable(.0))]
    LinkOutside(Box<[u8]>),
    /// It is a hard link to this, which does not precede it in the archive.
    #[error("a hard link to {}, which is not in the archive before it", printable(.0))]
    LinkToNothing(Box<[u8]>),
    /// It is a hard link to this, which is a directory.
    #[error("a hard link to {}, which is a directory", printable(.0))]
    LinkToDirectory(Box<[u8]>),
    /// It is a device node, and the caller did not ask for them.
    #[error("a device node")]
    Device,
    /// It is a device node below `/dev` of an image.
    #[error("a device node below /dev: sandboxes have devices of their own")]
    DeviceOmitted,
    /// It is there, without the bits and capabilities that give privileges.
    #[error("the setuid and setgid bits and file capabilities were dropped")]
    PrivilegeDropped,

    /// The rules do not let it be read.
    #[error("the rules do not let it be read")]
    Denied,
    /// It is a socket, which an archive cannot hold.
    #[error("an archive cannot hold sockets")]
    Socket,
    /// It is a device node, which only root can make.
    #[error("device nodes are made by root only")]
    DeviceNeedsRoot,
    /// Files belong to the user who exported them, because only root can give them to others.
    #[error("only root can set owners: every file belongs to the user who ran this")]
    OwnersNeedRoot,
    /// An extended attribute could not be set.
    #[error("the extended attribute {} could not be set: {errno}", printable(name))]
    Xattr {
        /// The name of the attribute.
        name: Box<[u8]>,
        /// The error of the system.
        errno: Errno,
    },
}

impl SkipReason {
    /// Whether something is missing that the user may count on. Other omissions were requested, or are
    /// unavoidable.
    pub fn is_refusal(&self) -> bool {
        match self {
            SkipReason::Changing
            | SkipReason::Unreadable(_)
            | SkipReason::Name(_)
            | SkipReason::TooLarge(_)
            | SkipReason::UnknownKind
            | SkipReason::Absolute
            | SkipReason::DotDot
            | SkipReason::ThroughLink(_)
            | SkipReason::UnderFile(_)
            | SkipReason::DirectoryInTheWay
            | SkipReason::LinkOutside(_)
            | SkipReason::LinkToNothing(_)
            | SkipReason::LinkToDirectory(_)
            | SkipReason::Device => true,
            SkipReason::Excluded
            | SkipReason::OtherFileSystem
            | SkipReason::Vanished
            | SkipReason::PrivilegeDropped
            | SkipReason::DeviceOmitted
            | SkipReason::Denied
            | SkipReason::Socket
            | SkipReason::DeviceNeedsRoot
            | SkipReason::OwnersNeedRoot
            | SkipReason::Xattr { .. } => false,
        }
    }
}
