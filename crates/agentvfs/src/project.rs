//! Projects: directories of the host that tasks work on copies of.
//!
//! A project has a vault of its own, from which its tasks are forked. Its head is the directory as the last task
//! found it.

mod moving;

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use avfs_core::rules::{Preset, Rule, Rules};
use avfs_store::{RefEdit, RefRange};
use avfs_tree::VaultLimits;

use crate::apply::ApplyError;
use crate::creation::Seed;
use crate::error::{Error, OwnerError, ProjectError, Result, StorageError, TaskError, VaultError};
use crate::git::{
    GitError, HiddenFile, Preparation, RepositoryPlace, SortedFiles, inline, untracked_secrets,
};
use crate::host_sources;
use crate::name::{TaskName, VaultName};
use crate::record::{self, Head, ParentRecord, ProjectRecord, TaskRecord, VaultId, key};
use crate::rule_record::RuleRecord;
use crate::store::Store;
use crate::task::{NewTask, Task, TaskState};
use crate::vault::Vault;

pub use moving::Likeness;
pub(crate) use moving::Relocation;

/// Why a directory that the sandbox creates itself cannot be a project.
fn around_own(root: &Path) -> &'static str {
    match root.to_str() {
        Some("/tmp") => "sandboxes have their own /tmp",
        Some("/var/tmp") => "sandboxes have their own /var/tmp",
        _ => "sandboxes have places of their own in it",
    }
}

/// The name of the vault of a project without a usable name.
const NAMELESS: &str = "project";

/// A directory of the host and its vault.
#[derive(Clone)]
pub struct Project {
    store: Store,
    root: PathBuf,
    record: ProjectRecord,
}

/// The initial state of a task.
pub(crate) struct Begun {
    pub(crate) head: Head,
    pub(crate) rules: Option<Vec<Rule>>,
    /// The tracked files that the rules hide, and other files that are hidden because of their contents.
    pub(crate) hidden: Vec<HiddenFile>,
}

/// Decisions about a task that are made before its directory has a state.
#[derive(Default)]
struct Prepared {
    rules: Option<Vec<Rule>>,
    hidden: Vec<HiddenFile>,
    preparations: Vec<Preparation>,
}

/// An absolute path to a directory that may be gone. `..` leads to where it does for the kernel; links are not followed
/// otherwise, because one may be in the place of a directory that was moved.
fn without_dots(directory: &Path) -> PathBuf {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let mut found = PathBuf::new();
    for component in absolute.components() {
        if component == Component::ParentDir {
            // The kernel resolves a link before it goes up, so `a/..` need not be where `a` is listed.
            found = found.canonicalize().unwrap_or(found);
            found.pop();
        } else {
            found.push(component);
        }
    }
    found
}

/// The directories of the host from which tasks are made.
#[derive(Clone, Copy)]
pub struct Projects<'a> {
    pub(crate) store: &'a Store,
}

impl Projects<'_> {
    /// The project of a directory; the first time, its vault is made.
    pub fn open(&self, directory: &Path) -> Result<Project> {
        let root = canonical(directory)?;
        self.check_place(&root)?;
        if !root.is_dir() {
            return Err(ApplyError::NotADirectory { path: root }.into());
        }
        if let Some(found) = self.project_at(&root)? {
            return self.with_vault(found);
        }
        // The objects of the first state are needed by no ref until the project is committed.
        let _pin = self.store.objects().store().pin()?;
        let seed = self.seed_of(&root)?;
        let record = self.store.retry(|edits| {
            let id = self.new_vault(edits, &root, &seed)?;
            let record = ProjectRecord {
                root: hex(&root),
                vault: id,
                tasks: 0,
                setup: None,
            };
            edits.push(RefEdit::create(
                key::project(root.as_os_str().as_bytes()),
                record::encode(&record),
            ));
            Ok(record)
        });
        match record {
            Ok(record) => Ok(Project {
                store: self.store.clone(),
                root,
                record,
            }),
            // Another process was faster.
            Err(Error::Storage(StorageError::Contended { key })) => self
                .project_at(&root)?
                .ok_or(Error::Storage(StorageError::Contended { key })),
            Err(error) => Err(error),
        }
    }

    /// What the vault of a project begins with.
    fn seed_of(&self, root: &Path) -> Result<Seed> {
        Ok(Seed {
            head: self.state_of(root)?,
            parent: None,
            action: format!("project {}", shown(root)),
            limits: VaultLimits::default(),
            rules: None,
            program_rules: Some(RuleRecord::list(&crate::rules::usual())),
            task: None,
            image: None,
        })
    }

    fn new_vault(&self, edits: &mut Vec<RefEdit>, root: &Path, seed: &Seed) -> Result<VaultId> {
        let name = self.free_name(&project_name(root))?;
        let id = VaultId(self.store.take_ids(edits, 1)?);
        self.store.new_vault(edits, id, &name, seed);
        Ok(id)
    }

    /// A project whose vault is gone gets a new one, if its directory is there.
    fn with_vault(&self, project: Project) -> Result<Project> {
        let has_vault = |record: &ProjectRecord| {
            Ok::<_, Error>(self.store.refs().read(&key::vault(record.vault))?.is_some())
        };
        if has_vault(&project.record)? || project.is_missing() {
            return Ok(project);
        }
        let _pin = self.store.objects().store().pin()?;
        let seed = self.seed_of(&project.root)?;
        let record = self.store.retry(|edits| {
            let (mut record, bytes) = project.record()?;
            // Another process was faster.
            if !has_vault(&record)? {
                record.vault = self.new_vault(edits, &project.root, &seed)?;
                let key = key::project(project.path_bytes());
                edits.push(RefEdit::replace(key, bytes, record::encode(&record)));
            }
            Ok(record)
        })?;
        Ok(Project { record, ..project })
    }

    /// The project that a directory belongs to, if it is known.
    pub fn find(&self, directory: &Path) -> Result<Option<Project>> {
        let found = self.project_at(&self.root_of(directory)?)?;
        found.map(|project| self.with_vault(project)).transpose()
    }

    /// Where the project of a directory begins: at the nearest directory above it that is a known project or a git
    /// repository, or at itself. A submodule belongs to the known project that it is a part of.
    pub fn root_of(&self, directory: &Path) -> Result<PathBuf> {
        let directory = canonical(directory)?;
        let mut submodule = None;
        for above in directory.ancestors() {
            if self.project_at(above)?.is_some() {
                return Ok(above.to_owned());
            }
            match RepositoryKind::of(above) {
                // A repository in the home itself, for example of settings, does not make the whole home a
                // project.
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
            None => self.open(task.root()),
        }
    }

    /// All projects, by their directories.
    pub fn list(&self) -> Result<Vec<Project>> {
        let found = self.store.refs().scan(&RefRange::prefix(key::PROJECTS))?;
        let mut projects = Vec::new();
        for (key, bytes) in found {
            let record: ProjectRecord = record::decode(&key, &bytes)?;
            let root = path_of_hex(&record.root).ok_or_else(|| {
                Error::Storage(StorageError::DamagedRecord {
                    key,
                    reason: "the directory of the project cannot be read".into(),
                })
            })?;
            projects.push(Project {
                store: self.store.clone(),
                root,
                record,
            });
        }
        projects.sort_by(|a, b| a.root.cmp(&b.root));
        Ok(projects)
    }

    /// The project that begins at a directory, or that its path named before it was gone.
    pub fn known_project(&self, directory: &Path) -> Result<Option<Project>> {
        let absolute = without_dots(directory);
        match directory
            .canonicalize()
            .ok()
            .map(|root| self.project_at(&root))
            .transpose()?
            .flatten()
        {
            // A link may be in the place of a directory that was moved.
            None => self.project_at(&absolute),
            found => Ok(found),
        }
    }

    fn project_at(&self, root: &Path) -> Result<Option<Project>> {
        let found = record::read(self.store.refs(), &key::project(root.as_os_str().as_bytes()))?;
        let Some((record, _)) = found else { return Ok(None) };
        Ok(Some(Project {
            store: self.store.clone(),
            root: root.to_owned(),
            record,
        }))
    }

    /// Makes the place at which the files of a directory are found while a workspace covers its path; `None` for a
    /// store in memory.
    pub fn place_aside(&self, root: &Path) -> Result<Option<PathBuf>> {
        host_sources::make_aside(self.store.home(), root)
    }

    /// The directory of the project with this vault.
    pub(crate) fn project_of_vault(&self, vault: VaultId) -> Result<Option<PathBuf>> {
        for (_, bytes) in self.store.refs().scan(&RefRange::prefix(key::PROJECTS))? {
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
            Err(Error::Project(ProjectError::Unsuitable { reason, .. })) => Some(reason),
            _ => None,
        }
    }

    /// Also refuses a directory that the sandbox cannot show, because it contains a place of the sandbox's own.
    fn check_place(&self, root: &Path) -> Result<()> {
        self.check_project(root)?;
        if avfs_exec::plan::is_around_own(root) {
            Err(Error::Project(ProjectError::Unsuitable {
                path: root.to_owned(),
                reason: around_own(root),
            }))
        } else {
            Ok(())
        }
    }

    /// A directory that holds everything is not a project.
    pub(crate) fn check_project(&self, root: &Path) -> Result<()> {
        let refuse = |reason| {
            Err(Error::Project(ProjectError::Unsuitable {
                path: root.to_owned(),
                reason,
            }))
        };
        if root == Path::new("/") {
            return refuse("it is the root of the system");
        }
        // Resolved like the project's own path, or a link would hide that they are the same.
        let home = std::env::var_os("HOME").and_then(|home| Path::new(&home).canonicalize().ok());
        if home.as_deref() == Some(root) {
            return refuse("it is your home directory");
        }
        if home.is_some_and(|home| home.starts_with(root)) {
            return refuse("your home directory is in it");
        }
        if self
            .store
            .work()
            .existing()
            .and_then(|home| home.canonicalize().ok())
            .is_some_and(|home| root.starts_with(home))
        {
            return refuse("it is in the store");
        }
        Ok(())
    }

    /// A free name for a vault: `wanted`, or the same followed by a number.
    fn free_name(&self, wanted: &VaultName) -> Result<VaultName> {
        if !self.store.has_vault(wanted.as_str())? {
            return Ok(wanted.clone());
        }
        let mut number = 2;
        loop {
            let name = VaultName::new(&format!("{wanted}-{number}"))?;
            if !self.store.has_vault(name.as_str())? {
                return Ok(name);
            }
            number += 1;
        }
    }

    /// The state of a directory from now on: nothing of it is read yet. A git directory that lies outside is
    /// included, as a second source.
    pub(crate) fn state_of(&self, root: &Path) -> Result<Head> {
        self.store.retry(|edits| self.state_with(root, &[], edits))
    }

    /// The state that a task with these rules begins with, and its rules.
    pub(crate) fn state_for_task(&self, root: &Path, rules: Option<&[Rule]>) -> Result<Begun> {
        let Prepared {
            rules,
            hidden,
            preparations,
        } = self.prepare_task(root, rules)?;
        let head = self
            .store
            .retry(|edits| self.state_with(root, &preparations, edits))?;
        Ok(Begun { head, rules, hidden })
    }

    /// The initial state of a task with these rules: tracked files are opened unless they are keys or
    /// credentials, and git leaves out those that stay hidden.
    fn prepare_task(&self, root: &Path, rules: Option<&[Rule]>) -> Result<Prepared> {
        let Some(given) = rules else {
            return Ok(Prepared::default());
        };
        let given = for_tasks(given);
        // With the rules as given: the result adds further rules, which come after them.
        let sorted = SortedFiles::of(root, &given);
        let (hiding, untracked) = untracked_secrets(root, &given);
        let rules: Vec<Rule> = given
            .iter()
            .chain(&sorted.opening)
            .chain(&hiding)
            .cloned()
            .collect();
        let preparations = match sorted.hidden().next() {
            None => Vec::new(),
            Some(_) => match sorted.preparations(root, &Rules::shared(rules.clone())?) {
                // Then there is no git inside either.
                Err(GitError::NoProgram(_)) => Vec::new(),
                prepared => prepared?,
            },
        };
        let hidden = sorted.hidden().cloned().chain(untracked).collect();
        Ok(Prepared {
            rules: Some(rules),
            hidden,
            preparations,
        })
    }

    /// The state exists once the edits are committed. A state that must be altered is read before, and exists
    /// already.
    fn state_with(
        &self,
        root: &Path,
        preparations: &[Preparation],
        edits: &mut Vec<RefEdit>,
    ) -> Result<Head> {
        if let Some(project) = self.missing_around(root)? {
            return Err(project.missing());
        }
        let source = self.source_for(root)?;
        let outside = RepositoryPlace::outside(root);
        if outside.is_none() && preparations.is_empty() {
            let snapshot = self.base_with(source, edits)?;
            return Ok(Head {
                snapshot,
                inodes: None,
                journal: 0,
                conflicts: None,
            });
        }
        // A state that is altered below must exist already, and cannot wait for the commit of the edits.
        let snapshot = self.base_of_directory(source)?;
        let head = Head {
            snapshot,
            inodes: None,
            journal: 0,
            conflicts: None,
        };
        let outside = match outside {
            None => None,
            Some(repository) => {
                let git = self.base_of_directory(self.source_for(repository.common())?)?;
                Some((self.store.objects().snapshot(git)?.root.directory, repository))
            }
        };
        let (snapshot, inodes) = self.altered(head.snapshot, |tree| {
            if let Some((git, repository)) = outside {
                inline(tree, root, &repository, git)?;
            }
            preparations
                .iter()
                .try_for_each(|preparation| preparation.carry_out(tree))
        })?;
        Ok(Head {
            snapshot,
            inodes,
            ..head
        })
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

    /// Its current record.
    pub(crate) fn record(&self) -> Result<(ProjectRecord, Vec<u8>)> {
        let key = key::project(self.path_bytes());
        record::read(self.store.refs(), &key)?.ok_or(Error::Storage(StorageError::Contended { key }))
    }

    /// The vault from which its tasks are forked.
    pub fn vault(&self) -> Vault {
        self.store.vault_by_id(self.record.vault)
    }

    /// Makes a task: a fork of the directory in its current state.
    pub fn new_task(&self, new: &NewTask) -> Result<Task> {
        let _pin = self.store.objects().store().pin()?;
        let Prepared {
            rules,
            hidden,
            preparations,
        } = self
            .store
            .projects()
            .prepare_task(&self.root, new.rules.as_deref())?;
        let rules = rules.as_deref().map(RuleRecord::list);
        // Everything in here may run several times: each attempt starts with no edits.
        let id = self.store.retry(|edits| {
            // In one commit with the task: a faster process may have taken the generation that we wanted.
            let head = self
                .store
                .projects()
                .state_with(&self.root, &preparations, edits)?;
            let task = TaskRecord {
                root: self.record.root.clone(),
                base: head.snapshot,
                command: new.command.clone(),
                automatic: new.automatic,
                profile: new.profile.clone(),
                rules: rules.clone(),
                applied: None,
                brought: Vec::new(),
                made: None,
            };
            let seed = Seed {
                head,
                parent: Some(ParentRecord {
                    vault: self.record.vault,
                    snapshot: head.snapshot,
                }),
                action: format!("task {}", new.command),
                limits: VaultLimits::default(),
                rules: None,
                program_rules: None,
                task: Some(task),
                image: None,
            };
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
            // Numbers are not reused, so that a name in a log means one task.
            record.tasks += 1;
            match self.free_task_name(&TaskName::new(&format!("task-{}", record.tasks))?) {
                Err(Error::Task(TaskError::Exists { .. })) => {}
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

    /// The name of a new task's vault.
    pub(crate) fn free_task_name(&self, name: &TaskName) -> Result<VaultName> {
        let full = VaultName::of_task(&self.vault().name()?, name);
        // A vault of that name that is not a task of this project: another directory had the project's name
        // before.
        if self.task(name.as_str())?.is_some() || self.store.has_vault(full.as_str())? {
            return Err(Error::Task(TaskError::Exists {
                directory: shown(&self.root),
                name: name.to_string(),
            }));
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
                Ok(_)
                | Err(Error::Task(TaskError::NotATask { .. }) | Error::Vault(VaultError::Unknown { .. })) => {
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Removes the project from the store, with its vault and its tasks; its directory is unchanged. Fails,
    /// unless `force`, while a task holds work that is nowhere else, or is in use.
    pub fn forget(self, force: bool) -> Result<Vec<TaskName>> {
        let tasks = self.tasks()?;
        let mut with_work = Vec::new();
        for task in tasks.iter().filter(|_| !force) {
            if matches!(task.state()?, TaskState::Running | TaskState::Unmerged) {
                with_work.push(task.name().to_string());
            }
        }
        if !with_work.is_empty() {
            return Err(Error::Project(ProjectError::InUse {
                directory: shown(&self.root),
                tasks: with_work,
            }));
        }
        let names = tasks.iter().map(|task| task.name().clone()).collect();
        // Before the project's own record: if this stops halfway, the remaining tasks still have their
        // project.
        tasks.into_iter().try_for_each(|task| task.discard(force))?;
        let vault = self.vault();
        self.store.retry(|edits| {
            let (_, bytes) = self.record()?;
            edits.push(RefEdit::delete(key::project(self.path_bytes()), bytes));
            self.store.log(edits, "forget project", "", shown(&self.root))
        })?;
        // A vault that is in use, or that a user has deleted, is unchanged: it belongs to no project from now
        // on.
        match vault.remove(force) {
            Ok(())
            | Err(Error::Vault(VaultError::Unknown { .. }) | Error::Owner(OwnerError::Busy { .. })) => {
                Ok(names)
            }
            Err(error) => Err(error),
        }
    }

    /// The tasks of this project, oldest first.
    pub fn tasks(&self) -> Result<Vec<Task>> {
        self.store
            .tasks()
            .list_where(|task| task.root == self.record.root)
    }
}

/// The rules of a task. Files that tools of the host run may be written in it, because git must be able to
/// check out, stash and merge them: it is the task's own copy, and they reach the directory only if the user
/// names them. Files that git itself runs stay protected.
pub(crate) fn for_tasks(rules: &[Rule]) -> Vec<Rule> {
    rules
        .iter()
        .filter(|rule| !Preset::is_about_project_files_run(rule))
        .cloned()
        .collect()
}

/// The kind of a directory's `.git`.
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
        let is_submodule = text
            .strip_prefix("gitdir: ")
            .is_some_and(|place| place.contains("/modules/"));
        Some(if is_submodule {
            RepositoryKind::Submodule
        } else {
            RepositoryKind::Whole
        })
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

/// The name of a vault for a directory.
fn project_name(root: &Path) -> VaultName {
    const LONGEST: usize = 60;
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let allowed = |c: char| {
        if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(allowed).take(LONGEST).collect();
    // A leading `-` would look like a flag on the command line.
    let name = name.trim_start_matches(['.', '-']);
    VaultName::new(name)
        .or_else(|_| VaultName::new(NAMELESS))
        .expect("a word is a name")
}

/// A path of the host as records keep it: its bytes in hexadecimal.
fn hex(path: &Path) -> String {
    avfs_core::to_hex(path.as_os_str().as_bytes())
}

/// The path that [`hex`] made text of.
pub(crate) fn path_of_hex(text: &str) -> Option<PathBuf> {
    let digits = text.as_bytes();
    let pairs = digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let bytes: Option<Vec<u8>> = pairs.collect();
    Some(std::ffi::OsString::from_vec(bytes?).into())
}
