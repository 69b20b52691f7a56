//! What can go wrong with git.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use avfs_core::{TreePath, printable};
use avfs_tree::{ObjectError, ReadError};

use super::guarded::GuardedChange;
use super::kept::HiddenChange;
use super::names::RefName;

/// How many changes a message names.
const TOLD: usize = 20;

fn told(changes: &[impl ToString]) -> String {
    let mut told: Vec<String> = changes.iter().take(TOLD).map(ToString::to_string).collect();
    if changes.len() > TOLD {
        told.push(format!("and {} more", changes.len() - TOLD));
    }
    told.join(", ")
}

/// A path as it is typed in a shell.
fn word(path: &TreePath) -> String {
    let text = printable(path.as_bytes());
    match text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte)) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("the program git cannot be started")]
    NoProgram(#[source] io::Error),
    #[error("{} is not a git repository", printable(.place.as_os_str().as_encoded_bytes()))]
    NotARepository { place: PathBuf },
    #[error("there is no commit '{}' in {}", printable(.revision.as_bytes()), printable(.place.as_os_str().as_encoded_bytes()))]
    UnknownRevision { place: PathBuf, revision: String },
    #[error("'{}' cannot be the name of a branch", printable(.name.as_bytes()))]
    BadBranch { name: String },
    #[error("there is already a branch '{}' with other commits", .branch.short())]
    BranchExists { branch: RefName },
    #[error("branch '{}' is checked out in {}", .branch.short(), printable(.place.as_os_str().as_encoded_bytes()))]
    BranchInUse { branch: RefName, place: PathBuf },
    #[error("there is no commit that the repository does not have")]
    NoCommits,
    #[error("commits were made on several branches: {}", .branches.iter().map(RefName::short).collect::<Vec<_>>().join(", "))]
    SeveralBranches { branches: Vec<RefName> },
    #[error("no commits were made on '{}'", printable(.name.as_bytes()))]
    NotMoved { name: String },
    #[error("there is no changed file to commit")]
    NoFiles,
    /// What was made in a tree is not what git would take from a stranger.
    #[error("the commits are refused: {reason}")]
    Refused { reason: String },
    /// `task` is the one in which they were made, if it is known.
    #[error("the commits change what was hidden from the task: {}", told(.changes))]
    ChangesHidden { changes: Vec<HiddenChange>, task: Option<String> },
    #[error("the commits change what this machine runs: {}", told(.changes))]
    ChangesGuarded { changes: Vec<GuardedChange>, task: Option<String> },
    #[error("git failed {action}: {message}")]
    Failed { action: &'static str, message: String },
    #[error("{action}")]
    Host {
        action: &'static str,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl GitError {
    pub(super) fn host(action: &'static str) -> impl Fn(io::Error) -> GitError {
        move |source| GitError::Host { action, source }
    }

    /// The failure of a command that looked at what a stranger made.
    pub(super) fn refused(self) -> GitError {
        match self {
            GitError::Failed { message, .. } => GitError::Refused { reason: message },
            other => other,
        }
    }

    /// Names the task in which the commits were made.
    pub(super) fn in_task(self, name: &str) -> GitError {
        match self {
            GitError::ChangesHidden { changes, .. } => {
                GitError::ChangesHidden { changes, task: Some(name.to_owned()) }
            }
            GitError::ChangesGuarded { changes, .. } => {
                GitError::ChangesGuarded { changes, task: Some(name.to_owned()) }
            }
            other => other,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        if let GitError::ChangesHidden { task: Some(task), .. } = self {
            let command = format!("avfs apply {task} --branch {task}-files -m 'Work of {task}'");
            return Some(format!(
                "`{command}` makes one commit of its files, which leaves these as they are"
            ));
        }
        if let GitError::ChangesGuarded { task: Some(task), changes } = self {
            let paths: BTreeSet<String> = changes.iter().map(|change| word(&change.path)).collect();
            let flags: Vec<String> = paths.iter().map(|path| format!("--allow {path}")).collect();
            return Some(format!(
                "look at them with `avfs diff {task}`, then `avfs apply {task} --commits {}` brings them",
                flags.join(" ")
            ));
        }
        let hint = match self {
            GitError::NoProgram(_) => "install git, or put it on the PATH",
            GitError::NotARepository { .. } => "make one there with `git init`",
            GitError::UnknownRevision { .. } => "`git log` there shows commits, `git branch -a` branches",
            GitError::BranchExists { .. } => "name another one with --branch, or move it on with --update",
            GitError::BranchInUse { .. } => "name another one with --branch",
            GitError::SeveralBranches { .. } => "say which one with --of",
            _ => return None,
        };
        Some(hint.into())
    }
}
