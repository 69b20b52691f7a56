//! The last branch that was made of a task: information for a user who wants to undo it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::Timestamp;

use super::host::HostRepository;
use crate::error::Result;
use crate::git::task::TaskGit;
use crate::git_names::{ObjectName, RefName};
use crate::project::Relocation;
use crate::record::MadeRecord;

/// A branch that is in a repository of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeBranch {
    /// The branch.
    pub branch: RefName,
    /// The working directory of the repository.
    pub directory: PathBuf,
    /// When it was made.
    pub time: Timestamp,
}

impl MadeRecord {
    pub(super) fn new(branch: &RefName, tip: &ObjectName, into: &Path, time: Timestamp) -> MadeRecord {
        let into = into.canonicalize().unwrap_or_else(|_| into.to_owned());
        MadeRecord {
            branch: branch.as_bytes().into(),
            into: into.as_os_str().into(),
            time,
            tip: Some(tip.to_string()),
            beside: Vec::new(),
        }
    }

    /// Its repository may have been moved.
    pub(crate) fn relocate(&mut self, relocation: &Relocation) {
        if let Some(place) = relocation.new_place(Path::new(&self.into.to_os())) {
            self.into = place.as_os_str().into();
        }
        self.beside
            .iter_mut()
            .for_each(|record| record.relocate(relocation));
    }

    /// The same, made together with others.
    pub(super) fn beside(self, others: &[MadeRecord]) -> MadeRecord {
        MadeRecord {
            beside: others.to_vec(),
            ..self
        }
    }

    fn directory(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(self.into.as_bytes()))
    }

    /// The branch, if it is still there.
    fn branch_now(&self) -> Result<Option<MadeBranch>> {
        let directory = self.directory();
        let (Some(branch), Ok(host)) = (
            RefName::new(self.branch.as_bytes()),
            HostRepository::open(&directory),
        ) else {
            return Ok(None);
        };
        let is_there = host.branch(&branch)?.is_some();
        Ok(is_there.then_some(MadeBranch {
            branch,
            directory,
            time: self.time,
        }))
    }
}

impl MadeRecord {
    /// Whether the branch is gone, and no other ref leads to its commit.
    fn is_lost(&self) -> Result<bool> {
        let (None, Ok(host)) = (self.branch_now()?, HostRepository::open(&self.directory())) else {
            return Ok(false);
        };
        match self
            .tip
            .as_deref()
            .and_then(|tip| ObjectName::new(tip.as_bytes()))
        {
            Some(tip) => Ok(!host.leads_to(&tip)?),
            None => Ok(true),
        }
    }
}

impl TaskGit<'_> {
    /// Whether the last branch that was made of it is gone, and the commits with it.
    pub(crate) fn has_lost_branch(&self) -> Result<bool> {
        self.task.made().map_or(Ok(false), MadeRecord::is_lost)
    }

    /// The branches to which its commits or files were last brought, if they still exist: the project's own
    /// first, then those of submodules.
    pub fn last_branches(&self) -> Result<Vec<MadeBranch>> {
        let mut branches = Vec::new();
        for made in self.made_records() {
            branches.extend(made.branch_now()?);
        }
        Ok(branches)
    }

    /// The branches made in the repository of its directory that have not moved since.
    pub fn unmoved_branches(&self) -> Result<Vec<RefName>> {
        let mut branches = Vec::new();
        for made in self
            .made_records()
            .filter(|made| made.directory() == self.task.root())
        {
            let (
                Some(MadeBranch {
                    branch, directory, ..
                }),
                Some(tip),
            ) = (made.branch_now()?, &made.tip)
            else {
                continue;
            };
            let now = HostRepository::open(&directory)?.branch(&branch)?;
            branches.extend(now.filter(|now| now.as_str() == tip).map(|_| branch));
        }
        Ok(branches)
    }

    /// The repositories that these branches are in, other than `own`.
    pub(super) fn made_repositories(&self, own: Option<&HostRepository>) -> Vec<HostRepository> {
        let opened = self
            .made_records()
            .filter_map(|made| HostRepository::open(&made.directory()).ok());
        opened
            .filter(|host| own.is_none_or(|own| own.place() != host.place()))
            .collect()
    }

    fn made_records(&self) -> impl Iterator<Item = &MadeRecord> {
        self.task
            .made()
            .into_iter()
            .flat_map(|made| [made].into_iter().chain(made.beside.iter().rev()))
    }
}
