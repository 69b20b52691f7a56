//! Bringing commits that were made in a tree into the user's repository.

use avfs_core::TreePath;

use super::deliver::Delivery;
use super::host::HostRepository;
use super::quarantine::Quarantine;
use super::refs::{GitHead, MovedRef};
use super::work::Work;
use crate::error::GitError;
use crate::git_names::{ObjectName, RefName};

/// The branch to bring, and its new name.
#[derive(Clone, Debug)]
pub struct Bring {
    /// The branch to make.
    pub branch: RefName,
    /// The branch or tag to bring; `None`: the checked-out one if it has new commits, or else the only one
    /// that has.
    pub of: Option<String>,
    /// Whether the branch may exist already, if it only has to be fast-forwarded.
    pub update: bool,
    /// The guarded paths that the user has named, including everything below them.
    pub allowed: Vec<TreePath>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    /// The branch that has the commits now.
    pub branch: RefName,
    /// Its last commit.
    pub tip: ObjectName,
    /// The object that was named there: the tip, or the tag that refers to it.
    pub named: ObjectName,
    /// The new objects: commits, directories and files.
    pub objects: usize,
    /// The other refs with work of their own, which stay where they are.
    pub left: Vec<RefName>,
}

impl Work {
    /// Brings the commits of one branch into the repository, as a new branch there. Objects are checked as
    /// git checks those of a stranger, and none may change hidden files, or files that the host runs and the
    /// user has not named. Nothing else is transferred, and no program of any repository runs.
    pub fn bring_commits(&self, host: &HostRepository, bring: &Bring) -> Result<Brought, GitError> {
        let tips = self.new_tips()?;
        let Some((_, first)) = tips.first() else {
            return Err(GitError::NoCommits);
        };
        let suspects = self.suspects(first.format(), Some(host))?;
        let (chosen, named) = match bring.of.as_deref() {
            Some(name) => named(&tips, name)?,
            None => self.chosen(&tips, &suspects)?,
        };
        let tip = suspects.commit_of(named)?;
        self.check_changes(&suspects, &tip, host, &bring.allowed)?;
        let delivery = Delivery {
            from: &suspects,
            tip: &tip,
            branch: &bring.branch,
            update: bring.update,
        };
        let objects = delivery.deliver_to(host)?;
        let mut left = Vec::new();
        for (moved, other) in tips.iter().filter(|(moved, _)| moved != chosen) {
            // Commits that the repository has by now were brought, with this branch or before.
            if let (Some(name), None) = (&moved.name, host.commit(other.as_str())?) {
                left.push(name.clone());
            }
        }
        Ok(Brought {
            branch: bring.branch.clone(),
            tip,
            named: named.clone(),
            objects,
            left,
        })
    }

    /// The checked-out branch, or the only one; a branch without commits of its own is ignored.
    fn chosen<'a>(
        &self,
        tips: &'a [(MovedRef, ObjectName)],
        suspects: &Quarantine,
    ) -> Result<&'a (MovedRef, ObjectName), GitError> {
        let began_with = self.base_refs().tips()?;
        let has_commits =
            |(_, tip): &&(MovedRef, ObjectName)| suspects.leads_further(tip, &began_with).unwrap_or(true);
        let checked_out = match self.head_refs().head()? {
            GitHead::Branch(branch) => Some(branch),
            GitHead::Detached(_) | GitHead::Missing => None,
        };
        if let Some(found) = tips
            .iter()
            .find(|(moved, _)| moved.name == checked_out)
            .filter(has_commits)
        {
            return Ok(found);
        }
        let branches: Vec<_> = tips
            .iter()
            .filter(|(moved, _)| is_branch(moved))
            .filter(has_commits)
            .collect();
        match &branches[..] {
            [only] => Ok(only),
            [] => {
                let mut others = tips.iter().filter(|(moved, _)| !is_branch(moved));
                others.find(has_commits).ok_or(GitError::NoCommits)
            }
            [..] => Err(GitError::SeveralBranches {
                branches: branches
                    .iter()
                    .filter_map(|(moved, _)| moved.name.clone())
                    .collect(),
            }),
        }
    }
}

fn named<'a>(tips: &'a [(MovedRef, ObjectName)], name: &str) -> Result<&'a (MovedRef, ObjectName), GitError> {
    let is_named = |moved: &MovedRef| {
        moved
            .name
            .as_ref()
            .is_some_and(|own| own.short() == name || own.as_bytes() == name.as_bytes())
    };
    let found = tips.iter().find(|(moved, _)| is_named(moved));
    found.ok_or_else(|| GitError::NotMoved {
        name: name.to_owned(),
    })
}

fn is_branch(moved: &MovedRef) -> bool {
    moved.name.as_ref().is_some_and(RefName::is_branch)
}
