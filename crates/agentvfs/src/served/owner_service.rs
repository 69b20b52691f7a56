//! Where requests are answered: the owner's vault and whatever serves its mounts.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use avfs_core::rules::Rule;
use avfs_fuse::mounting::UnmountMode;

use crate::control::{Bytes, MountRecord, MountState, OwnerReply, OwnerRequest, Unmounted, VERSION};
use crate::error::{Error, OwnerError, Result};
use crate::open::OpenVault;
use crate::record::Head;

/// Serves the mounts of a vault, in the process that owns it.
pub trait Host: Send + Sync {
    /// Serves the vault at a directory. `connection`, if given, is an open connection to the kernel that
    /// is mounted there already.
    fn mount(&self, dir: &Path, options: &[String], connection: Option<OwnedFd>) -> Result<()>;

    /// Ends a mount. By force, copies of it in namespaces elsewhere are no longer served.
    fn unmount(&self, dir: &Path, how: UnmountMode) -> Result<Unmounted>;

    /// Changes the rules through which a mount is seen; returns when they hold.
    fn set_rules(&self, dir: &Path, rules: Vec<Rule>) -> Result<()>;

    /// The current mounts.
    fn mounts(&self) -> Vec<MountState>;

    /// Returns when the mounts show all changes that were made through other doors.
    fn catch_up(&self) {}
}

/// An owner without mounts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMounts;

impl Host for NoMounts {
    fn mount(&self, _: &Path, _: &[String], _: Option<OwnedFd>) -> Result<()> {
        Err(Error::Owner(OwnerError::NoMounts {
            pid: std::process::id(),
        }))
    }

    fn unmount(&self, _: &Path, _: UnmountMode) -> Result<Unmounted> {
        Err(Error::Owner(OwnerError::NoMounts {
            pid: std::process::id(),
        }))
    }

    fn set_rules(&self, _: &Path, _: Vec<Rule>) -> Result<()> {
        Err(Error::Owner(OwnerError::NoMounts {
            pid: std::process::id(),
        }))
    }

    fn mounts(&self) -> Vec<MountState> {
        Vec::new()
    }
}

pub(crate) struct OwnerService {
    open: Arc<OpenVault>,
    host: Arc<dyn Host>,
    /// Mounts are created one at a time, because otherwise the registry could be wrong.
    mounting: Mutex<()>,
    stop: Mutex<bool>,
    stopped: Condvar,
}

impl OwnerService {
    pub(crate) fn new(open: Arc<OpenVault>, host: Arc<dyn Host>) -> OwnerService {
        OwnerService {
            open,
            host,
            mounting: Mutex::default(),
            stop: Mutex::default(),
            stopped: Condvar::new(),
        }
    }

    pub(crate) fn answer(&self, request: OwnerRequest, descriptor: Option<OwnedFd>) -> OwnerReply {
        self.try_answer(request, descriptor)
            .unwrap_or_else(|error| OwnerReply::of_error(&error))
    }

    fn try_answer(&self, request: OwnerRequest, descriptor: Option<OwnedFd>) -> Result<OwnerReply> {
        match request {
            OwnerRequest::Hello { .. } => Ok(OwnerReply::Hello {
                version: VERSION,
                pid: std::process::id(),
                vault: self.open.vault().id(),
            }),
            OwnerRequest::Settle => Ok(OwnerReply::Settled {
                head: self.open.settle()?,
            }),
            OwnerRequest::Adopt(adopt) => {
                let (seq, head) = self.open.adoption().adopt(&adopt)?;
                self.host.catch_up();
                let Head {
                    snapshot,
                    inodes,
                    conflicts,
                    ..
                } = head;
                Ok(OwnerReply::Adopted {
                    seq,
                    snapshot,
                    inodes,
                    conflicts,
                })
            }
            OwnerRequest::Limits => self.open.refresh_limits().map(|()| OwnerReply::Done),
            OwnerRequest::Mount { dir, options } => self
                .mount(&host_path(&dir)?, &options, descriptor)
                .map(|()| OwnerReply::Done),
            OwnerRequest::Unmount { dir, force, cut_off } => {
                let how = match (force, cut_off) {
                    (_, true) => UnmountMode::Force,
                    (true, false) => UnmountMode::Detach,
                    (false, false) => UnmountMode::IfUnused,
                };
                Ok(OwnerReply::Unmounted {
                    left: self.unmount(&host_path(&dir)?, how)?,
                })
            }
            OwnerRequest::Rules { dir, rules } => self
                .set_rules(&host_path(&dir)?, &rules)
                .map(|()| OwnerReply::Done),
            OwnerRequest::Mounts => Ok(OwnerReply::Mounts {
                mounts: self.host.mounts(),
            }),
            OwnerRequest::Stop => {
                self.ask_to_stop();
                Ok(OwnerReply::Done)
            }
        }
    }

    /// Mounts, with a record of it that outlives a crash of this process.
    pub(crate) fn mount(&self, dir: &Path, options: &[String], connection: Option<OwnedFd>) -> Result<()> {
        let _mounting = self.mounting();
        let vault = self.open.vault();
        // A state of the past is kept by the list of mounts: a garbage collection that is going on has not seen it.
        let _pin = vault.store().objects().store().pin()?;
        let was_there = vault.mounts().list()?.iter().any(|known| known.dir == dir);
        // Before it exists: an unrecorded mount would stay forever.
        vault.mounts().note_mount(&MountRecord::ours(dir, options))?;
        self.host.mount(dir, options, connection).or_else(|error| {
            if !was_there {
                vault.mounts().forget_mount(dir)?;
            }
            Err(error)
        })
    }

    /// Several at a time: each may wait for the users of its mount.
    pub(crate) fn unmount(&self, dir: &Path, how: UnmountMode) -> Result<Unmounted> {
        let unmounted = self.host.unmount(dir, how)?;
        let _mounting = self.mounting();
        // The directory may be another's by now.
        if self.host.mounts().iter().all(|mount| mount.record.dir != dir) {
            self.open.vault().mounts().forget_mount(dir)?;
        }
        Ok(unmounted)
    }

    /// Changes the rules of a mount.
    pub(crate) fn set_rules(&self, dir: &Path, rules: &[String]) -> Result<()> {
        let _mounting = self.mounting();
        let bad = |rule: &String| {
            Error::Owner(OwnerError::BadRequest {
                reason: format!("'{rule}' is no rule"),
            })
        };
        let rules = rules
            .iter()
            .map(|rule| Rule::parse_stored(rule).map_err(|_| bad(rule)));
        self.host.set_rules(dir, rules.collect::<Result<Vec<_>>>()?)
    }

    fn mounting(&self) -> MutexGuard<'_, ()> {
        self.mounting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn ask_to_stop(&self) {
        *self.stopping() = true;
        self.stopped.notify_all();
    }

    /// Waits until a process asks the owner to stop.
    pub(crate) fn await_stop(&self) {
        let stopping = self.stopping();
        let waited = self.stopped.wait_while(stopping, |stop| !*stop);
        drop(waited.expect("no panic happens while the lock is held"));
    }

    fn stopping(&self) -> MutexGuard<'_, bool> {
        self.stop.lock().expect("no panic happens while the lock is held")
    }
}

fn host_path(bytes: &Bytes) -> Result<PathBuf> {
    let bad = || {
        Error::Owner(OwnerError::BadRequest {
            reason: "a path of the host is not readable".into(),
        })
    };
    bytes.to_host().filter(|path| path.is_absolute()).ok_or_else(bad)
}
