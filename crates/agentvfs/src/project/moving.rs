//! A project whose directory has another path now: everything that names the old one names the new one.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_store::RefEdit;

use super::{Project, canonical, hex, shown};
use crate::apply::ApplyError;
use crate::error::{Error, ProjectError, Result};
use crate::project::Projects;
use crate::record::{self, ProjectRecord, key};
use crate::task::Task;
use crate::vault::Vault;

/// From where to where a directory was moved, with everything below it.
#[derive(Clone, Debug)]
pub(crate) struct Relocation {
    from: PathBuf,
    to: PathBuf,
}

impl Relocation {
    /// Where a path is now, if it was moved along.
    pub(crate) fn new_place(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.from).ok()?;
        // Joining an empty path would leave a `/` at the end.
        let is_top = below.as_os_str().is_empty();
        Some(if is_top {
            self.to.clone()
        } else {
            self.to.join(below)
        })
    }
}

/// How certain it is that a directory is one that was elsewhere before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// It is the same directory: it has the same inode.
    SameDirectory,
    /// It is a repository that has the commit with which a task began.
    SameRepository,
    /// Nothing says so.
    Unknown,
}

impl Projects<'_> {
    /// The project whose directory is missing, and whose directory this one was before it was renamed or
    /// moved.
    pub fn moved_here(&self, directory: &Path) -> Result<Option<Project>> {
        let directory = canonical(directory)?;
        for project in self.missing()? {
            if self.was_source_at(project.root(), &directory)? {
                return Ok(Some(project));
            }
        }
        Ok(None)
    }

    /// Fails if the directory of which a vault is a copy is missing: programs in it would get I/O errors for files
    /// that have not been read before.
    pub fn check_directory_of(&self, vault: &Vault) -> Result<()> {
        let missing = match vault.own_path()? {
            Some(directory) => self.missing_around(&directory)?,
            None => None,
        };
        missing.map_or(Ok(()), |project| Err(project.missing()))
    }

    /// The projects whose directories are missing, by their directories.
    pub fn missing(&self) -> Result<Vec<Project>> {
        let mut projects = self.list()?;
        projects.retain(Project::is_missing);
        Ok(projects)
    }

    /// The project that a path which does not exist belonged to.
    pub fn missing_around(&self, path: &Path) -> Result<Option<Project>> {
        if path.exists() {
            return Ok(None);
        }
        for above in path.ancestors() {
            if let Some(project) = self.project_at(above)?.filter(Project::is_missing) {
                return Ok(Some(project));
            }
        }
        Ok(None)
    }
}

impl Project {
    /// Whether its directory was renamed, moved or deleted.
    pub fn is_missing(&self) -> bool {
        !self.root.is_dir()
    }

    pub(crate) fn missing(&self) -> Error {
        Error::Project(ProjectError::Missing {
            directory: shown(&self.root),
        })
    }

    /// How certain it is that its directory is this one now.
    pub fn likeness(&self, directory: &Path) -> Result<Likeness> {
        if self
            .store
            .projects()
            .was_source_at(&self.root, &canonical(directory)?)?
        {
            return Ok(Likeness::SameDirectory);
        }
        let tasks = self.tasks()?;
        let is_repository = tasks.iter().any(|task| task.git().began_in_repository(directory));
        Ok(if is_repository {
            Likeness::SameRepository
        } else {
            Likeness::Unknown
        })
    }

    /// Moves the project to another directory, with its tasks, its applies and the data that they keep for
    /// undo. Nothing on the host is changed. Fails while the old directory exists, while something runs in a
    /// task, and if the new directory is a project with tasks of its own.
    pub fn move_to(self, directory: &Path) -> Result<Project> {
        let root = canonical(directory)?;
        self.store.projects().check_place(&root)?;
        if !root.is_dir() {
            return Err(ApplyError::NotADirectory { path: root }.into());
        }
        if !self.is_missing() && canonical(&self.root)? != root {
            return Err(Error::Project(ProjectError::NotMoved {
                directory: shown(&self.root),
            }));
        }
        if root == self.root {
            return Ok(self);
        }
        self.check_nothing_runs()?;
        if let Some(other) = self.store.projects().project_at(&root)? {
            if !other.tasks()?.is_empty() {
                return Err(Error::Project(ProjectError::Exists {
                    directory: shown(&root),
                }));
            }
            other.forget(false)?;
        }
        let relocation = Relocation {
            from: self.root.clone(),
            to: root.clone(),
        };
        let record = self
            .store
            .applies()
            .with_kept_applies_moved(&relocation, || self.rename_in_records(&relocation))?;
        Ok(Project {
            store: self.store,
            root,
            record,
        })
    }

    fn check_nothing_runs(&self) -> Result<()> {
        let mut running = Vec::new();
        for task in self.tasks()? {
            if task.is_running()? {
                running.push(task.name().to_string());
            }
        }
        if running.is_empty() {
            Ok(())
        } else {
            Err(Error::Project(ProjectError::Running {
                directory: shown(&self.root),
                tasks: running,
            }))
        }
    }

    /// All records in one commit: whatever happens, none of them names a directory that the others do not know.
    fn rename_in_records(&self, relocation: &Relocation) -> Result<ProjectRecord> {
        let Relocation { from, to } = relocation;
        let detail = format!("{} to {}", shown(from), shown(to));
        self.store.retry(|edits| {
            let (record, bytes) = self.record()?;
            let moved = ProjectRecord {
                root: hex(to),
                ..record
            };
            edits.push(RefEdit::delete(key::project(self.path_bytes()), bytes));
            edits.push(RefEdit::create(
                key::project(to.as_os_str().as_bytes()),
                record::encode(&moved),
            ));
            for task in self.tasks()? {
                edits.extend(moved_task(&task, relocation, &detail)?);
            }
            self.store.projects().move_sources(edits, relocation)?;
            self.store.applies().move_applies(edits, relocation)?;
            let vault = self
                .vault()
                .name()
                .map(|name| name.to_string())
                .unwrap_or_default();
            self.store.log(edits, "move project", &vault, detail.clone())?;
            Ok(moved)
        })
    }
}

/// The edits after which it belongs to a directory with another path.
fn moved_task(task: &Task, relocation: &Relocation, detail: &str) -> Result<[RefEdit; 2]> {
    let vault = task.vault();
    let (mut record, bytes) = vault.record()?;
    if let Some(of_task) = &mut record.task {
        of_task.root = hex(&relocation.to);
        if let Some(made) = &mut of_task.made {
            made.relocate(relocation);
        }
    }
    let audit = vault.audit_edit(&mut record, &vault.logged("move project", detail, None), None);
    Ok([
        audit,
        RefEdit::replace(key::vault(vault.id()), bytes, record::encode(&record)),
    ])
}
