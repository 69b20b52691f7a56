//! Errors with git.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use avfs_core::printable;
use avfs_tree::{ObjectError, ReadError};

use super::Hint;
use super::git_changes::{GuardedChange, HiddenChange};
use crate::git_names::RefName;

/// How many changes a message names.
const TOLD: usize = 20;

fn told(changes: &[impl ToString]) -> String {
    let mut told: Vec<String> = changes.iter().take(TOLD).map(ToString::to_string).collect();
    if changes.len() > TOLD {
        told.push(format!("and {} more", changes.len() - TOLD));
    }
    told.join(", ")
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
    /// Objects of a tree that git would not accept from a stranger.
    #[error("the commits are refused: {reason}")]
    Refused { reason: String },
    /// `task` is the one in which they were made, if it is known; `has_files`: it changed files that can be committed.
    #[error("the commits change what was hidden from the task: {}", told(.changes))]
    ChangesHidden {
        changes: Vec<HiddenChange>,
        task: Option<String>,
        has_files: bool,
    },
    #[error("the commits change what this machine runs: {}", told(.changes))]
    ChangesGuarded {
        changes: Vec<GuardedChange>,
        task: Option<String>,
    },
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
    pub(crate) fn host(action: &'static str) -> impl Fn(io::Error) -> GitError {
        move |source| GitError::Host { action, source }
    }

    /// The failure of a command that looked at what a stranger made.
    pub(crate) fn refused(self) -> GitError {
        match self {
            GitError::Failed { message, .. } => GitError::Refused { reason: message },
            other => other,
        }
    }

    /// Names the task in which the commits were made.
    pub(crate) fn in_task(self, name: &str, has_files: bool) -> GitError {
        match self {
            GitError::ChangesHidden { changes, .. } => GitError::ChangesHidden {
                changes,
                task: Some(name.to_owned()),
                has_files,
            },
            GitError::ChangesGuarded { changes, .. } => GitError::ChangesGuarded {
                changes,
                task: Some(name.to_owned()),
            },
            other => other,
        }
    }

    pub(crate) fn hint(&self) -> Option<Hint> {
        let hint = match self {
            GitError::ChangesHidden {
                task: Some(task),
                has_files: true,
                ..
            } => Hint::ApplyFilesOfTask { task: task.clone() },
            GitError::ChangesHidden { task: Some(task), .. } => Hint::TakeOutOfCommits { task: task.clone() },
            GitError::ChangesGuarded {
                task: Some(task),
                changes,
            } => {
                let paths: BTreeSet<String> = changes
                    .iter()
                    .map(|change| printable(change.path.as_bytes()))
                    .collect();
                Hint::AllowGuarded {
                    task: task.clone(),
                    paths: paths.into_iter().collect(),
                }
            }
            GitError::NoProgram(_) => Hint::InstallGit,
            GitError::NotARepository { .. } => Hint::MakeRepository,
            GitError::UnknownRevision { .. } => Hint::ListCommits,
            GitError::BranchExists { .. } => Hint::NameOrUpdateBranch,
            GitError::BranchInUse { .. } => Hint::NameAnotherBranch,
            GitError::SeveralBranches { .. } => Hint::SayWhichBranch,
            _ => return None,
        };
        Some(hint)
    }
}
