//! What a command works on, by the directory that it is typed in.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agentvfs::{Error, Here, Meant, Store, Task, TreePath, Vault};
use anyhow::Result;

use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::settings::{Key, Origin};
use crate::time::{Age, now};

/// The vault that a command works on where its arguments name none, and why it is that one.
#[derive(Clone)]
pub struct Decided {
    pub vault: Vault,
    pub reason: Reason,
}

/// What decided, the strongest first. `docs/cli.md` has the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Flag,
    Environment(String),
    ProjectFile(PathBuf),
    Mount(PathBuf),
    OnlyTask(PathBuf),
    ChosenTask(PathBuf),
    UserFile(PathBuf),
    Chosen,
}

impl Reason {
    /// A stable word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Reason::Flag => "flag",
            Reason::Environment(_) => "environment",
            Reason::ProjectFile(_) => "project-file",
            Reason::Mount(_) => "mount",
            Reason::OnlyTask(_) => "only-task",
            Reason::ChosenTask(_) => "chosen-task",
            Reason::UserFile(_) => "user-file",
            Reason::Chosen => "chosen",
        }
    }

    /// Whether the user named this very vault, or is in a mount of it.
    pub fn is_explicit(&self) -> bool {
        match self {
            Reason::Flag | Reason::Environment(_) | Reason::ProjectFile(_) | Reason::Mount(_) => true,
            Reason::OnlyTask(_) | Reason::ChosenTask(_) | Reason::UserFile(_) | Reason::Chosen => false,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Flag => f.write_str("named by --vault"),
            Reason::Environment(variable) => write!(f, "named by {variable}"),
            Reason::ProjectFile(file) | Reason::UserFile(file) => {
                write!(f, "named in {}", printable_path(file))
            }
            Reason::Mount(at) => write!(f, "mounted at {}", printable_path(at)),
            Reason::OnlyTask(root) => write!(f, "the only task of {}", printable_path(root)),
            Reason::ChosenTask(root) => write!(f, "the chosen task of {}", printable_path(root)),
            Reason::Chosen => f.write_str("chosen with `avfs vault use`"),
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
            Err(several @ Error::SeveralTasks { .. }) => {
                match self.ask_for_task(&store.here(&working_directory())?)? {
                    Some(task) => {
                        let (vault, root) = (task.vault().clone(), task.root().to_owned());
                        Some(Decided { vault, reason: Reason::ChosenTask(root) })
                    }
                    None => return Err(several_tasks(&several).into()),
                }
            }
            found => found?,
        };
        let none = || {
            let chosen = store.current_vault().ok().flatten();
            let hint = match chosen {
                Some(name) => {
                    format!("the chosen vault is a task of another project: `--vault {name}` names it")
                }
                None => "name one with --vault, or choose one with `avfs vault use NAME`".to_owned(),
            };
            Failure::new("no-vault", ExitStatus::BadInput, "no vault is chosen").hint(Some(hint))
        };
        let decided = found.ok_or_else(none)?;
        self.tell_if_of_no_project(&store, &decided)?;
        Ok(self.decided.get_or_init(|| decided).clone())
    }

    /// In a project, the vault that was chosen for all directories may not be what the user has in mind: it is named, once
    /// for each command.
    fn tell_if_of_no_project(&self, store: &Store, decided: &Decided) -> Result<()> {
        let is_for_all = matches!(decided.reason, Reason::Chosen | Reason::UserFile(_));
        if !is_for_all || !self.out.talks() {
            return Ok(());
        }
        let here = store.here(&working_directory())?;
        let own = decided.vault.own_path()?;
        if project_around(store, &here).is_some_and(|root| own.as_ref() != Some(&root)) {
            let (name, reason) = (decided.vault.name()?, &decided.reason);
            writeln!(io::stderr(), "on vault '{name}', {reason}: this project has no task")?;
        }
        Ok(())
    }

    /// The same, without asking: `None` if nothing decides, or the project has several tasks.
    pub fn decided_already(&self, store: &Store) -> Result<Option<Decided>> {
        match self.decide(store) {
            Err(Error::SeveralTasks { .. }) => Ok(None),
            found => Ok(found?),
        }
    }

    /// Whether a vault is named by a flag, the environment or the project's file.
    pub fn names_vault(&self) -> bool {
        match self.settings.get(Key::Vault).origin {
            Origin::Flag | Origin::Environment { .. } | Origin::ProjectFile { .. } => true,
            Origin::UserFile { .. } | Origin::Default => false,
        }
    }

    /// What undoes a change of a vault, as it is typed in this directory.
    pub fn undo_command(&self, vault: &Vault) -> Result<String> {
        let decided = self.decided_already(vault.store())?;
        let is_meant = |decided: &Decided| decided.vault.id() == vault.id() && decided.reason != Reason::Flag;
        match decided.is_some_and(|decided| is_meant(&decided)) {
            true => Ok("avfs undo".to_owned()),
            false => Ok(format!("avfs undo --vault {}", vault.name()?)),
        }
    }

    /// The decision itself, or the several tasks between which the user has to decide.
    pub fn decide(&self, store: &Store) -> agentvfs::Result<Option<Decided>> {
        let here = store.here(&working_directory())?;
        let named = |reason: Reason| match self.settings.vault() {
            Some(name) => Ok(Some(Decided { vault: here.vault(name)?, reason })),
            None => Ok(None),
        };
        let user_file = match self.settings.get(Key::Vault).origin.clone() {
            Origin::Flag => return named(Reason::Flag),
            Origin::Environment { variable } => return named(Reason::Environment(variable)),
            Origin::ProjectFile { file, .. } => return named(Reason::ProjectFile(file)),
            Origin::UserFile { file, .. } => Some(file),
            Origin::Default => None,
        };
        let chosen = match self.settings.vault() {
            Some(name) => Some(name.to_owned()),
            None => store.current_vault()?,
        };
        match here.meant(chosen.as_deref())? {
            Some(Meant::Mounted { vault, at }) => {
                return Ok(Some(Decided { vault, reason: Reason::Mount(at) }));
            }
            Some(Meant::Task { task, is_only }) => {
                let root = task.root().to_owned();
                let reason = if is_only { Reason::OnlyTask(root) } else { Reason::ChosenTask(root) };
                return Ok(Some(Decided { vault: task.vault().clone(), reason }));
            }
            None => {}
        }
        let Some(name) = chosen.filter(|name| !is_elsewhere(store, &here, name)) else { return Ok(None) };
        let reason = user_file.map_or(Reason::Chosen, Reason::UserFile);
        Ok(Some(Decided { vault: here.vault(&name)?, reason }))
    }

    /// What names mean in the working directory.
    pub fn here(&mut self) -> Result<Here> {
        Ok(self.task_store()?.here(&working_directory())?)
    }

    /// The task that a command is about: the one that is named, or the only one of this project. Where there are
    /// several, the user is asked on a terminal.
    pub fn task(&mut self, name: Option<&str>) -> Result<Task> {
        let here = self.here()?;
        match here.task_or_only(name) {
            Err(several @ Error::SeveralTasks { .. }) => {
                let chosen = self.store()?.current_vault()?;
                if let Ok(Some(Meant::Task { task, .. })) = here.meant(chosen.as_deref()) {
                    return Ok(*task);
                }
                match self.ask_for_task(&here)? {
                    Some(task) => Ok(task),
                    None => Err(several.into()),
                }
            }
            found => Ok(found?),
        }
    }

    /// The task and the paths in it that a command is about: `TASK PATH…`, where the task may be left out. A first
    /// word that names no task is a path if the only task has it, or had it when it began.
    pub fn task_and_paths(
        &mut self,
        first: Option<&OsStr>,
        rest: &[TreePath],
    ) -> Result<(Task, Vec<TreePath>)> {
        let Some(first) = first else { return Ok((self.task(None)?, rest.to_vec())) };
        let here = self.here()?;
        let unknown = match here.task(&first.to_string_lossy()) {
            Err(unknown @ Error::UnknownTask { .. }) => unknown,
            found => return Ok((found?, rest.to_vec())),
        };
        let Ok(path) = TreePath::parse(first.as_bytes()) else { return Err(unknown.into()) };
        let task = match here.only_task() {
            Ok(task) if has_path(&task, &path)? => task,
            Ok(_) | Err(Error::NoTask { .. } | Error::NoProject { .. } | Error::SeveralTasks { .. }) => {
                return Err(unknown.into());
            }
            Err(error) => return Err(error.into()),
        };
        Ok((task, [path].into_iter().chain(rest.iter().cloned()).collect()))
    }

    /// Asks which of the tasks of this project is meant, where somebody can answer.
    fn ask_for_task(&self, here: &Here) -> Result<Option<Task>> {
        if self.out.is_json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        let mut tasks = here.tasks()?;
        let width = tasks.iter().map(|task| task.name().as_str().chars().count()).max().unwrap_or(0);
        for (number, task) in (1..).zip(&tasks) {
            let age = Age { then: task.created(), now: now() };
            let command = crate::escape::printable_line(task.command().as_bytes());
            writeln!(io::stderr(), "{number:>3}  {:<width$}  {age}  {command}", task.name())?;
        }
        write!(io::stderr(), "Which task? [1-{}] ", tasks.len())?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        let answer = answer.trim();
        let chosen = tasks.iter().position(|task| task.name().as_str() == answer);
        let counted = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let chosen = chosen.or(counted).filter(|at| *at < tasks.len());
        Ok(chosen.map(|at| tasks.swap_remove(at)))
    }
}

/// Whether a vault is the task of a project, and this directory belongs to another one: there, nobody means it who does not
/// say so.
fn is_elsewhere(store: &Store, here: &Here, name: &str) -> bool {
    let Ok(task) = store.task(name) else { return false };
    project_around(store, here).is_some_and(|root| root != task.root())
}

/// Where the project begins that a directory belongs to: a known one, or a git repository.
fn project_around(store: &Store, here: &Here) -> Option<PathBuf> {
    let is_repository = |root: &PathBuf| root.join(".git").exists();
    let project = here.project().map(|project| project.root().to_owned());
    project.or_else(|| store.project_root(here.directory()).ok().filter(is_repository))
}

/// The directory that the command is typed in. One that was deleted belongs to nothing.
pub fn working_directory() -> PathBuf {
    let exists = |path: &PathBuf| path.is_dir();
    std::env::current_dir().ok().filter(exists).unwrap_or_else(|| Path::new("/").to_owned())
}

/// Where a command on a vault starts if nobody says: in the directory that it is typed in, if the vault is a copy of a
/// directory above and has it too.
pub fn start_directory(vault: &Vault) -> Result<Option<PathBuf>> {
    let Some(root) = vault.own_path()? else { return Ok(None) };
    let here = working_directory().canonicalize().unwrap_or_default();
    let Some(below) = here.strip_prefix(&root).ok().filter(|below| !below.as_os_str().is_empty()) else {
        return Ok(None);
    };
    let found = TreePath::parse(below.as_os_str().as_encoded_bytes())
        .ok()
        .is_some_and(|path| vault.reader().is_ok_and(|reader| reader.find(&path).is_ok()));
    Ok(found.then(|| below.to_owned()))
}

fn has_path(task: &Task, path: &TreePath) -> Result<bool> {
    for state in [task.head()?, task.base()?] {
        if task.vault().reader_at(state)?.find(path).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Commands about vaults take the name of one by a flag.
fn several_tasks(several: &Error) -> Failure {
    let hint = "name one with --vault TASK, or choose one with `avfs vault use TASK`";
    Failure::new(several.code(), ExitStatus::BadInput, several).hint(Some(hint.to_owned()))
}
