//! How applying, or taking back, can fail. Nothing is half done after any of these.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::{TreePath, printable};
use avfs_tree::{FsError, ObjectError, ReadError};

use super::conflict::Conflict;
use super::record::ApplyId;
use crate::listed::listed;

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", in_conflict(conflicts, *wanted))]
    Conflicts { conflicts: Vec<Conflict>, wanted: Wanted },
    #[error("{}", unsettled(vault, paths))]
    OpenConflicts { vault: String, paths: Vec<TreePath> },
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
    #[error("{} is out of reach here: a workspace is in its place", shown(path))]
    OutOfReach { path: PathBuf },
    #[error(
        "{path} was changed again and again while the changes were applied; everything is as it was{}",
        kept_text(kept)
    )]
    Overtaken { path: TreePath, kept: Vec<KeptCopy> },
    /// Everything is as it was, but for what somebody wrote meanwhile.
    #[error("{first}{}", kept_text(kept))]
    Versions { first: Box<ApplyError>, kept: Vec<KeptCopy> },
    /// The first error stopped it, the second its taking back. The next command tries again.
    #[error("{path} could not be taken back ({reason}) after this went wrong: {first}")]
    Stuck { path: PathBuf, reason: String, first: String },
    #[error("another process applies changes right now")]
    Busy,
    #[error("a store in memory has no place to keep what is replaced")]
    NoPlace,
    #[error("there is no apply '{id}'")]
    Unknown { id: String },
    #[error("nothing was applied that could be taken back")]
    NothingToUndo,
    #[error("apply {id} was taken back already")]
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

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Apply,
    Undo,
    Redo,
}

/// Bytes that somebody wrote to a file at the very moment when it was replaced: they are here.
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
        ApplyError::Host { action, path: path.into(), source: source.into() }
    }
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// How many conflicts a message names.
const SHOWN: usize = 10;

fn in_conflict(conflicts: &[Conflict], wanted: Wanted) -> String {
    let what = if conflicts.len() == 1 { "file is" } else { "files are" };
    let done = match wanted {
        Wanted::Apply => "applied",
        Wanted::Undo => "undone",
        Wanted::Redo => "redone",
    };
    listed(format_args!("{} {what} in conflict, and nothing was {done}", conflicts.len()), conflicts, SHOWN)
}

fn unsettled(vault: &str, paths: &[TreePath]) -> String {
    let what = if paths.len() == 1 { "conflict is" } else { "conflicts are" };
    listed(
        format_args!("{} {what} open in task '{vault}', and nothing was applied", paths.len()),
        paths,
        SHOWN,
    )
}

fn kept_text(kept: &[KeptCopy]) -> String {
    kept.iter().map(|copy| format!("; a version of {} is kept in {}", copy.path, shown(&copy.kept))).collect()
}
