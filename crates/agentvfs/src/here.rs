//! What names mean in the place where they are typed.
//!
//! Names of tasks are unique in their project only. A task is named by its own name in the directory of its project,
//! and by `PROJECT/TASK`, the name of its vault, everywhere. Tasks of older stores have vaults without a project
//! before their name, and are found by it everywhere.

use std::path::{Path, PathBuf};

use avfs_core::printable;

use crate::error::{Error, Result};
use crate::mounts::KnownMount;
use crate::name::closest;
use crate::project::{Project, canonical};
use crate::store::Store;
use crate::task::Task;
use crate::vault::Vault;

/// What a directory says about the vault that is meant where none is named.
#[allow(clippy::large_enum_variant, reason = "one is made for a command")]
pub enum Meant {
    /// The directory is in a mount of it.
    Mounted { vault: Vault, at: PathBuf },
    /// The only task of the project, or the one of them that was chosen.
    Task { task: Box<Task>, is_only: bool },
}

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
            _ => Err(several(&tasks)),
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

    /// The vault that is meant here where none is named, if the directory says anything about it. `chosen` is the one
    /// that the user has chosen for all directories: it decides among several tasks, if it is one of them.
    pub fn meant(&self, chosen: Option<&str>) -> Result<Option<Meant>> {
        if let Some((vault, at)) = self.mounted()? {
            return Ok(Some(Meant::Mounted { vault, at }));
        }
        let mut tasks = self.tasks()?;
        if tasks.len() < 2 {
            return Ok(tasks.pop().map(|task| Meant::Task { task: Box::new(task), is_only: true }));
        }
        match tasks.iter().position(|task| chosen == Some(task.vault_name().as_str())) {
            Some(at) => Ok(Some(Meant::Task { task: Box::new(tasks.swap_remove(at)), is_only: false })),
            None => Err(several(&tasks)),
        }
    }

    /// The vault whose mount the directory is in, and where that is.
    fn mounted(&self) -> Result<Option<(Vault, PathBuf)>> {
        if !is_in_fuse(&self.directory) {
            return Ok(None);
        }
        let holds = |mount: &KnownMount| self.directory.starts_with(&mount.mount.dir);
        let innermost = self.store.mounts()?.into_iter().filter(holds);
        let innermost = innermost.max_by_key(|mount| mount.mount.dir.as_os_str().len());
        innermost.map(|mount| Ok((self.store.vault(mount.vault.as_str())?, mount.mount.dir))).transpose()
    }

    /// Whether something that was applied to a directory was done here: the user is in it, and it is not around the
    /// project.
    pub fn is_here(&self, directory: &Path) -> bool {
        let root = self.project.as_ref().map(Project::root);
        self.directory.starts_with(directory) && root.is_none_or(|root| directory.starts_with(root))
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

fn several(tasks: &[Task]) -> Error {
    Error::SeveralTasks { names: tasks.iter().map(|task| task.name().to_string()).collect() }
}

/// Whether a directory is in a FUSE mount, of whatever kind: only then are our mounts looked at.
fn is_in_fuse(directory: &Path) -> bool {
    const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;
    rustix::fs::statfs(directory).is_ok_and(|found| found.f_type == FUSE_SUPER_MAGIC)
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
