//! Tasks and git: the commits of a task, and bringing them home.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use avfs_core::{SnapshotId, TreePath};
use avfs_tree::TreeReader;

use super::bring::{Bring, Brought};
use super::commits::{GitSummary, SubmoduleSummary};
use super::counted::Memory;
use super::files::{CommitFiles, Committed};
use super::host::HostRepository;
use super::refs::MovedRef;
use super::submodules::Submodule;
use super::work::Work;
use crate::apply::{Selection, check_in_reach};
use crate::error::GitError;
use crate::error::{Error, Result};
use crate::git_names::{ObjectName, RefName};
use crate::ignored::Ignored;
use crate::record::MadeRecord;
use crate::task::Task;

/// The commits of a task, and bringing them into the repository of the user.
#[derive(Clone, Copy)]
pub struct TaskGit<'a> {
    pub(crate) task: &'a Task,
}

impl TaskGit<'_> {
    /// Its work, as seen from inside: hidden files were neither changed nor removed there.
    pub fn work(&self) -> Result<Work> {
        let reader = |state| -> Result<TreeReader> { self.task.vault().reader_at(state) };
        let work = Work::new(reader(self.task.base()?)?, reader(self.task.head()?)?);
        Ok(match self.task.rules()? {
            Some(rules) => work.through(rules),
            None => work,
        })
    }

    /// Moved refs, and the commits that the repository of its directory does not have; the same for submodules.
    pub fn summary(&self) -> Result<GitSummary> {
        let work = self.work()?;
        let mut summary = work.git_summary(self.repository().as_ref())?;
        for (Submodule { path, work }, host) in submodules_at(&work, self.task.root())? {
            let of_one = work.git_summary(Some(&host))?;
            if !of_one.moved.is_empty() {
                summary.submodules.push(SubmoduleSummary {
                    path,
                    summary: of_one,
                });
            }
        }
        Ok(summary)
    }

    /// The branches and tags with work that was not brought over, according to our records. Starts no
    /// program.
    pub fn unbrought_refs(&self) -> Result<Vec<MovedRef>> {
        self.unbrought_of(&self.work()?)
    }

    fn unbrought_of(&self, work: &Work) -> Result<Vec<MovedRef>> {
        let brought = self.task.brought();
        let is_brought = |tip: &ObjectName| brought.iter().any(|known| known == tip.as_str());
        let tips = work.new_tips()?;
        Ok(tips
            .into_iter()
            .filter(|(_, tip)| !is_brought(tip))
            .map(|(moved, _)| moved)
            .collect())
    }

    /// How many commits would be lost with it, including those of submodules. If they cannot be counted, each
    /// branch counts as one. Starts no program if the count is cached.
    pub fn unbrought_commits(&self) -> Result<usize> {
        let places = self.places_with_commits()?;
        if places.is_empty() {
            return Ok(0);
        }
        let memory = self.memory(&places)?;
        if let Some(commits) = memory.as_ref().and_then(Memory::recall) {
            return Ok(commits);
        }
        let commits = places
            .iter()
            .map(NewCommits::count_missing)
            .sum::<Result<usize, GitError>>()?;
        if let Some(memory) = memory {
            memory.keep(commits);
        }
        Ok(commits)
    }

    /// The commits of a run that began and ended with these states, as far as the user does not have them.
    pub fn commits_made(&self, before: SnapshotId, after: SnapshotId) -> Result<CommitsMade> {
        let reader = |state| {
            self.task
                .vault()
                .reader_at(self.task.vault().store().projects().with_moved(state)?)
        };
        let mut work = Work::new(reader(before)?, reader(after)?);
        if let Some(rules) = self.task.rules()? {
            work = work.through(rules);
        }
        let submodules = submodules_at(&work, self.task.root())?;
        let all = submodules
            .into_iter()
            .map(|(Submodule { work, .. }, host)| (work, Some(host)));
        let mut made = CommitsMade::default();
        for (work, host) in [(work.clone(), self.repository())].into_iter().chain(all) {
            let commits = match work.own_unmerged_commits(host.as_ref()) {
                Err(GitError::Refused { .. }) => work.new_tips()?.len(),
                counted => counted?,
            };
            made.commits += commits;
            if commits > 0 && !work.files().is_root() {
                made.repositories.push(work.files().clone());
            }
        }
        made.repositories.extend(self.lone_repositories_of(&work)?);
        made.repositories.sort();
        Ok(made)
    }

    /// Where repositories are, beside the project's own, with commits that would be lost with it: submodules and nested
    /// ones. Those that the user does not have are among them, unless they are ignored, or only cloned.
    pub fn unbrought_repositories(&self) -> Result<Vec<TreePath>> {
        let mut paths = Vec::new();
        for place in self.places_with_commits()? {
            let path = place.work.files();
            if !path.is_root() && (place.unbrought > 0 || place.count_missing()? > 0) {
                paths.push(path.clone());
            }
        }
        paths.extend(self.lone_repositories()?);
        paths.sort();
        Ok(paths)
    }

    /// The repositories that the user does not have, and in which commits were made.
    pub(crate) fn lone_repositories(&self) -> Result<Vec<TreePath>> {
        self.lone_repositories_of(&self.work()?)
    }

    fn lone_repositories_of(&self, work: &Work) -> Result<Vec<TreePath>> {
        let known = submodules_at(work, self.task.root())?;
        let mut ignored = Ignored::new(work.base().clone(), work.head().clone());
        let mut paths = Vec::new();
        for Submodule { path, work } in work.nested()? {
            if known.iter().any(|(known, _)| known.path == path) || !work.has_own_commits()? {
                continue;
            }
            let place = ignored
                .place_of(&path, true)
                .map_err(|error| self.task.vault().history().read_error(error))?;
            if place.is_none() || !work.is_of_new_repository() {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// The repositories in it with commits of its own, brought over or not: the user may have deleted a branch since.
    fn places_with_commits(&self) -> Result<Vec<NewCommits>> {
        let work = self.work()?;
        let submodules = submodules_at(&work, self.task.root())?;
        let all = submodules
            .into_iter()
            .map(|(Submodule { work, .. }, host)| (work, Some(host)));
        let mut places = Vec::new();
        for (work, host) in [(work, self.repository())].into_iter().chain(all) {
            let refs = work.new_tips()?.len();
            if refs > 0 {
                let unbrought = self.unbrought_of(&work)?.len();
                let elsewhere = self.made_repositories(host.as_ref());
                places.push(NewCommits {
                    work,
                    host,
                    elsewhere,
                    refs,
                    unbrought,
                });
            }
        }
        Ok(places)
    }

    fn memory(&self, places: &[NewCommits]) -> Result<Option<Memory>> {
        let vault = self.task.vault();
        let Some(place) = vault.store().work().existing_of_vault(vault.id()) else {
            return Ok(None);
        };
        let mut states = vec![self.task.base()?.to_string(), self.task.head()?.to_string()];
        states.extend(self.task.brought().iter().cloned());
        let hosts = places
            .iter()
            .flat_map(|place| place.host.iter().chain(&place.elsewhere));
        Ok(Memory::new(place, &states, hosts))
    }

    /// Whether a directory is a repository with the commit with which the task began. `false` if it cannot be
    /// read.
    pub(crate) fn began_in_repository(&self, directory: &Path) -> bool {
        let begun = || -> Result<Option<ObjectName>> { Ok(self.work()?.base_refs().head_commit()?) };
        let (Ok(Some(commit)), Ok(host)) = (begun(), HostRepository::open(directory)) else {
            return false;
        };
        host.commit(commit.as_str()).is_ok_and(|found| found.is_some())
    }

    /// The repository of the directory that it was made from.
    fn repository(&self) -> Option<HostRepository> {
        HostRepository::open(self.task.root()).ok()
    }

    /// Brings its commits into a repository, as a branch.
    pub fn bring(&self, into: &Path, bring: &Bring) -> Result<Brought> {
        check_in_reach(into)?;
        self.task.check_settled(&Selection::default())?;
        self.bring_work(
            &self.work()?,
            into,
            &HostRepository::open(into)?,
            bring,
            &mut Vec::new(),
        )
    }

    /// Brings its commits and those of its submodules into the repositories in a directory, as branches of
    /// the same name: first those on which others depend.
    pub fn bring_all(&self, into: &Path, bring: &Bring) -> Result<BroughtAll> {
        let mut made = Vec::new();
        let submodules = self.bring_submodules_noting(into, bring, &mut made)?;
        let host = HostRepository::open(into)?;
        let own = match self.bring_work(&self.work()?, into, &host, bring, &mut made) {
            Err(Error::Git(GitError::NoCommits)) if !submodules.is_empty() => None,
            brought => Some(brought?),
        };
        Ok(BroughtAll { own, submodules })
    }

    /// Brings the commits of its submodules into those that are in a directory, as branches of the same name: before
    /// the commits that need them.
    pub fn bring_submodules(&self, into: &Path, bring: &Bring) -> Result<Vec<(TreePath, Brought)>> {
        self.bring_submodules_noting(into, bring, &mut Vec::new())
    }

    fn bring_submodules_noting(
        &self,
        into: &Path,
        bring: &Bring,
        made: &mut Vec<MadeRecord>,
    ) -> Result<Vec<(TreePath, Brought)>> {
        check_in_reach(into)?;
        self.task.check_settled(&Selection::default())?;
        let bring = Bring {
            of: None,
            ..bring.clone()
        };
        let mut all = Vec::new();
        for (Submodule { path, work }, host) in submodules_at(&self.work()?, into)? {
            if work.unmerged_commits(Some(&host))? > 0 {
                let below = into.join(OsStr::from_bytes(path.as_bytes()));
                all.push((path, self.bring_work(&work, &below, &host, &bring, made)?));
            }
        }
        Ok(all)
    }

    /// `made` are the branches that were made of it together with this one.
    fn bring_work(
        &self,
        work: &Work,
        into: &Path,
        host: &HostRepository,
        bring: &Bring,
        made: &mut Vec<MadeRecord>,
    ) -> Result<Brought> {
        let brought = match work.bring_commits(host, bring) {
            Ok(brought) => brought,
            Err(error) => {
                let has_files = !self.task.changed_files()?.is_empty();
                return Err(error.in_task(self.task.name().as_str(), has_files).into());
            }
        };
        let detail = format!("{} {}", brought.branch, brought.tip);
        let record = MadeRecord::new(
            &brought.branch,
            &brought.tip,
            into,
            self.task.vault().store().now(),
        );
        self.task
            .note_brought(brought.named.as_str(), &detail, &record.clone().beside(made))?;
        made.push(record);
        Ok(brought)
    }

    /// Makes a branch in a repository with its changed files as one commit.
    pub fn commit_files(&self, into: &Path, commit: &CommitFiles) -> Result<Committed> {
        check_in_reach(into)?;
        self.task.check_settled(&Selection {
            paths: commit.paths.clone(),
            ..Selection::default()
        })?;
        let head = self.task.head()?;
        let committed = self.work()?.commit_files(&HostRepository::open(into)?, commit)?;
        let detail = format!("{} {}", committed.branch, committed.commit);
        let made = MadeRecord::new(
            &committed.branch,
            &committed.commit,
            into,
            self.task.vault().store().now(),
        );
        let is_all = commit.paths.is_empty() && !committed.is_guarded();
        if !(committed.was_there && is_all && self.task.applied() == Some(head)) {
            self.task.note_committed(is_all.then_some(head), &detail, &made)?;
        }
        Ok(committed)
    }
}

/// The commits of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitsMade {
    /// The number of commits, in repositories that the user has.
    pub commits: usize,
    /// Where some of them are, if not in the project's own repository; also in repositories that the user does not have.
    pub repositories: Vec<TreePath>,
}

/// The branches that were made of a task.
#[derive(Clone, Debug)]
pub struct BroughtAll {
    /// `None`: commits were made in submodules only.
    pub own: Option<Brought>,
    /// The submodules whose commits were brought, by path.
    pub submodules: Vec<(TreePath, Brought)>,
}

/// A repository of a task that has commits of its own, and where the user may have them.
struct NewCommits {
    work: Work,
    /// The user's own repository of it.
    host: Option<HostRepository>,
    /// Other repositories that commits were brought to.
    elsewhere: Vec<HostRepository>,
    /// How many refs have them.
    refs: usize,
    /// How many of these were never brought over.
    unbrought: usize,
}

impl NewCommits {
    /// How many of the commits are unreachable from refs of the user. Commits that were brought over count as
    /// present if the user's own commit has the same files by now, as after a squash.
    fn count_missing(&self) -> Result<usize, GitError> {
        let missing = match self.work.unmerged_commits(self.host.as_ref()) {
            Err(GitError::Refused { .. }) => self.refs,
            counted => counted?,
        };
        if missing == 0 || self.unbrought > 0 {
            return Ok(missing);
        }
        for other in &self.elsewhere {
            if self
                .work
                .unmerged_commits(Some(other))
                .is_ok_and(|missing| missing == 0)
            {
                return Ok(0);
            }
        }
        let is_squashed = match &self.host {
            Some(host) => self.work.is_squashed_into(host).unwrap_or(false),
            None => false,
        };
        if is_squashed { Ok(0) } else { Ok(missing) }
    }
}

/// The submodules with work that a directory of the host has, too. Their paths come from settings in the
/// task, so that no link is followed there.
fn submodules_at(work: &Work, directory: &Path) -> Result<Vec<(Submodule, HostRepository)>> {
    let Ok(directory) = directory.canonicalize() else {
        return Ok(Vec::new());
    };
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
