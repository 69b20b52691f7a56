//! How applying, or undoing an apply, can fail. Nothing is half done after any of these.

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::{TreePath, capped_list, printable};
use avfs_tree::{FsError, ObjectError, ReadError};

use serde::{Deserialize, Serialize};

use super::apply_conflict::Conflict;
use super::{Error, Result};

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", in_conflict(conflicts, *wanted))]
    Conflicts {
        conflicts: Vec<Conflict>,
        wanted: ApplyGoal,
    },
    #[error("{}", unsettled(vault, paths))]
    OpenConflicts { vault: String, paths: Vec<TreePath> },
    /// A system call on the host failed; the source says why.
    #[error("{action} {}", shown(path))]
    Host {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a directory", shown(path))]
    NotADirectory { path: PathBuf },
    #[error("{} is out of reach here: a workspace is in its place", shown(path))]
    OutOfReach { path: PathBuf },
    #[error(
        "{path} was changed again and again while the changes were applied; everything is as it was{}",
        kept_text(kept)
    )]
    Overtaken { path: TreePath, kept: Vec<KeptCopy> },
    /// Everything is unchanged, except for files that another program wrote meanwhile.
    #[error("{first}{}", kept_text(kept))]
    Versions { first: Box<Error>, kept: Vec<KeptCopy> },
    /// The first error stopped it, the second its rollback. The next command tries again.
    #[error("{path} could not be rolled back ({reason}) after this error: {first}")]
    Stuck {
        path: PathBuf,
        reason: String,
        first: String,
    },
    #[error("another process applies changes right now")]
    Busy,
    #[error("what an apply replaced is no longer kept")]
    NothingKept,
    #[error("there is no apply '{id}'")]
    Unknown { id: String },
    #[error("there is no apply to undo")]
    NothingToUndo,
    #[error("apply {id} was already undone")]
    Undone { id: ApplyId },
    #[error("what apply {id} replaced is no longer kept")]
    Forgotten { id: ApplyId },
    #[error("{path}: {reason}")]
    BadHunks { path: TreePath, reason: String },
    #[error("{path} is not among the changes")]
    NotChanged { path: TreePath },
    #[error("the notes of apply {id} cannot be read: {reason}")]
    Damaged { id: String, reason: String },
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Tree(#[from] FsError),
}

/// Names an apply of a store: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApplyId(pub u64);

impl ApplyId {
    pub fn parse(text: &str) -> Result<ApplyId> {
        let unknown = || ApplyError::Unknown {
            id: avfs_core::printable(text.as_bytes()),
        };
        Ok(text.parse().map(ApplyId).map_err(|_| unknown())?)
    }
}

impl fmt::Display for ApplyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyGoal {
    Apply,
    Undo,
    Redo,
}

/// Bytes that another program wrote to a file at the moment when it was replaced, and where they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCopy {
    pub path: TreePath,
    pub kept: PathBuf,
}

impl ApplyError {
    pub(crate) fn host(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> ApplyError {
        ApplyError::Host {
            action,
            path: path.into(),
            source: source.into(),
        }
    }
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// How many conflicts a message names.
const SHOWN: usize = 10;

fn in_conflict(conflicts: &[Conflict], wanted: ApplyGoal) -> String {
    let what = if conflicts.len() == 1 {
        "file is"
    } else {
        "files are"
    };
    let done = match wanted {
        ApplyGoal::Apply => "applied",
        ApplyGoal::Undo => "undone",
        ApplyGoal::Redo => "redone",
    };
    capped_list(
        format_args!("{} {what} in conflict, and nothing was {done}", conflicts.len()),
        conflicts,
        SHOWN,
    )
}

fn unsettled(vault: &str, paths: &[TreePath]) -> String {
    let what = if paths.len() == 1 {
        "conflict is"
    } else {
        "conflicts are"
    };
    capped_list(
        format_args!(
            "{} {what} open in task '{vault}', and nothing was applied",
            paths.len()
        ),
        paths,
        SHOWN,
    )
}

fn kept_text(kept: &[KeptCopy]) -> String {
    kept.iter()
        .map(|copy| format!("; a version of {} is kept in {}", copy.path, shown(&copy.kept)))
        .collect()
}
