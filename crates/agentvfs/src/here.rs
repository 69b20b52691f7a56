//! What names mean in the place where they are typed.
//!
//! Names of tasks are unique in their project only. A task is named by its own name in the directory of its project,
//! and by `PROJECT/TASK`, the name of its vault, everywhere. Tasks of older stores have vaults without a project
//! before their name, and are found by it everywhere.

use std::path::{Path, PathBuf};

use avfs_core::printable;

use crate::error::{Error, Result};
use crate::name::closest;
use crate::project::{Project, canonical};
use crate::store::Store;
use crate::task::Task;
use crate::vault::Vault;

/// A directory of the host, and the project that it belongs to.
#[derive(Clone)]
pub struct Here {
    store: Store,
    directory: PathBuf,
    project: Option<Project>,
}

impl Store {
    /// What names mean in a directory.
    pub fn here(&self, directory: &Path) -> Result<Here> {
        let project = self.find_project(directory)?;
        Ok(Here { store: self.clone(), directory: canonical(directory)?, project })
    }
}

impl Here {
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The project that the directory belongs to, if one is known.
    pub fn project(&self) -> Option<&Project> {
        self.project.as_ref()
    }

    /// The tasks of the project, oldest first; none if there is no project.
    pub fn tasks(&self) -> Result<Vec<Task>> {
        self.project.as_ref().map_or_else(|| Ok(Vec::new()), Project::tasks)
    }

    /// The task with this name, or the only one of the project.
    pub fn task_or_only(&self, name: Option<&str>) -> Result<Task> {
        match name {
            Some(name) => self.task(name),
            None => self.only_task(),
        }
    }

    /// The only task of the project.
    pub fn only_task(&self) -> Result<Task> {
        let directory = || printable(self.directory.as_os_str().as_encoded_bytes());
        let Some(project) = &self.project else { return Err(Error::NoProject { directory: directory() }) };
        let mut tasks = project.tasks()?;
        match tasks.len() {
            1 => Ok(tasks.remove(0)),
            0 => Err(Error::NoTask { directory: printable(project.root().as_os_str().as_encoded_bytes()) }),
            _ => {
                Err(Error::SeveralTasks { names: tasks.iter().map(|task| task.name().to_string()).collect() })
            }
        }
    }

    /// The task with this name: one of the project, or one that is named in full. Where there is no project, the own
    /// name is enough if only one task has it.
    pub fn task(&self, name: &str) -> Result<Task> {
        if let Some(task) = self.project.as_ref().map(|project| project.task(name)).transpose()?.flatten() {
            return Ok(task);
        }
        if self.store.has_vault(name)? {
            return self.store.task(name);
        }
        let all = self.store.tasks()?;
        let alike: Vec<&Task> = all.iter().filter(|task| task.name().as_str() == name).collect();
        // A project that was renamed by a process that died may have tasks with its old name.
        let root = self.project.as_ref().map(Project::root);
        if let Some(task) = alike.iter().find(|task| Some(task.root()) == root) {
            return Ok((*task).clone());
        }
        if let ([task], None) = (&alike[..], &self.project) {
            return Ok((*task).clone());
        }
        let name = printable(name.as_bytes());
        if alike.is_empty() {
            return Err(Error::UnknownTask { similar: self.similar(&name, &all), name });
        }
        Err(Error::TaskElsewhere {
            name,
            known: alike.iter().map(|task| task.vault_name().to_string()).collect(),
        })
    }

    /// What a task is called in this directory: by its own name where that is enough.
    pub fn name_of(&self, task: &Task) -> String {
        match &self.project {
            Some(project) if project.root() == task.root() => task.name().to_string(),
            Some(_) | None => task.vault_name().to_string(),
        }
    }

    /// The vault with this name. The name of a task of the project is enough where no vault is called so.
    pub fn vault(&self, name: &str) -> Result<Vault> {
        match self.store.vault(name) {
            Err(unknown @ Error::UnknownVault { .. }) => match self.task(name) {
                Ok(task) => Ok(task.vault().clone()),
                Err(elsewhere @ Error::TaskElsewhere { .. }) => Err(elsewhere),
                Err(_) => Err(unknown),
            },
            found => found,
        }
    }

    /// A name that could be meant: one of this project, if there is one.
    fn similar(&self, name: &str, all: &[Task]) -> Option<String> {
        let root = self.project.as_ref().map(Project::root);
        let near = all.iter().filter(|task| root.is_none_or(|root| task.root() == root));
        closest(name, near.map(|task| task.name().as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{TaskName, VaultName};
    use crate::task::NewTask;

    #[test]
    fn a_task_of_an_older_store_is_found_by_the_name_of_its_vault() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::open(&place.path().join("store")).unwrap();
        let [web, api] = ["web", "api"].map(|name| place.path().join(name));
        let fix = NewTask { name: Some(TaskName::new("fix").unwrap()), ..NewTask::default() };
        [&web, &api].iter().for_each(|directory| std::fs::create_dir(directory).unwrap());
        let task = store.project(&web).unwrap().new_task(&fix).unwrap();
        store.project(&api).unwrap();
        // Older versions put no project before the name.
        task.vault().rename_to(&VaultName::new("fix").unwrap()).unwrap();
        for directory in [&web, &api] {
            let found = store.here(directory).unwrap().task("fix").unwrap();
            assert_eq!((found.vault().id(), found.name().as_str()), (task.vault().id(), "fix"));
        }
        assert_eq!(store.here(&web).unwrap().only_task().unwrap().vault_name().as_str(), "fix");
        let refused = store.project(&web).unwrap().new_task(&fix).err().unwrap();
        assert_eq!(refused.code(), "task-exists");
    }
}
