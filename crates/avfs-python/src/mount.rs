//! A vault as a directory of this machine, for as long as this process says.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agentvfs::mount::{MountOptions, MountService, UnmountMode, VaultMount};
use pyo3::prelude::*;

use crate::errors::detached;
use crate::forked::OwnProcess;
use crate::vault::Vault;

/// A mount that this process has made.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct Mount(OwnProcess<Mutex<Option<Mounted>>>);

struct Mounted {
    vault: agentvfs::Vault,
    directory: PathBuf,
    /// Nothing, if another owner of the vault serves it.
    service: Option<Box<MountService>>,
}

#[pymethods]
impl Mount {
    /// Mounts a vault at a directory that is there and empty.
    #[new]
    fn new(py: Python<'_>, vault: &Vault, directory: PathBuf, read_only: bool) -> PyResult<Mount> {
        let vault = vault.library(py)?.clone();
        detached(py, || {
            let options = MountOptions {
                read_only,
                ..MountOptions::default()
            };
            let service = match vault.mount(&directory, &options, Arc::new(|_| ()))? {
                VaultMount::Here(service) => Some(service),
                VaultMount::ByOwner { .. } => None,
            };
            Ok(Mount(OwnProcess::new(Mutex::new(Some(Mounted {
                vault,
                directory,
                service,
            })))))
        })
    }

    /// Ends it. One that programs use stays, unless `force`.
    fn unmount(&self, py: Python<'_>, force: bool) -> PyResult<()> {
        let how = if force {
            UnmountMode::Force
        } else {
            UnmountMode::IfUnused
        };
        self.0.detached(py, |mounted| {
            let mut mounted = mounted.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(Mounted {
                vault,
                directory,
                service,
            }) = mounted.take()
            else {
                return Ok(());
            };
            let Some(service) = service else {
                vault.ask_owner(|owner| owner.unmount(&directory, how))?;
                return Ok(());
            };
            if let Err(error) = service.unmount(&directory, how) {
                *mounted = Some(Mounted {
                    vault,
                    directory,
                    service: Some(service),
                });
                return Err(error);
            }
            service.close().map(drop)
        })
    }
}
