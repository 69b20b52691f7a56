//! Bringing commits that were made in a tree into the user's repository.

use avfs_core::TreePath;

use super::deliver::Delivery;
use super::error::GitError;
use super::host::HostRepository;
use super::names::{ObjectName, RefName};
use super::refs::{Head, MovedRef};
use super::work::Work;

/// What to bring, and as what.
#[derive(Clone, Debug)]
pub struct Bring {
    /// The branch to make.
    pub branch: RefName,
    /// The branch or tag to bring; `None`: what is checked out, or the only one with new commits.
    pub of: Option<String>,
    /// Whether the branch may be there already, if it only has to be moved on.
    pub update: bool,
    /// The guarded paths that the user has named, each with what is below it.
    pub allowed: Vec<TreePath>,
}

/// What was brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    pub branch: RefName,
    pub tip: ObjectName,
    /// What was named there: the tip, or the tag that stands for it.
    pub named: ObjectName,
    /// The new objects: commits, directories and files.
    pub objects: usize,
    /// The other refs with work of their own, which stay where they are.
    pub left: Vec<RefName>,
}

impl Work {
    /// Brings the commits of one branch into the repository, as a new branch there. Objects are checked as git checks
    /// those of a stranger, and none may change what was hidden, or what the host
    /// runs and nobody named. Nothing else comes along, and no program of any repository runs.
    pub fn bring_commits(&self, host: &HostRepository, bring: &Bring) -> Result<Brought, GitError> {
        let tips = self.new_tips()?;
        let (chosen, named) = self.chosen(&tips, bring.of.as_deref())?;
        let suspects = self.suspects(named.format(), Some(host))?;
        let tip = suspects.commit_of(named)?;
        self.check_changes(&suspects, &tip, host, &bring.allowed)?;
        let delivery = Delivery { from: &suspects, tip: &tip, branch: &bring.branch, update: bring.update };
        let objects = delivery.deliver_to(host)?;
        let mut left = Vec::new();
        for (moved, other) in tips.iter().filter(|(moved, _)| moved != chosen) {
            // What the repository has by now was brought, with this branch or before.
            if let (Some(name), None) = (&moved.name, host.commit(other.as_str())?) {
                left.push(name.clone());
            }
        }
        Ok(Brought { branch: bring.branch.clone(), tip, named: named.clone(), objects, left })
    }

    fn chosen<'a>(
        &self,
        tips: &'a [(MovedRef, ObjectName)],
        of: Option<&str>,
    ) -> Result<&'a (MovedRef, ObjectName), GitError> {
        let is_named = |moved: &MovedRef, name: &str| {
            moved.name.as_ref().is_some_and(|own| own.short() == name || own.as_bytes() == name.as_bytes())
        };
        if let Some(name) = of {
            let found = tips.iter().find(|(moved, _)| is_named(moved, name));
            return found.ok_or_else(|| GitError::NotMoved { name: name.to_owned() });
        }
        let checked_out = match self.head_refs().head()? {
            Head::Branch(branch) => Some(branch),
            Head::Detached(_) | Head::Missing => None,
        };
        let branches: Vec<_> = tips.iter().filter(|(moved, _)| is_branch(moved)).collect();
        match (tips.iter().find(|(moved, _)| moved.name == checked_out), &branches[..], tips) {
            (Some(found), _, _) => Ok(found),
            (None, [only], _) => Ok(only),
            (None, [], [first, ..]) => Ok(first),
            (None, [], []) => Err(GitError::NoCommits),
            (None, [..], _) => Err(GitError::SeveralBranches {
                branches: branches.iter().filter_map(|(moved, _)| moved.name.clone()).collect(),
            }),
        }
    }
}

fn is_branch(moved: &MovedRef) -> bool {
    moved.name.as_ref().is_some_and(RefName::is_branch)
}
