//! Projects: directories of the host that tasks work on copies of.
//!
//! A project has a vault of its own, from which its tasks are forked. Its head is the directory as the last task
//! found it.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use avfs_core::rules::{Preset, Rule, Rules};
use avfs_store::{RefEdit, RefRange};
use avfs_tree::Limits;

use crate::apply::ApplyError;
use crate::birth::Seed;
use crate::error::{Error, Result};
use crate::git::{GitError, HiddenFile, Place, Preparation, Sorted, inline, untracked_secrets};
use crate::name::{TaskName, VaultName};
use crate::record::{self, Head, ParentRecord, ProjectRecord, TaskRecord, VaultId, key};
use crate::store::Store;
use crate::task::{NewTask, Task, TaskState};
use crate::through::RuleRecord;
use crate::vault::Vault;

/// Why a directory that the sandbox makes anew is no project.
const AROUND_OWN: &str = "the sandbox has something of its own there";

/// What the vault of a project that has no usable name is called.
const NAMELESS: &str = "project";

/// A directory of the host and its vault.
#[derive(Clone)]
pub struct Project {
    store: Store,
    root: PathBuf,
    record: ProjectRecord,
}

/// What a task begins with.
pub(crate) struct Begun {
    pub(crate) head: Head,
    pub(crate) rules: Option<Vec<Rule>>,
    /// What the rules hide of what git tracks, and of other files by their contents.
    pub(crate) hidden: Vec<HiddenFile>,
}

impl Store {
    /// The project of a directory; the first time, its vault is made.
    pub fn project(&self, directory: &Path) -> Result<Project> {
        let root = canonical(directory)?;
        self.check_place(&root)?;
        if !root.is_dir() {
            return Err(ApplyError::NotADirectory { path: root }.into());
        }
        if let Some(found) = self.project_at(&root)? {
            return Ok(found);
        }
        let _pin = self.objects().store().pin()?;
        let base = self.state_of(&root)?;
        let seed = Seed {
            head: base,
            parent: None,
            action: format!("project {}", shown(&root)),
            limits: Limits::default(),
            rules: None,
            task: None,
        };
        let record = self.retry(|edits| {
            let name = self.free_name(&project_name(&root))?;
            let id = VaultId(self.take_ids(edits, 1)?);
            self.new_vault(edits, id, &name, &seed);
            let record = ProjectRecord { root: hex(&root), vault: id, tasks: 0, setup: None };
            edits.push(RefEdit::create(key::project(root.as_os_str().as_bytes()), record::encode(&record)));
            Ok(record)
        });
        match record {
            Ok(record) => Ok(Project { store: self.clone(), root, record }),
            // Another process was faster.
            Err(Error::Contended { key }) => self.project_at(&root)?.ok_or(Error::Contended { key }),
            Err(error) => Err(error),
        }
    }

    /// The project that a directory belongs to, if it is known.
    pub fn find_project(&self, directory: &Path) -> Result<Option<Project>> {
        self.project_at(&self.project_root(directory)?)
    }

    /// Where the project of a directory begins: at the nearest directory above it that is a known project or a git
    /// repository, or at itself. A submodule belongs to the known project that it is a part of.
    pub fn project_root(&self, directory: &Path) -> Result<PathBuf> {
        let directory = canonical(directory)?;
        let mut submodule = None;
        for above in directory.ancestors() {
            if self.project_at(above)?.is_some() {
                return Ok(above.to_owned());
            }
            match RepositoryKind::of(above) {
                Some(_) if self.check_place(above).is_err() => {}
                Some(RepositoryKind::Submodule) => submodule = submodule.or(Some(above)),
                Some(RepositoryKind::Whole) => return Ok(submodule.unwrap_or(above).to_owned()),
                None => {}
            }
        }
        Ok(submodule.unwrap_or(&directory).to_owned())
    }

    /// The project that a task was made from. It is registered again if it was forgotten.
    pub(crate) fn project_of(&self, task: &Task) -> Result<Project> {
        match self.project_at(task.root())? {
            Some(project) => Ok(project),
            None => self.project(task.root()),
        }
    }

    /// All projects, by their directories.
    pub fn projects(&self) -> Result<Vec<Project>> {
        let found = self.refs().scan(&RefRange::prefix(key::PROJECTS))?;
        let mut projects = Vec::new();
        for (key, bytes) in found {
            let record: ProjectRecord = record::decode(&key, &bytes)?;
            let root = path_of_hex(&record.root).ok_or_else(|| Error::DamagedRecord {
                key,
                reason: "the directory of the project cannot be read".into(),
            })?;
            projects.push(Project { store: self.clone(), root, record });
        }
        projects.sort_by(|a, b| a.root.cmp(&b.root));
        Ok(projects)
    }

    /// The project that begins at a directory, or that its path named before it was gone.
    pub fn known_project(&self, directory: &Path) -> Result<Option<Project>> {
        let root = directory.canonicalize().or_else(|_| std::path::absolute(directory));
        self.project_at(&root.unwrap_or_else(|_| directory.to_owned()))
    }

    fn project_at(&self, root: &Path) -> Result<Option<Project>> {
        let found = record::read(self.refs(), &key::project(root.as_os_str().as_bytes()))?;
        let Some((record, _)) = found else { return Ok(None) };
        Ok(Some(Project { store: self.clone(), root: root.to_owned(), record }))
    }

    /// The directory of the project whose vault this is.
    pub(crate) fn project_of_vault(&self, vault: VaultId) -> Result<Option<PathBuf>> {
        for (_, bytes) in self.refs().scan(&RefRange::prefix(key::PROJECTS))? {
            let record: ProjectRecord = record::decode(key::PROJECTS, &bytes)?;
            if record.vault == vault {
                return Ok(path_of_hex(&record.root));
            }
        }
        Ok(None)
    }

    /// Why no program can run in a task of a directory, if so.
    pub fn why_no_project(&self, directory: &Path) -> Option<&'static str> {
        match self.check_place(&directory.canonicalize().ok()?) {
            Err(Error::NotAProject { reason, .. }) => Some(reason),
            _ => None,
        }
    }

    /// Nor is one that the sandbox cannot show, because something of its own is in it.
    fn check_place(&self, root: &Path) -> Result<()> {
        self.check_project(root)?;
        match avfs_exec::plan::is_around_own(root) {
            true => Err(Error::NotAProject { path: root.to_owned(), reason: AROUND_OWN }),
            false => Ok(()),
        }
    }

    /// A directory that holds everything is not a project.
    pub(crate) fn check_project(&self, root: &Path) -> Result<()> {
        let refuse = |reason| Err(Error::NotAProject { path: root.to_owned(), reason });
        if root == Path::new("/") {
            return refuse("it is the root of the system");
        }
        let home = std::env::var_os("HOME").and_then(|home| Path::new(&home).canonicalize().ok());
        if home.is_some_and(|home| home.starts_with(root)) {
            return refuse("your whole home is in it");
        }
        if self.home().and_then(|home| home.canonicalize().ok()).is_some_and(|home| root.starts_with(home)) {
            return refuse("it is in the store");
        }
        Ok(())
    }

    /// A name that no vault has: `wanted`, or with a number behind it.
    fn free_name(&self, wanted: &VaultName) -> Result<VaultName> {
        if !self.has_vault(wanted.as_str())? {
            return Ok(wanted.clone());
        }
        let mut number = 2;
        loop {
            let name = VaultName::new(&format!("{wanted}-{number}"))?;
            if !self.has_vault(name.as_str())? {
                return Ok(name);
            }
            number += 1;
        }
    }

    /// The state of a directory as it is from now on: nothing of it is read yet. A git directory that lies outside is
    /// in it, as a second source.
    pub(crate) fn state_of(&self, root: &Path) -> Result<Head> {
        self.state_with(root, &[])
    }

    /// The state that a task with these rules begins with, and its rules: what git tracks is opened unless it is a key or
    /// a credential, and git leaves out what stays hidden.
    pub(crate) fn state_for_task(&self, root: &Path, rules: Option<&[Rule]>) -> Result<Begun> {
        let Some(given) = rules else {
            return Ok(Begun { head: self.state_of(root)?, rules: None, hidden: Vec::new() });
        };
        let given = for_tasks(given);
        let sorted = Sorted::of(root, &given);
        let (hiding, untracked) = untracked_secrets(root, &given);
        let rules: Vec<Rule> = given.iter().chain(&sorted.opening).chain(&hiding).cloned().collect();
        let preparations = match sorted.hidden().next() {
            None => Vec::new(),
            Some(_) => match sorted.preparations(root, &Rules::new(rules.clone())?) {
                // There is none inside either.
                Err(GitError::NoProgram(_)) => Vec::new(),
                prepared => prepared?,
            },
        };
        let hidden = sorted.hidden().cloned().chain(untracked).collect();
        Ok(Begun { head: self.state_with(root, &preparations)?, rules: Some(rules), hidden })
    }

    fn state_with(&self, root: &Path, preparations: &[Preparation]) -> Result<Head> {
        let snapshot = self.base_of_directory(self.source_for(root)?)?;
        let head = Head { snapshot, inodes: None, journal: 0, conflicts: None };
        let outside = match Place::outside(root) {
            None if preparations.is_empty() => return Ok(head),
            None => None,
            Some(repository) => {
                let git = self.base_of_directory(self.source_for(repository.common())?)?;
                Some((self.objects().snapshot(git)?.root.directory, repository))
            }
        };
        let (snapshot, inodes) = self.altered(head.snapshot, |tree| {
            if let Some((git, repository)) = outside {
                inline(tree, root, &repository, git)?;
            }
            preparations.iter().try_for_each(|preparation| preparation.carry_out(tree))
        })?;
        Ok(Head { snapshot, inodes, ..head })
    }
}

impl Project {
    /// The directory of the host.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path_bytes(&self) -> &[u8] {
        self.root.as_os_str().as_bytes()
    }

    /// What is kept of it now.
    pub(crate) fn record(&self) -> Result<(ProjectRecord, Vec<u8>)> {
        let key = key::project(self.path_bytes());
        record::read(self.store.refs(), &key)?.ok_or(Error::Contended { key })
    }

    pub fn vault(&self) -> Vault {
        self.store.vault_by_id(self.record.vault)
    }

    /// Makes a task: a fork of the directory as it is now.
    pub fn new_task(&self, new: &NewTask) -> Result<Task> {
        let _pin = self.store.objects().store().pin()?;
        let Begun { head: base, rules, hidden } =
            self.store.state_for_task(&self.root, new.rules.as_deref())?;
        let task = TaskRecord {
            root: self.record.root.clone(),
            base: base.snapshot,
            command: new.command.clone(),
            automatic: new.automatic,
            profile: new.profile.clone(),
            rules: rules.as_deref().map(RuleRecord::list),
            applied: None,
            brought: Vec::new(),
            made: None,
        };
        let seed = Seed {
            head: base,
            parent: Some(ParentRecord { vault: self.record.vault, snapshot: base.snapshot }),
            action: format!("task {}", new.command),
            limits: Limits::default(),
            rules: None,
            task: Some(task),
        };
        let id = self.store.retry(|edits| {
            let name = self.task_name(edits, new.name.as_ref())?;
            let id = VaultId(self.store.take_ids(edits, 1)?);
            self.store.new_vault(edits, id, &name, &seed);
            Ok(id)
        })?;
        Ok(Task::of(self.store.vault_by_id(id))?.knowing_hidden(hidden))
    }

    /// The name that was wanted, or the next number.
    fn task_name(&self, edits: &mut Vec<RefEdit>, wanted: Option<&TaskName>) -> Result<VaultName> {
        if let Some(name) = wanted {
            return self.free_task_name(name);
        }
        let (mut record, bytes) = self.record()?;
        loop {
            record.tasks += 1;
            match self.free_task_name(&TaskName::new(&format!("task-{}", record.tasks))?) {
                Err(Error::TaskExists { .. }) => {}
                found => {
                    edits.push(RefEdit::replace(
                        key::project(self.path_bytes()),
                        bytes,
                        record::encode(&record),
                    ));
                    return found;
                }
            }
        }
    }

    /// What the vault of a new task is called.
    pub(crate) fn free_task_name(&self, name: &TaskName) -> Result<VaultName> {
        let full = VaultName::of_task(&self.vault().name()?, name);
        // A vault of that name that is no task of this project: another directory had the project's name before.
        if self.task(name.as_str())?.is_some() || self.store.has_vault(full.as_str())? {
            return Err(Error::TaskExists { directory: shown(&self.root), name: name.to_string() });
        }
        Ok(full)
    }

    /// The task of this project with this name, if there is one.
    pub fn task(&self, name: &str) -> Result<Option<Task>> {
        let full = format!("{}/{name}", self.vault().name()?);
        // Tasks of older stores have no project before their name.
        for name in [full.as_str(), name] {
            if !self.store.has_vault(name)? {
                continue;
            }
            match self.store.task(name) {
                Ok(task) if task.root() == self.root => return Ok(Some(task)),
                Ok(_) | Err(Error::NotATask { .. } | Error::UnknownVault { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Forgets the project, with its vault and its tasks; its directory is left as it is. Fails, unless `force`, while
    /// a task holds work that is nowhere else, or is in use.
    pub fn forget(self, force: bool) -> Result<Vec<TaskName>> {
        let tasks = self.tasks()?;
        let mut with_work = Vec::new();
        for task in tasks.iter().filter(|_| !force) {
            if matches!(task.state()?, TaskState::Running | TaskState::Unmerged) {
                with_work.push(task.name().to_string());
            }
        }
        if !with_work.is_empty() {
            return Err(Error::ProjectInUse { directory: shown(&self.root), tasks: with_work });
        }
        let names = tasks.iter().map(|task| task.name().clone()).collect();
        tasks.into_iter().try_for_each(|task| task.discard(force))?;
        let vault = self.vault();
        self.store.retry(|edits| {
            let (_, bytes) = self.record()?;
            edits.push(RefEdit::delete(key::project(self.path_bytes()), bytes));
            self.store.log(edits, "forget project", "", shown(&self.root))
        })?;
        // A vault that is in use, or that a user has deleted, stays as it is: it belongs to no project from now on.
        match vault.remove(force) {
            Ok(()) | Err(Error::UnknownVault { .. } | Error::Busy { .. }) => Ok(names),
            Err(error) => Err(error),
        }
    }

    /// The tasks of this project, oldest first.
    pub fn tasks(&self) -> Result<Vec<Task>> {
        self.store.tasks_where(|task| task.root == self.record.root)
    }
}

/// The rules of a task. What tools of the host run may be written in it, because git has to check out, stash and merge it:
/// it is the task's own copy, and comes into the directory only if the user names it. What git itself runs stays as it is.
pub(crate) fn for_tasks(rules: &[Rule]) -> Vec<Rule> {
    rules.iter().filter(|rule| !Preset::is_about_project_files_run(rule)).cloned().collect()
}

/// What the `.git` of a directory is.
enum RepositoryKind {
    Whole,
    /// A part of the repository around it: its git directory is in the other one's.
    Submodule,
}

impl RepositoryKind {
    fn of(directory: &Path) -> Option<RepositoryKind> {
        let git = directory.join(".git");
        if !git.symlink_metadata().ok()?.is_file() {
            return Some(RepositoryKind::Whole);
        }
        let text = std::fs::read_to_string(git).unwrap_or_default();
        let is_submodule = text.strip_prefix("gitdir: ").is_some_and(|place| place.contains("/modules/"));
        Some(if is_submodule { RepositoryKind::Submodule } else { RepositoryKind::Whole })
    }
}

pub(crate) fn canonical(directory: &Path) -> Result<PathBuf> {
    directory.canonicalize().map_err(|source| Error::Host {
        action: "finding",
        place: shown(directory),
        source,
    })
}

fn shown(path: &Path) -> String {
    avfs_core::printable(path.as_os_str().as_bytes())
}

/// What a vault for a directory is called.
fn project_name(root: &Path) -> VaultName {
    const LONGEST: usize = 60;
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let allowed = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = name.chars().map(allowed).take(LONGEST).collect();
    let name = name.trim_start_matches(['.', '-']);
    VaultName::new(name).or_else(|_| VaultName::new(NAMELESS)).expect("a word is a name")
}

/// A path of the host as records keep it: its bytes in hexadecimal.
fn hex(path: &Path) -> String {
    path.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The path that [`hex`] made text of.
pub(crate) fn path_of_hex(text: &str) -> Option<PathBuf> {
    let digits = text.as_bytes();
    let pairs = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let bytes: Option<Vec<u8>> = pairs.collect();
    Some(std::ffi::OsString::from_vec(bytes?).into())
}
