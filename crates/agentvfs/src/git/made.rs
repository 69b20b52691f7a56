//! The branch that was made of a task last: what a user who wants to undo it has to know.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::host::HostRepository;
use super::names::RefName;
use crate::approvals::raw::Raw;
use crate::error::Result;
use crate::record::time;
use crate::task::Task;

/// The same, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MadeRecord {
    branch: Raw,
    into: Raw,
    #[serde(with = "time")]
    time: Timestamp,
}

/// A branch that is in a repository of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeBranch {
    pub branch: RefName,
    /// The working directory of the repository.
    pub directory: PathBuf,
    pub time: Timestamp,
}

impl MadeRecord {
    pub(super) fn new(branch: &RefName, into: &Path, time: Timestamp) -> MadeRecord {
        let into = into.canonicalize().unwrap_or_else(|_| into.to_owned());
        MadeRecord { branch: branch.as_bytes().into(), into: into.as_os_str().into(), time }
    }
}

impl Task {
    /// The branch that its commits or files were brought to last, if it is still there.
    pub fn last_branch(&self) -> Result<Option<MadeBranch>> {
        let Some(made) = self.made() else { return Ok(None) };
        let directory = PathBuf::from(OsStr::from_bytes(made.into.as_bytes()));
        let (Some(branch), Ok(host)) =
            (RefName::new(made.branch.as_bytes()), HostRepository::open(&directory))
        else {
            return Ok(None);
        };
        let is_there = host.branch(&branch)?.is_some();
        Ok(is_there.then_some(MadeBranch { branch, directory, time: made.time }))
    }
}
