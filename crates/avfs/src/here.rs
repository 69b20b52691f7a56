//! What a command works on, depending on the current directory.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agentvfs::error::TaskError;
use agentvfs::{Error, Here, Meant, Store, Task, TreePath, Vault};
use anyhow::Result;

use crate::args::PathArg;
use crate::context::Context;
use crate::escape::{printable, printable_path};
use crate::exit::ExitStatus;
use crate::failure::{Failure, of_library};
use crate::settings::{Origin, SettingKey};
use crate::time::{Age, now};

/// The vault that a command works on where its arguments name none, and why it is that one.
#[derive(Clone)]
pub struct Decided {
    pub vault: Vault,
    pub reason: VaultReason,
}

/// What decided, the strongest first. `docs/cli.md` describes the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VaultReason {
    Flag,
    Environment(String),
    ProjectFile(PathBuf),
    Mount(PathBuf),
    OnlyTask(PathBuf),
    ChosenTask(PathBuf),
    UserFile(PathBuf),
    Chosen,
}

impl VaultReason {
    /// A stable word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            VaultReason::Flag => "flag",
            VaultReason::Environment(_) => "environment",
            VaultReason::ProjectFile(_) => "project-file",
            VaultReason::Mount(_) => "mount",
            VaultReason::OnlyTask(_) => "only-task",
            VaultReason::ChosenTask(_) => "chosen-task",
            VaultReason::UserFile(_) => "user-file",
            VaultReason::Chosen => "chosen",
        }
    }

    /// Whether the user named this vault, or is in a mount of it.
    pub fn is_explicit(&self) -> bool {
        match self {
            VaultReason::Flag
            | VaultReason::Environment(_)
            | VaultReason::ProjectFile(_)
            | VaultReason::Mount(_) => true,
            VaultReason::OnlyTask(_)
            | VaultReason::ChosenTask(_)
            | VaultReason::UserFile(_)
            | VaultReason::Chosen => false,
        }
    }

    /// Whether it was chosen for all directories.
    pub fn is_for_all(&self) -> bool {
        match self {
            VaultReason::UserFile(_) | VaultReason::Chosen => true,
            VaultReason::Flag
            | VaultReason::Environment(_)
            | VaultReason::ProjectFile(_)
            | VaultReason::Mount(_)
            | VaultReason::OnlyTask(_)
            | VaultReason::ChosenTask(_) => false,
        }
    }
}

impl fmt::Display for VaultReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VaultReason::Flag => f.write_str("named by --vault"),
            VaultReason::Environment(variable) => write!(f, "named by {variable}"),
            VaultReason::ProjectFile(file) | VaultReason::UserFile(file) => {
                write!(f, "named in {}", printable_path(file))
            }
            VaultReason::Mount(at) => write!(f, "mounted at {}", printable_path(at)),
            VaultReason::OnlyTask(root) => write!(f, "the only task of {}", printable_path(root)),
            VaultReason::ChosenTask(root) => write!(f, "the chosen task of {}", printable_path(root)),
            VaultReason::Chosen => f.write_str("chosen with `avfs vault use`"),
        }
    }
}

impl Context<'_> {
    /// The vault that the command works on: named by a flag, the environment or the project's file, that of the
    /// directory, or the one that the user has chosen for all directories.
    pub fn decided(&self) -> Result<Decided> {
        if let Some(decided) = self.decided.get() {
            return Ok(decided.clone());
        }
        let store = self.store()?;
        let found = match self.decide(&store) {
            Err(several @ Error::Task(TaskError::Several { .. })) => {
                match self.ask_for_task(&store.projects().here(&working_directory())?)? {
                    Some(task) => {
                        let (vault, root) = (task.vault().clone(), task.root().to_owned());
                        Some(Decided {
                            vault,
                            reason: VaultReason::ChosenTask(root),
                        })
                    }
                    None => {
                        let here = store.projects().here(&working_directory())?;
                        return Err(several_tasks(&several, &here)?.into());
                    }
                }
            }
            found => found?,
        };
        // A closure, because finding the hint reads the store, and nearly every command has a vault.
        let none = || {
            let chosen = store.current_vault().ok().flatten();
            let hint = match chosen {
                Some(name) => {
                    format!("the chosen vault is a task of another project: `--vault {name}` names it")
                }
                None if self.is_project_without_task(&store) => {
                    "this project has no task: start one with `avfs run`, or name a vault with --vault"
                        .to_owned()
                }
                None => "name one with --vault, or choose one with `avfs vault use NAME`".to_owned(),
            };
            Failure::new("no-vault", ExitStatus::BadInput, "no vault is chosen").hint(Some(hint))
        };
        let decided = found.ok_or_else(none)?;
        self.tell_if_of_no_project(&store, &decided)?;
        Ok(self.decided.get_or_init(|| decided).clone())
    }

    fn is_project_without_task(&self, store: &Store) -> bool {
        let here = store.projects().here(&working_directory());
        here.is_ok_and(|here| here.project().is_some() && here.tasks().is_ok_and(|tasks| tasks.is_empty()))
    }

    /// In a project, the vault that was chosen for all directories may not be the one that the user has in
    /// mind: it is named, once per command.
    pub fn tell_if_of_no_project(&self, store: &Store, decided: &Decided) -> Result<()> {
        if !decided.reason.is_for_all() || !self.out.talks() {
            return Ok(());
        }
        let here = store.projects().here(&working_directory())?;
        let own = decided.vault.own_path()?;
        if project_around(store, &here).is_some_and(|root| own.as_ref() != Some(&root)) {
            let (name, reason) = (decided.vault.name()?, &decided.reason);
            writeln!(
                // The printer needs a mutable borrow, which a shared context does not have.
                io::stderr(),
                "working on vault '{name}' ({reason}), because this project has no task"
            )?;
        }
        Ok(())
    }

    /// The same, without asking: `None` if nothing decides, or the project has several tasks.
    pub fn decided_already(&self, store: &Store) -> Result<Option<Decided>> {
        match self.decide(store) {
            Err(Error::Task(TaskError::Several { .. })) => Ok(None),
            found => Ok(found?),
        }
    }

    /// The command that undoes a change of a vault, as it is typed in this directory.
    pub fn undo_command(&self, vault: &Vault) -> Result<String> {
        let decided = self.decided_already(vault.store())?;
        // A vault that was named by a flag must be named again, or the command would undo something else.
        let is_meant =
            |decided: &Decided| decided.vault.id() == vault.id() && decided.reason != VaultReason::Flag;
        let here = vault.store().projects().here(&working_directory())?;
        match decided.filter(is_meant) {
            Some(decided) if !is_beside(&here, &decided)? => Ok("avfs undo".to_owned()),
            Some(_) | None => Ok(format!("avfs undo --vault {}", here.full_name(vault)?)),
        }
    }

    /// The decision itself, or the several tasks between which the user has to decide.
    pub fn decide(&self, store: &Store) -> agentvfs::Result<Option<Decided>> {
        let here = store.projects().here(&working_directory())?;
        let named = |reason: VaultReason| match self.settings.vault() {
            Some(name) => {
                let vault = match reason {
                    VaultReason::Flag | VaultReason::Environment(_) => here.only_vault(name)?,
                    _ => here.vault(name)?,
                };
                Ok(Some(Decided { vault, reason }))
            }
            None => Ok(None),
        };
        // Explicit names come first. The user's file only sets a default, which the directory overrides.
        let user_file = match self.settings.get(SettingKey::Vault).origin.clone() {
            Origin::Flag => return named(VaultReason::Flag),
            Origin::Environment { variable } => return named(VaultReason::Environment(variable)),
            Origin::ProjectFile { file, .. } => return named(VaultReason::ProjectFile(file)),
            Origin::UserFile { file, .. } => Some(file),
            Origin::Default => None,
        };
        let chosen = match self.settings.vault() {
            Some(name) => Some(name.to_owned()),
            None => store.current_vault()?,
        };
        match here.meant(chosen.as_deref())? {
            Some(Meant::Mounted { vault, at }) => {
                return Ok(Some(Decided {
                    vault,
                    reason: VaultReason::Mount(at),
                }));
            }
            Some(Meant::Task { task, is_only }) => {
                let root = task.root().to_owned();
                let reason = if is_only {
                    VaultReason::OnlyTask(root)
                } else {
                    VaultReason::ChosenTask(root)
                };
                return Ok(Some(Decided {
                    vault: task.vault().clone(),
                    reason,
                }));
            }
            None => {}
        }
        // The task of another project is not used by accident, only by name.
        let Some(name) = chosen.filter(|name| !is_elsewhere(store, &here, name)) else {
            return Ok(None);
        };
        let reason = user_file.map_or(VaultReason::Chosen, VaultReason::UserFile);
        Ok(Some(Decided {
            vault: here.vault(&name)?,
            reason,
        }))
    }

    /// The meaning of names in the working directory.
    pub fn here(&mut self) -> Result<Here> {
        Ok(self.task_store()?.projects().here(&working_directory())?)
    }

    /// The task to which a command refers: the one that its arguments name, or else the one that the rule for
    /// all commands finds. If there are several, the user is asked on a terminal.
    pub fn task(&mut self, name: Option<&str>) -> Result<Task> {
        let here = self.here()?;
        if let Some(name) = name {
            let task = here.task(name)?;
            self.refuse_other_vault(&here, name, &task)?;
            return Ok(task);
        }
        let decided = match self.decide(&self.store()?) {
            Err(several @ Error::Task(TaskError::Several { .. })) => {
                return Ok(self.ask_for_task(&here)?.ok_or(several)?);
            }
            decided => decided?,
        };
        let Some(Decided { vault, reason }) = decided else {
            return Ok(here.only_task()?);
        };
        match Task::of(vault) {
            Err(error @ Error::Task(TaskError::NotATask { .. })) if reason.is_explicit() => {
                Err(no_task(&error, &reason).into())
            }
            // A vault that was chosen for all directories was not chosen for this command.
            Err(Error::Task(TaskError::NotATask { .. })) => Ok(here.only_task()?),
            found => Ok(found?),
        }
    }

    /// The tasks that the arguments name, or else the one that the rule for all commands finds.
    pub fn tasks(&mut self, names: &[String]) -> Result<Vec<Task>> {
        match names {
            [] => Ok(vec![self.task(None)?]),
            names => names.iter().map(|name| self.task(Some(name))).collect(),
        }
    }

    /// The task that the rule for all commands finds, without asking: none if it finds a vault that is not a
    /// task, or several.
    pub fn task_already(&mut self) -> Result<Option<Task>> {
        let store = self.task_store()?;
        let Some(decided) = self.decided_already(&store)? else {
            return Ok(None);
        };
        match Task::of(decided.vault) {
            Err(Error::Task(TaskError::NotATask { .. })) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// A task in the arguments and a different vault in `--vault`: it is unclear which of them is meant.
    pub fn refuse_other_vault(&self, here: &Here, name: &str, task: &Task) -> Result<()> {
        let Some(flag) = self.vault_flag().filter(|flag| *flag != name) else {
            return Ok(());
        };
        if here.vault(flag)?.id() == task.vault().id() {
            return Ok(());
        }
        let text = format!(
            "the arguments name task '{name}', but --vault names '{}'",
            printable(flag.as_bytes())
        );
        let hint = "leave one of them out".to_owned();
        Err(Failure::new("usage", ExitStatus::BadInput, text)
            .hint(Some(hint))
            .into())
    }

    /// The value of `--vault`.
    pub fn vault_flag(&self) -> Option<&str> {
        match self.settings.get(SettingKey::Vault).origin {
            Origin::Flag => self.settings.vault(),
            Origin::Environment { .. }
            | Origin::ProjectFile { .. }
            | Origin::UserFile { .. }
            | Origin::Default => None,
        }
    }

    /// The path of the vault that a word means here.
    pub fn path(&self, path: &PathArg) -> Result<TreePath> {
        Ok(self.paths(std::slice::from_ref(path))?.remove(0))
    }

    /// The paths of the vault that words mean here.
    pub fn paths(&self, paths: &[PathArg]) -> Result<Vec<TreePath>> {
        // Paths from the root mean the same everywhere, so the vault need not be decided for them.
        let is_elsewhere = self.is_alone() || paths.iter().all(PathArg::is_from_root);
        if is_elsewhere {
            self.paths_in(None, paths)
        } else {
            let decided = self.decided()?;
            match &decided.reason {
                // In a mount the directory itself is in the vault, whatever the vault is a copy of.
                VaultReason::Mount(at) => meant_from(&below(at), paths),
                _ => self.paths_in(Some(&decided.vault), paths),
            }
        }
    }

    /// The same in another vault, if there is one. Without the directory that a vault is a copy of, all of them are meant
    /// from its root.
    pub fn paths_in(&self, vault: Option<&Vault>, paths: &[PathArg]) -> Result<Vec<TreePath>> {
        let root = match vault.filter(|_| !self.is_alone()) {
            Some(vault) => vault.own_path()?,
            None => None,
        };
        meant_from(&root.map(|root| below(&root)).unwrap_or_default(), paths)
    }

    /// The task and the paths in it that a command is about: `TASK PATH…`, where the task may be left out. A first
    /// word that names no task is a path if the task that is meant here has it, or had it when it began.
    pub fn task_and_paths(
        &mut self,
        first: Option<&OsStr>,
        rest: &[PathArg],
    ) -> Result<(Task, Vec<TreePath>)> {
        let with_rest = |task: Task| {
            let rest = meant_from(&below(task.root()), rest)?;
            Ok((task, rest))
        };
        let Some(first) = first else {
            return with_rest(self.task(None)?);
        };
        let name = first.to_string_lossy();
        // Only these errors mean that the word may be a path; any other one is about the task and is
        // reported.
        let unknown = match self.here()?.task(&name) {
            Err(
                unknown @ Error::Task(
                    TaskError::Unknown { .. } | TaskError::NotATask { .. } | TaskError::Elsewhere { .. },
                ),
            ) => unknown,
            Err(error) => return Err(error.into()),
            Ok(_) => return with_rest(self.task(Some(&name))?),
        };
        let Some((task, path)) = self.task_with(first.as_bytes())? else {
            return Err(unknown.into());
        };
        let (task, rest) = with_rest(task)?;
        Ok((task, [path].into_iter().chain(rest).collect()))
    }

    /// The task that is meant here and the meaning of a word in it, if the task has such a path, or had it
    /// when it began.
    pub fn task_with(&mut self, word: &[u8]) -> Result<Option<(Task, TreePath)>> {
        let Ok(path) = PathArg::parse(word) else {
            return Ok(None);
        };
        let Some(task) = self.task_already()? else {
            return Ok(None);
        };
        let Ok(path) = path.from(&below(task.root())) else {
            return Ok(None);
        };
        Ok(has_path(&task, &path)?.then_some((task, path)))
    }

    /// Asks which of the tasks of this project is meant, if a user can answer.
    fn ask_for_task(&self, here: &Here) -> Result<Option<Task>> {
        if self.out.is_json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        let mut tasks = here.tasks()?;
        let width = tasks
            .iter()
            .map(|task| task.name().as_str().chars().count())
            .max()
            .unwrap_or(0);
        for (number, task) in (1..).zip(&tasks) {
            let age = Age {
                then: task.created(),
                now: now(),
            };
            let command = crate::escape::printable_line(task.command().as_bytes());
            writeln!(
                io::stderr(),
                "{number:>3}  {:<width$}  {age}  {command}",
                task.name()
            )?;
        }
        write!(io::stderr(), "Which task? [1-{}] ", tasks.len())?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        let answer = answer.trim();
        // Names come before numbers: a task may be called `2`.
        let chosen = tasks.iter().position(|task| task.name().as_str() == answer);
        let counted = answer
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        let chosen = chosen.or(counted).filter(|at| *at < tasks.len());
        Ok(chosen.map(|at| tasks.swap_remove(at)))
    }
}

/// Whether a vault is the task of a project, and this directory belongs to another one: there, it must be
/// named explicitly.
fn is_elsewhere(store: &Store, here: &Here, name: &str) -> bool {
    let Ok(task) = store.task(name) else { return false };
    project_around(store, here).is_some_and(|root| root != task.root())
}

/// Whether a directory has, or had, actions of its own to undo: it belongs to a known project, or something
/// was applied to it.
pub fn has_own_past(here: &Here) -> Result<bool> {
    let is_here = |directory: &Path| here.is_here(directory);
    Ok(here.project().is_some() || here.store().applies().last_time(is_here)?.is_some())
}

/// Whether a vault was chosen for all directories and this one has a past of its own: then undo and redo do
/// not refer to the vault, unless it is a copy of this directory.
pub fn is_beside(here: &Here, decided: &Decided) -> Result<bool> {
    if !decided.reason.is_for_all() || !has_own_past(here)? {
        return Ok(false);
    }
    let own = decided.vault.own_path()?;
    Ok(!own.is_some_and(|own| here.directory().starts_with(own)))
}

/// Where the project begins that a directory belongs to: a known one, or a git repository.
fn project_around(store: &Store, here: &Here) -> Option<PathBuf> {
    let is_repository = |root: &PathBuf| root.join(".git").exists();
    let project = here.project().map(|project| project.root().to_owned());
    project.or_else(|| {
        store
            .projects()
            .root_of(here.directory())
            .ok()
            .filter(is_repository)
    })
}

/// The directory that the command is typed in. A deleted directory belongs to no project or vault.
pub fn working_directory() -> PathBuf {
    let exists = |path: &PathBuf| path.is_dir();
    std::env::current_dir()
        .ok()
        .filter(exists)
        .unwrap_or_else(|| Path::new("/").to_owned())
}

/// The default start directory of a command on a vault: the current directory, if the vault is a copy of a
/// parent of it and contains it too.
pub fn start_directory(vault: &Vault) -> Result<Option<PathBuf>> {
    let Some(root) = vault.own_path()? else {
        return Ok(None);
    };
    let here = working_directory().canonicalize().unwrap_or_default();
    let Some(below) = here
        .strip_prefix(&root)
        .ok()
        .filter(|below| !below.as_os_str().is_empty())
    else {
        return Ok(None);
    };
    let found = TreePath::parse(below.as_os_str().as_encoded_bytes())
        .ok()
        .is_some_and(|path| vault.reader().is_ok_and(|reader| reader.find(&path).is_ok()));
    Ok(found.then(|| below.to_owned()))
}

/// The paths that words mean in the directory `here` of a vault.
pub fn meant_from(here: &TreePath, paths: &[PathArg]) -> Result<Vec<TreePath>> {
    let meant = |path: &PathArg| {
        let failed = |error| {
            let hint = "a path that begins with '/' starts at the root of the vault".to_owned();
            Failure::new("bad-name", ExitStatus::BadInput, error).hint(Some(hint))
        };
        Ok(path.from(here).map_err(failed)?)
    };
    paths.iter().map(meant).collect()
}

/// Where the working directory is below a directory; the root if it is not.
pub fn below(root: &Path) -> TreePath {
    let Ok(here) = working_directory().canonicalize() else {
        return TreePath::root();
    };
    // Both resolved: the user may have come here through a symbolic link.
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let below = here
        .strip_prefix(&root)
        .ok()
        .map(|below| below.as_os_str().as_bytes());
    below
        .and_then(|below| TreePath::parse(below).ok())
        .unwrap_or_default()
}

fn has_path(task: &Task, path: &TreePath) -> Result<bool> {
    // The base as well, so that a removed file can be named.
    for state in [task.head()?, task.base()?] {
        if task.vault().reader_at(state)?.find(path).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Commands about vaults take the name of one in a flag.
fn several_tasks(several: &Error, here: &Here) -> Result<Failure> {
    let tasks = here.tasks()?;
    let example = tasks
        .first()
        .map_or("PROJECT/TASK", |task| task.vault_name().as_str());
    let hint = format!("name one, as with --vault {example}, or choose one with `avfs vault use {example}`");
    Ok(Failure::new(several.code().as_str(), ExitStatus::BadInput, several).hint(Some(hint)))
}

/// The named vault is not a task; mentions where it was named.
fn no_task(error: &Error, reason: &VaultReason) -> Failure {
    let hint = format!("it is {reason}; name a task; `avfs tasks` lists them");
    Failure::new(error.code().as_str(), of_library(error.code()), error).hint(Some(hint))
}
