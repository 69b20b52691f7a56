//! A vault as the directory of one run: mounted for it, through its rules, and gone with it.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use avfs_core::{EntryName, SnapshotId};
use avfs_tree::WorkTree;
use rustix::process::PidfdFlags;

use super::copied::Copied;
use crate::error::{Error, OwnerError, Result, VaultMountError};
use crate::mount::{self, MountError, MountOptions, MountService, OwnOrAsk, Report, UnmountMode};
use crate::open::OpenVault;
use crate::run_directory::RunDirectory;
use crate::source::FollowingPacks;
use crate::take_ahead::TakingAhead;
use crate::vault::Vault;

/// A run that ends within this time needs nothing from its source that it has not requested.
const SHORT: Duration = Duration::from_secs(1);

/// The work of this process after its run: it serves another run in the same vault, or a mount that was
/// created meanwhile, and finishes reading from a source. If the process ends earlier, they lose their files.
#[derive(Default)]
pub struct AfterRun {
    serving: Vec<JoinHandle<()>>,
}

impl AfterRun {
    /// Waits until this process is no longer needed.
    pub fn wait(self) {
        for thread in self.serving {
            // The users of a thread that panicked are gone.
            let _ = thread.join();
        }
    }

    fn serve(&mut self, mut service: MountService) {
        self.later(move || {
            service.await_last();
            // Changes that are not stored now are in the journal, for the next process that opens the vault.
            let _ = service.close();
        });
    }

    /// Runs work for which the caller need not wait.
    pub(crate) fn later(&mut self, work: impl FnOnce() + Send + 'static) {
        self.serving.push(std::thread::spawn(work));
    }
}

/// A vault whose mount for a run exists and is not served yet: processes that access it wait.
pub(crate) struct PreparedMount {
    vault: Vault,
    directory: RunDirectory,
    options: MountOptions,
    connection: OwnedFd,
}

impl PreparedMount {
    pub(crate) fn connect(
        vault: &Vault,
        directory: RunDirectory,
        options: MountOptions,
    ) -> Result<PreparedMount> {
        let connection = mount::connect(vault.name()?.as_str(), &directory.mountpoint(), &options)?;
        Ok(PreparedMount {
            vault: vault.clone(),
            directory,
            options,
            connection,
        })
    }

    pub(crate) fn mountpoint(&self) -> PathBuf {
        self.directory.mountpoint()
    }

    pub(crate) fn door_place(&self) -> PathBuf {
        self.directory.door()
    }

    /// Serves it. If another process has become the owner, it must be mounted again: returns whether
    /// processes that wait in the mount are served now.
    pub(crate) fn serve(self, report: &Report) -> Result<(MountedVault, bool)> {
        let PreparedMount {
            vault,
            directory,
            options,
            connection,
        } = self;
        match vault.open() {
            Ok(open) => {
                let workspace = MountedVault::own(&vault, open, directory, &options, report, connection)?;
                Ok((workspace, true))
            }
            Err(Error::Owner(OwnerError::Busy { .. })) => {
                drop(connection);
                mount::detach(&directory.mountpoint());
                Ok((MountedVault::mount(&vault, directory, &options, report)?, false))
            }
            Err(error) => {
                mount::detach(&directory.mountpoint());
                Err(error)
            }
        }
    }

    /// Takes the mount away again.
    pub(crate) fn give_up(self) {
        mount::detach(&self.mountpoint());
    }
}

/// A vault that is mounted for a run.
pub(crate) struct MountedVault {
    vault: Vault,
    serving: Serving,
    directory: RunDirectory,
}

/// The process that serves the mount.
enum Serving {
    /// This process, which owns the vault meanwhile.
    Us {
        service: Box<MountService>,
        ahead: TakingAhead,
        packs: Option<FollowingPacks>,
    },
    /// The process that owns the vault anyway. Readable when it has ended.
    Owner(Arc<OwnedFd>),
    /// None: it is a copy.
    Copy(Copied),
}

impl MountedVault {
    /// Mounts a vault. If it has no owner, this process becomes the owner until the end of the run, and
    /// serves other processes.
    pub(crate) fn mount(
        vault: &Vault,
        directory: RunDirectory,
        options: &MountOptions,
        report: &Report,
    ) -> Result<MountedVault> {
        match vault.mounts().own_or_ask(&directory.mountpoint(), options)? {
            OwnOrAsk::Own(open) => {
                let name = vault.name()?;
                let connection = mount::connect(name.as_str(), &directory.mountpoint(), options)?;
                MountedVault::own(vault, *open, directory, options, report, connection)
            }
            OwnOrAsk::Asked { pid } => Ok(MountedVault {
                vault: vault.clone(),
                serving: Serving::Owner(process(vault, pid)?),
                directory,
            }),
        }
    }

    fn own(
        vault: &Vault,
        open: OpenVault,
        directory: RunDirectory,
        options: &MountOptions,
        report: &Report,
        connection: OwnedFd,
    ) -> Result<MountedVault> {
        let mountpoint = directory.mountpoint();
        let service =
            MountService::start(open, Arc::clone(report)).inspect_err(|_| mount::detach(&mountpoint))?;
        service.mount_over(&mountpoint, options, connection)?;
        let ahead = TakingAhead::start(vault, options.rules.clone(), SHORT);
        let packs = FollowingPacks::start(service.open());
        let serving = Serving::Us {
            service: Box::new(service),
            ahead,
            packs,
        };
        Ok(MountedVault {
            vault: vault.clone(),
            serving,
            directory,
        })
    }

    /// Copies a vault, where nothing can be mounted.
    pub(crate) fn copy(vault: &Vault, directory: RunDirectory, run: &str) -> Result<MountedVault> {
        let copy = Copied::make(vault, run)?;
        Ok(MountedVault {
            vault: vault.clone(),
            serving: Serving::Copy(copy),
            directory,
        })
    }

    pub(crate) fn mountpoint(&self) -> PathBuf {
        match &self.serving {
            Serving::Us { .. } | Serving::Owner(_) => self.directory.mountpoint(),
            Serving::Copy(copy) => copy.place().to_owned(),
        }
    }

    pub(crate) fn door_place(&self) -> PathBuf {
        self.directory.door()
    }

    /// Where the bundles of containers are made.
    pub(crate) fn bundles(&self) -> PathBuf {
        self.directory.bundles()
    }

    /// Another process that serves it: readable when it has ended.
    pub(crate) fn server(&self) -> Option<Arc<OwnedFd>> {
        match &self.serving {
            Serving::Owner(process) => Some(Arc::clone(process)),
            Serving::Us { .. } | Serving::Copy(_) => None,
        }
    }

    /// The tree, if this process serves it.
    pub(crate) fn tree(&self) -> Option<&WorkTree> {
        match &self.serving {
            Serving::Us { service, .. } => Some(service.open().tree()),
            Serving::Owner(_) | Serving::Copy(_) => None,
        }
    }

    /// The current state of the vault, stored.
    pub(crate) fn settle(&self) -> Result<SnapshotId> {
        match &self.serving {
            Serving::Us { service, .. } => service
                .open()
                .settle()
                .map_err(|error| self.vault.unstored().explain(error)),
            Serving::Owner(_) => self.vault.head(),
            Serving::Copy(copy) => Ok(copy.before()),
        }
    }

    /// The same for callers that ignore this name of the root directory: changes below it alone are not
    /// stored for them.
    pub(crate) fn settle_beside(&self, name: &EntryName) -> Result<SnapshotId> {
        match &self.serving {
            Serving::Us { service, .. } if !service.open().tree().is_dirty_beside(name) => {
                Ok(self.vault.record()?.0.head.snapshot)
            }
            Serving::Us { .. } | Serving::Owner(_) | Serving::Copy(_) => self.settle(),
        }
    }

    /// The current state of the vault, stored under a name if it is new.
    pub(crate) fn save(&self, action: &str, detail: &str) -> Result<SnapshotId> {
        if let Serving::Us { service, .. } = &self.serving {
            service.open().save(action, detail)?;
        }
        self.settle()
    }

    /// Unmounts, and stores the changes of the run under a name of its own; returns the new state. Other
    /// processes that came meanwhile are still served. Changes that cannot be stored stay in the journal, and
    /// nothing stays mounted.
    pub(crate) fn end(self, action: &str, detail: &str, lingering: &mut AfterRun) -> Result<SnapshotId> {
        self.leave(action, detail, lingering).map(|(after, _)| after)
    }

    /// As [`MountedVault::end`]; the caller drops the directory of the run, in which nothing is mounted any
    /// longer.
    pub(crate) fn leave(
        self,
        action: &str,
        detail: &str,
        lingering: &mut AfterRun,
    ) -> Result<(SnapshotId, RunDirectory)> {
        let MountedVault {
            vault,
            serving,
            directory,
        } = self;
        let mountpoint = directory.mountpoint();
        let after = match serving {
            Serving::Us {
                service,
                ahead,
                packs,
            } => {
                if let Some(watching) = packs.map(FollowingPacks::stop) {
                    lingering.later(move || drop(watching));
                }
                ahead.learn(service.open().tree());
                lingering.serving.extend(ahead.stop());
                // Before the end of the mount, which would store it under its own name.
                let saved = service.open().save(action, detail);
                // Even if the state could not be stored: a mount that will not be served is useless.
                let ended = end_mount(|how| service.unmount(&mountpoint, how).map(drop));
                let stored = saved.and(ended).and_then(|()| {
                    service.open().save(action, detail)?;
                    service.open().settle()
                });
                let closed = if service.mounts().close_if_only(&mountpoint) {
                    service.close().map(drop)
                } else {
                    lingering.serve(*service);
                    Ok(())
                };
                stored
                    .and_then(|head| closed.map(|()| head))
                    .map_err(|error| vault.unstored().explain(error))
            }
            Serving::Owner(_) => {
                let ended = end_mount(|how| {
                    let asked = vault.ask_owner(|owner| owner.unmount(&mountpoint, how).map(drop))?;
                    if asked.is_none() {
                        mount::detach(&mountpoint);
                    }
                    Ok(())
                });
                ended.and_then(|()| vault.head())
            }
            Serving::Copy(copy) => copy.take_back(&vault, action, detail),
        };
        Ok((after?, directory))
    }
}

/// The process that has just mounted a vault for us.
fn process(vault: &Vault, pid: u32) -> Result<Arc<OwnedFd>> {
    let opened = rustix::process::Pid::from_raw(pid.cast_signed())
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    match opened {
        Some(process) => Ok(Arc::new(process)),
        None => Err(Error::Owner(OwnerError::Left {
            vault: vault.name()?.to_string(),
            pid,
        })),
    }
}

/// Everything that used the mount for the run is gone. Only copies of it may be left, in namespaces that
/// other programs have created meanwhile: the run does not wait for their end.
fn end_mount(unmount: impl Fn(UnmountMode) -> Result<()>) -> Result<()> {
    match unmount(UnmountMode::Force) {
        Err(Error::Mount(VaultMountError::System(MountError::NotMounted { .. }))) => Ok(()),
        ended => ended,
    }
}

pub(super) fn host(action: &'static str, place: &Path, source: std::io::Error) -> Error {
    Error::Host {
        action,
        place: place.display().to_string(),
        source,
    }
}
