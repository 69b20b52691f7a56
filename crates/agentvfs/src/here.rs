//! The meaning of names in a directory.
//!
//! Names of tasks are unique in their project only. A task is named by its own name in the directory of its project,
//! and by `PROJECT/TASK`, the name of its vault, everywhere. Tasks of older stores have vaults without a project
//! before their name, and are found by it everywhere.

use std::path::{Path, PathBuf};

use avfs_core::printable;

use crate::error::{Error, ProjectError, Result, TaskError, VaultError};
use crate::mounts::KnownMount;
use crate::name::closest;
use crate::project::Projects;
use crate::project::{Project, canonical};
use crate::store::Store;
use crate::task::Task;
use crate::vault::Vault;

/// The vault that a directory suggests if none is named.
#[allow(clippy::large_enum_variant, reason = "one is made for a command")]
pub enum Meant {
    /// The directory is in a mount of it.
    Mounted {
        /// The vault.
        vault: Vault,
        /// The mount point.
        at: PathBuf,
    },
    /// The only task of the project, or the one of them that was chosen.
    Task {
        /// The task.
        task: Box<Task>,
        /// The project has no other one.
        is_only: bool,
    },
}

/// A directory of the host, and the project that it belongs to.
#[derive(Clone)]
pub struct Here {
    store: Store,
    directory: PathBuf,
    project: Option<Project>,
}

impl Projects<'_> {
    /// The meaning of names in a directory.
    pub fn here(&self, directory: &Path) -> Result<Here> {
        let project = self.find(directory)?;
        Ok(Here {
            store: self.store.clone(),
            directory: canonical(directory)?,
            project,
        })
    }
}

impl Here {
    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The project that the directory belongs to, if one is known.
    pub fn project(&self) -> Option<&Project> {
        self.project.as_ref()
    }

    /// The tasks of the project, oldest first; none if there is no project.
    pub fn tasks(&self) -> Result<Vec<Task>> {
        self.project
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), Project::tasks)
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
        let Some(project) = &self.project else {
            return Err(Error::Project(ProjectError::NoneHere {
                directory: directory(),
            }));
        };
        let mut tasks = project.tasks()?;
        match tasks.len() {
            1 => Ok(tasks.remove(0)),
            0 => Err(Error::Task(TaskError::NoneHere {
                directory: printable(project.root().as_os_str().as_encoded_bytes()),
            })),
            _ => Err(several(&tasks)),
        }
    }

    /// The task with this name: one of the project, or one that is named in full. Without a project, the
    /// task's own name is sufficient if it is unique.
    pub fn task(&self, name: &str) -> Result<Task> {
        if let Some(task) = self
            .project
            .as_ref()
            .map(|project| project.task(name))
            .transpose()?
            .flatten()
        {
            return Ok(task);
        }
        if self.store.has_vault(name)? {
            return self.store.task(name);
        }
        let all = self.store.tasks().list()?;
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
            return Err(Error::Task(TaskError::Unknown {
                similar: self.similar(&name, &all),
                name,
            }));
        }
        Err(Error::Task(TaskError::Elsewhere {
            name,
            known: alike.iter().map(|task| task.vault_name().to_string()).collect(),
        }))
    }

    /// The vault that is meant here if none is named, if the directory suggests one. `chosen` is the one that
    /// the user has chosen for all directories: it decides among several tasks, if it is one of them.
    pub fn meant(&self, chosen: Option<&str>) -> Result<Option<Meant>> {
        if let Some((vault, at)) = self.mounted()? {
            return Ok(Some(Meant::Mounted { vault, at }));
        }
        let mut tasks = self.tasks()?;
        if tasks.len() < 2 {
            return Ok(tasks.pop().map(|task| Meant::Task {
                task: Box::new(task),
                is_only: true,
            }));
        }
        match tasks
            .iter()
            .position(|task| chosen == Some(task.vault_name().as_str()))
        {
            Some(at) => Ok(Some(Meant::Task {
                task: Box::new(tasks.swap_remove(at)),
                is_only: false,
            })),
            None => Err(several(&tasks)),
        }
    }

    /// The vault whose mount contains the directory, and the mount point.
    fn mounted(&self) -> Result<Option<(Vault, PathBuf)>> {
        if !is_in_fuse(&self.directory) {
            return Ok(None);
        }
        let holds = |mount: &KnownMount| self.directory.starts_with(&mount.mount.dir);
        let innermost = self.store.mounts().list()?.into_iter().filter(holds);
        let innermost = innermost.max_by_key(|mount| mount.mount.dir.as_os_str().len());
        innermost
            .map(|mount| Ok((self.store.vault(mount.vault.as_str())?, mount.mount.dir)))
            .transpose()
    }

    /// Whether an apply to a directory was done here: the user is in that directory, and it is not above the
    /// project.
    pub fn is_here(&self, directory: &Path) -> bool {
        let root = self.project.as_ref().map(Project::root);
        self.directory.starts_with(directory) && root.is_none_or(|root| directory.starts_with(root))
    }

    /// The name of a task in this directory: its own name if that is sufficient.
    pub fn name_of(&self, task: &Task) -> String {
        match &self.project {
            Some(project) if project.root() == task.root() => task.name().to_string(),
            Some(_) | None => task.vault_name().to_string(),
        }
    }

    /// The vault with this name. The name of a task of the project is enough where no vault is called so; a name
    /// after `/` is not that of a task.
    pub fn vault(&self, name: &str) -> Result<Vault> {
        if let Some(alone) = name.strip_prefix('/') {
            return self.store.vault(alone);
        }
        match self.store.vault(name) {
            Err(unknown @ Error::Vault(VaultError::Unknown { .. })) => match self.task(name) {
                Ok(task) => Ok(task.vault().clone()),
                Err(elsewhere @ Error::Task(TaskError::Elsewhere { .. })) => Err(elsewhere),
                Err(_) => Err(unknown),
            },
            found => found,
        }
    }

    /// The same for a name that decides alone what a command changes: it must not be both that of a vault and that
    /// of a task of the project.
    pub fn only_vault(&self, name: &str) -> Result<Vault> {
        let vault = self.vault(name)?;
        match self.task_named_like(name)? {
            Some(task) if task.vault().id() != vault.id() => Err(Error::Vault(VaultError::Ambiguous {
                name: name.to_owned(),
                task: task.vault_name().to_string(),
            })),
            _ => Ok(vault),
        }
    }

    /// The name of a vault that means nothing else in this directory.
    pub fn full_name(&self, vault: &Vault) -> Result<String> {
        let name = vault.name()?;
        match self.task_named_like(name.as_str())? {
            Some(task) if task.vault().id() != vault.id() => Ok(format!("/{name}")),
            _ => Ok(name.to_string()),
        }
    }

    fn task_named_like(&self, name: &str) -> Result<Option<Task>> {
        let Some(project) = &self.project else {
            return Ok(None);
        };
        project.task(name)
    }

    /// A name that could be meant: one of this project, if there is one.
    fn similar(&self, name: &str, all: &[Task]) -> Option<String> {
        let root = self.project.as_ref().map(Project::root);
        let near = all
            .iter()
            .filter(|task| root.is_none_or(|root| task.root() == root));
        closest(name, near.map(|task| task.name().as_str()))
    }
}

fn several(tasks: &[Task]) -> Error {
    Error::Task(TaskError::Several {
        names: tasks.iter().map(|task| task.name().to_string()).collect(),
    })
}

/// Whether a directory is in a FUSE mount of any kind: only then are our mounts examined.
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
    fn a_project_whose_vault_is_lost_gets_another_one() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::open(&place.path().join("store")).unwrap();
        let web = place.path().join("web");
        std::fs::create_dir(&web).unwrap();
        let named = |name: &str| NewTask {
            name: Some(TaskName::new(name).unwrap()),
            ..NewTask::default()
        };
        let project = store.project(&web).unwrap();
        project.new_task(&named("fix")).unwrap();
        // Earlier versions deleted it like any other.
        project.vault().remove(true).unwrap();
        let here = store.projects().here(&web).unwrap();
        assert_eq!(here.task("fix").unwrap().vault_name().as_str(), "web/fix");
        let next = store.project(&web).unwrap().new_task(&named("next")).unwrap();
        assert_eq!(next.vault_name().as_str(), "web/next");
        assert_eq!(
            store.project(&web).unwrap().vault().name().unwrap().as_str(),
            "web"
        );
    }

    #[test]
    fn a_task_of_an_older_store_is_found_by_the_name_of_its_vault() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::open(&place.path().join("store")).unwrap();
        let [web, api] = ["web", "api"].map(|name| place.path().join(name));
        let fix = NewTask {
            name: Some(TaskName::new("fix").unwrap()),
            ..NewTask::default()
        };
        [&web, &api]
            .iter()
            .for_each(|directory| std::fs::create_dir(directory).unwrap());
        let task = store.project(&web).unwrap().new_task(&fix).unwrap();
        store.project(&api).unwrap();
        // Older versions put no project before the name.
        task.vault().rename_to(&VaultName::new("fix").unwrap()).unwrap();
        for directory in [&web, &api] {
            let found = store.projects().here(directory).unwrap().task("fix").unwrap();
            assert_eq!(
                (found.vault().id(), found.name().as_str()),
                (task.vault().id(), "fix")
            );
        }
        assert_eq!(
            store
                .projects()
                .here(&web)
                .unwrap()
                .only_task()
                .unwrap()
                .vault_name()
                .as_str(),
            "fix"
        );
        let refused = store.project(&web).unwrap().new_task(&fix).err().unwrap();
        assert_eq!(refused.code(), "task-exists");
    }
}
