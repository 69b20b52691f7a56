//! What a command works on, by the directory that it is typed in.

use std::ffi::OsStr;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agentvfs::{Error, Here, Task, TreePath};
use anyhow::Result;

use crate::context::Context;
use crate::time::{Age, now};

impl Context<'_> {
    /// What names mean in the working directory.
    pub fn here(&mut self) -> Result<Here> {
        Ok(self.task_store()?.here(&working_directory())?)
    }

    /// The task that a command is about: the one that is named, or the only one of this project. Where there are
    /// several, the user is asked on a terminal.
    pub fn task(&mut self, name: Option<&str>) -> Result<Task> {
        let here = self.here()?;
        match here.task_or_only(name) {
            Err(several @ Error::SeveralTasks { .. }) => match self.ask_for_task(&here)? {
                Some(task) => Ok(task),
                None => Err(several.into()),
            },
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
    fn ask_for_task(&mut self, here: &Here) -> Result<Option<Task>> {
        if self.out.is_json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        self.out.flush()?;
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

/// The directory that the command is typed in. One that was deleted belongs to nothing.
pub fn working_directory() -> PathBuf {
    let exists = |path: &PathBuf| path.is_dir();
    std::env::current_dir().ok().filter(exists).unwrap_or_else(|| Path::new("/").to_owned())
}

fn has_path(task: &Task, path: &TreePath) -> Result<bool> {
    for state in [task.head()?, task.base()?] {
        if task.vault().reader_at(state)?.find(path).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}
