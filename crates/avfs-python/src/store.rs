//! Stores, and the vaults in them.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

use agentvfs::git::{GitRevision, GitSource};
use agentvfs::transfer::ImageSource;
use agentvfs::{Actor, ImageOptions, NewTask, StoreOptions, TaskName, VaultLimits, VaultName};
use pyo3::prelude::*;

use crate::errors::{detached, of_parent};
use crate::forked::OwnProcess;
use crate::paths::shown;
use crate::rules::{RuleText, parse};
use crate::vault::{Vault, VaultInfo};

/// A directory of this machine in which vaults live.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct Store(OwnProcess<agentvfs::Store>);

impl Store {
    pub fn library(&self, py: Python<'_>) -> PyResult<&agentvfs::Store> {
        self.0.get().ok_or_else(|| of_parent(py))
    }
}

#[pymethods]
impl Store {
    /// Opens the store in a directory, and makes it if there is none.
    #[new]
    fn new(py: Python<'_>, home: PathBuf, actor: Option<String>) -> PyResult<Store> {
        let user = Actor::of_process();
        let options = StoreOptions {
            actor: match actor {
                Some(name) => user.named(name),
                None => user,
            },
            ..StoreOptions::default()
        };
        detached(py, || {
            let store = agentvfs::Store::open_with(&home, options)?;
            // What a killed process left mounted is gone before anybody looks.
            store.clear_away_runs();
            store.recover_applies()?;
            Ok(Store(OwnProcess::new(store)))
        })
    }

    /// A new task on a directory, through these rules: instant, because nothing is copied.
    fn new_task(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        name: Option<String>,
        rules: Option<Vec<RuleText>>,
    ) -> PyResult<Vault> {
        self.0.detached(py, |store| {
            let new = NewTask {
                name: name.as_deref().map(TaskName::new).transpose()?,
                command: "python".to_owned(),
                rules: rules.map(|lines| parse(&lines)).transpose()?,
                ..NewTask::default()
            };
            let directory = std::path::absolute(&directory).unwrap_or(directory);
            let task = store.project(&directory)?.new_task(&new)?;
            Ok(Vault::new(task.vault().clone()))
        })
    }

    /// An empty vault.
    fn create_vault(&self, py: Python<'_>, name: &str) -> PyResult<Vault> {
        self.0.detached(py, |store| {
            Ok(Vault::new(store.create_vault(&VaultName::new(name)?)?))
        })
    }

    /// A vault with a copy of a directory of this machine.
    fn create_vault_from(&self, py: Python<'_>, name: &str, directory: PathBuf) -> PyResult<Vault> {
        self.0.detached(py, |store| {
            let name = VaultName::new(name)?;
            let made = store.create_vault_from(&name, &directory, VaultLimits::default(), &());
            Ok(Vault::new(made?.0))
        })
    }

    /// A vault with the files of a commit.
    fn create_vault_from_git(
        &self,
        py: Python<'_>,
        name: &str,
        repository: PathBuf,
        revision: String,
    ) -> PyResult<Vault> {
        self.0.detached(py, |store| {
            let source = GitSource { repository, revision };
            let name = VaultName::new(name)?;
            let made =
                store.create_vault_from_git(&name, &GitRevision::open(&source)?, VaultLimits::default(), &());
            Ok(Vault::new(made?.0))
        })
    }

    /// The vault, or the task, with this name.
    fn vault(&self, py: Python<'_>, name: &str) -> PyResult<Vault> {
        self.0.detached(py, |store| Ok(Vault::new(store.vault(name)?)))
    }

    fn has_vault(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.0.detached(py, |store| store.has_vault(name))
    }

    fn vaults(&self, py: Python<'_>) -> PyResult<Vec<VaultInfo>> {
        let list = self.0.detached(py, |store| store.vaults())?;
        Ok(list.vaults.into_iter().map(VaultInfo::from).collect())
    }

    /// A vault from a file that `export_bundle` wrote.
    fn import_bundle(&self, py: Python<'_>, file: PathBuf, name: Option<&str>) -> PyResult<Vault> {
        self.0.detached(py, |store| {
            let name = name.map(VaultName::new).transpose()?;
            let place = file.display().to_string();
            let mut input = File::open(&file).map_err(|source| agentvfs::Error::Host {
                action: "opening",
                place: place.clone(),
                source,
            })?;
            let made = store.import_bundle(&mut input, &place, name.as_ref(), &mut |_| ());
            Ok(Vault::new(made?.0))
        })
    }

    /// An image from an archive or a directory.
    fn import_image(&self, py: Python<'_>, place: PathBuf, name: Option<&str>) -> PyResult<Vault> {
        self.0.detached(py, |store| {
            let shown = place.display().to_string();
            let opened = || -> std::io::Result<ImageSource<'_>> {
                let file = File::open(&place)?;
                Ok(if file.metadata()?.is_dir() {
                    ImageSource::Directory(&place)
                } else {
                    ImageSource::File(file)
                })
            };
            let source = opened().map_err(|source| agentvfs::Error::Host {
                action: "opening",
                place: shown.clone(),
                source,
            })?;
            let options = ImageOptions {
                name: name.map(VaultName::new).transpose()?,
                ..ImageOptions::default()
            };
            let made = store.images().import(source, &shown, &options, &());
            Ok(Vault::new(made?.0))
        })
    }

    /// Removes what nothing needs any more. Returns how many bytes that were.
    fn collect_garbage(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.detached(py, |store| {
            let collected = store.collect_garbage(&mut |_| true)?;
            Ok(collected.sweep.freed_bytes)
        })
    }

    /// Takes an apply back. Returns the paths that were changed.
    fn undo_apply(&self, py: Python<'_>, id: u64, force: bool) -> PyResult<Vec<OsString>> {
        self.0.detached(py, |store| {
            let undone = store.undo_apply(agentvfs::apply::ApplyId(id), force)?;
            Ok(undone.files.iter().map(|file| shown(&file.path)).collect())
        })
    }
}
