//! Tasks and git: what was committed in one, and bringing it home.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use avfs_core::TreePath;
use avfs_tree::TreeReader;

use super::bring::{Bring, Brought};
use super::commits::{GitSummary, SubmoduleSummary};
use super::counted::Memory;
use super::error::GitError;
use super::files::{CommitFiles, Committed};
use super::host::HostRepository;
use super::made::MadeRecord;
use super::names::{ObjectName, RefName};
use super::refs::MovedRef;
use super::submodules::Submodule;
use super::work::Work;
use crate::apply::{Selection, check_in_reach};
use crate::error::Result;
use crate::ignored::Ignored;
use crate::owner::work_directory;
use crate::task::Task;

impl Task {
    /// What was done in it, as it is seen from inside: what its rules hide was neither changed nor removed there.
    pub fn git_work(&self) -> Result<Work> {
        let reader = |state| -> Result<TreeReader> { self.vault().reader_at(state) };
        let work = Work::new(reader(self.base()?)?, reader(self.head()?)?);
        Ok(match self.rules()? {
            Some(rules) => work.through(rules),
            None => work,
        })
    }

    /// Moved refs, and the commits that the repository of its directory does not have; the same for submodules.
    pub fn git_summary(&self) -> Result<GitSummary> {
        let work = self.git_work()?;
        let mut summary = work.git_summary(self.repository().as_ref())?;
        for (Submodule { path, work }, host) in submodules_at(&work, self.root())? {
            let of_one = work.git_summary(Some(&host))?;
            if !of_one.moved.is_empty() {
                summary.submodules.push(SubmoduleSummary { path, summary: of_one });
            }
        }
        Ok(summary)
    }

    /// The branches and tags with work that was not brought over, by what is noted here. Starts no program.
    pub fn unbrought_refs(&self) -> Result<Vec<MovedRef>> {
        self.unbrought_of(&self.git_work()?)
    }

    fn unbrought_of(&self, work: &Work) -> Result<Vec<MovedRef>> {
        let brought = self.brought();
        let is_brought = |tip: &ObjectName| brought.iter().any(|known| known == tip.as_str());
        let tips = work.new_tips()?;
        Ok(tips.into_iter().filter(|(_, tip)| !is_brought(tip)).map(|(moved, _)| moved).collect())
    }

    /// How many commits would be lost with it, those of submodules among them. Where they cannot be counted, each
    /// branch counts as one. Starts no program for what was counted before.
    pub fn unbrought_commits(&self) -> Result<usize> {
        let places = self.unbrought_places()?;
        if places.is_empty() {
            return Ok(0);
        }
        let memory = self.memory(&places)?;
        if let Some(commits) = memory.as_ref().and_then(Memory::recall) {
            return Ok(commits);
        }
        let commits = places.iter().map(Unbrought::count).sum::<Result<usize, GitError>>()?;
        if let Some(memory) = memory {
            memory.keep(commits);
        }
        Ok(commits)
    }

    /// Where repositories are, beside the project's own, with commits that would be lost with it: submodules and nested
    /// ones. Those that the user does not have are among them, unless they are ignored, or only cloned.
    pub fn unbrought_repositories(&self) -> Result<Vec<TreePath>> {
        let mut paths: Vec<TreePath> =
            self.unbrought_places()?.iter().map(|place| place.work.files().clone()).collect();
        paths.retain(|path| !path.is_root());
        paths.extend(self.lone_repositories()?);
        paths.sort();
        Ok(paths)
    }

    /// The repositories that the user does not have, and in which commits were made.
    pub(crate) fn lone_repositories(&self) -> Result<Vec<TreePath>> {
        let work = self.git_work()?;
        let known = submodules_at(&work, self.root())?;
        let mut ignored = Ignored::new(work.base().clone(), work.head().clone());
        let mut paths = Vec::new();
        for Submodule { path, work } in work.nested()? {
            if known.iter().any(|(known, _)| known.path == path) || !work.has_own_commits()? {
                continue;
            }
            let place = ignored.place_of(&path, true).map_err(|error| self.vault().read_error(error))?;
            if place.is_none() || !work.is_of_new_repository() {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// The repositories in it with work that was not brought over.
    fn unbrought_places(&self) -> Result<Vec<Unbrought>> {
        let work = self.git_work()?;
        let submodules = submodules_at(&work, self.root())?;
        let all = submodules.into_iter().map(|(Submodule { work, .. }, host)| (work, Some(host)));
        let mut places = Vec::new();
        for (work, host) in [(work, self.repository())].into_iter().chain(all) {
            let refs = self.unbrought_of(&work)?.len();
            if refs > 0 {
                places.push(Unbrought { work, host, refs });
            }
        }
        Ok(places)
    }

    fn memory(&self, places: &[Unbrought]) -> Result<Option<Memory>> {
        let Some(home) = self.vault().store().home() else { return Ok(None) };
        let mut states = vec![self.base()?.to_string(), self.head()?.to_string()];
        states.extend(self.brought().iter().cloned());
        let hosts = places.iter().filter_map(|place| place.host.as_ref());
        Ok(Memory::new(work_directory(home, self.vault().id()), &states, hosts))
    }

    /// The repository of the directory that it was made from.
    fn repository(&self) -> Option<HostRepository> {
        HostRepository::open(self.root()).ok()
    }

    /// Brings its commits into a repository, as a branch.
    pub fn bring_commits(&self, into: &Path, bring: &Bring) -> Result<Brought> {
        check_in_reach(into)?;
        self.check_settled(&Selection::default())?;
        self.bring_work(&self.git_work()?, into, &HostRepository::open(into)?, bring)
    }

    /// Brings the commits of its submodules into those that are in a directory, as branches of the same name: before
    /// the commits that need them.
    pub fn bring_submodules(&self, into: &Path, bring: &Bring) -> Result<Vec<(TreePath, Brought)>> {
        check_in_reach(into)?;
        self.check_settled(&Selection::default())?;
        let bring = Bring { of: None, ..bring.clone() };
        let mut all = Vec::new();
        for (Submodule { path, work }, host) in submodules_at(&self.git_work()?, into)? {
            if work.unmerged_commits(Some(&host))? > 0 {
                let below = into.join(OsStr::from_bytes(path.as_bytes()));
                all.push((path, self.bring_work(&work, &below, &host, &bring)?));
            }
        }
        Ok(all)
    }

    fn bring_work(&self, work: &Work, into: &Path, host: &HostRepository, bring: &Bring) -> Result<Brought> {
        let brought = work.bring_commits(host, bring).map_err(|error| error.in_task(self.name().as_str()))?;
        let detail = format!("{} {}", brought.branch, brought.tip);
        let made = MadeRecord::new(&brought.branch, into, self.vault().store().now());
        self.note_brought(brought.named.as_str(), &detail, &made)?;
        Ok(brought)
    }

    /// Makes a branch in a repository with its changed files as one commit.
    pub fn commit_files(&self, into: &Path, commit: &CommitFiles) -> Result<Committed> {
        check_in_reach(into)?;
        self.check_settled(&Selection { paths: commit.paths.clone(), ..Selection::default() })?;
        let head = self.head()?;
        let committed = self.git_work()?.commit_files(&HostRepository::open(into)?, commit)?;
        let detail = format!("{} {}", committed.branch, committed.commit);
        let made = MadeRecord::new(&committed.branch, into, self.vault().store().now());
        let is_all = commit.paths.is_empty() && !committed.is_guarded();
        self.note_committed(is_all.then_some(head), &detail, &made)?;
        Ok(committed)
    }
}

/// A repository of a task, the user's own of it, and how many refs with work of theirs the user does not have.
struct Unbrought {
    work: Work,
    host: Option<HostRepository>,
    refs: usize,
}

impl Unbrought {
    fn count(&self) -> Result<usize, GitError> {
        match self.work.unmerged_commits(self.host.as_ref()) {
            Err(GitError::Refused { .. }) => Ok(self.refs),
            counted => counted,
        }
    }
}

/// The submodules in which something was done that a directory of the host has, too. Where they are is what settings in
/// the task say, so that no link is followed there.
fn submodules_at(work: &Work, directory: &Path) -> Result<Vec<(Submodule, HostRepository)>> {
    let Ok(directory) = directory.canonicalize() else { return Ok(Vec::new()) };
    let on_host = |submodule: Submodule| {
        let place = directory.join(OsStr::from_bytes(submodule.path.as_bytes()));
        let is_itself = place.canonicalize().is_ok_and(|found| found == place);
        let host = is_itself.then(|| HostRepository::open(&place).ok()).flatten();
        host.map(|host| (submodule, host))
    };
    Ok(work.submodules()?.into_iter().filter_map(on_host).collect())
}

/// The branch that the work of a task is brought to if none is named.
pub fn default_branch(task: &Task) -> Option<RefName> {
    RefName::branch(&format!("avfs/{}", task.name()))
}
