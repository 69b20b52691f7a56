//! Where requests are answered: the owner's vault and whatever serves its mounts.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use avfs_core::rules::Rule;
use serde::{Deserialize, Serialize};

use super::protocol::{Bytes, Reply, Request, VERSION};
use crate::error::{Error, Result};
use crate::mount::{MountState, Unmount};
use crate::mounts::MountRecord;
use crate::open::OpenVault;
use crate::record::Head;

/// What serves the mounts of a vault, in the process that owns it.
pub trait Host: Send + Sync {
    /// Serves the vault at a directory. `connection`, if given, is an open connection to the kernel that
    /// is mounted there already.
    fn mount(&self, dir: &Path, options: &[String], connection: Option<OwnedFd>) -> Result<()>;

    /// Ends a mount. By force, copies of it in namespaces elsewhere are not served any more.
    fn unmount(&self, dir: &Path, how: Unmount) -> Result<Unmounted>;

    /// Changes the rules through which a mount is seen; returns when they hold.
    fn set_rules(&self, dir: &Path, rules: Vec<Rule>) -> Result<()>;

    /// What is mounted now.
    fn mounts(&self) -> Vec<MountState>;

    /// Returns when the mounts show what was changed behind them.
    fn catch_up(&self) {}
}

/// What is left of a mount that was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unmounted {
    /// Nothing: nobody can use it any more.
    Wholly,
    /// The directory is free. Whoever has the mount all the same, with open files or in a namespace of mounts of
    /// his own, is served until he is done.
    Here,
}

/// An owner without mounts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMounts;

impl Host for NoMounts {
    fn mount(&self, _: &Path, _: &[String], _: Option<OwnedFd>) -> Result<()> {
        Err(Error::NoMounts { pid: std::process::id() })
    }

    fn unmount(&self, _: &Path, _: Unmount) -> Result<Unmounted> {
        Err(Error::NoMounts { pid: std::process::id() })
    }

    fn set_rules(&self, _: &Path, _: Vec<Rule>) -> Result<()> {
        Err(Error::NoMounts { pid: std::process::id() })
    }

    fn mounts(&self) -> Vec<MountState> {
        Vec::new()
    }
}

pub(crate) struct Desk {
    open: Arc<OpenVault>,
    host: Arc<dyn Host>,
    /// Mounts come one at a time, or the registry would not tell what is there.
    mounting: Mutex<()>,
    stop: Mutex<bool>,
    stopped: Condvar,
}

impl Desk {
    pub fn new(open: Arc<OpenVault>, host: Arc<dyn Host>) -> Desk {
        Desk { open, host, mounting: Mutex::default(), stop: Mutex::default(), stopped: Condvar::new() }
    }

    pub fn answer(&self, request: Request, descriptor: Option<OwnedFd>) -> Reply {
        self.try_answer(request, descriptor).unwrap_or_else(|error| Reply::of_error(&error))
    }

    fn try_answer(&self, request: Request, descriptor: Option<OwnedFd>) -> Result<Reply> {
        match request {
            Request::Hello { .. } => {
                Ok(Reply::Hello { version: VERSION, pid: std::process::id(), vault: self.open.vault().id() })
            }
            Request::Settle => Ok(Reply::Settled { head: self.open.settle()? }),
            Request::Adopt(adopt) => {
                let (seq, head) = self.open.adopt(&adopt)?;
                self.host.catch_up();
                let Head { snapshot, inodes, conflicts, .. } = head;
                Ok(Reply::Adopted { seq, snapshot, inodes, conflicts })
            }
            Request::Limits => self.open.refresh_limits().map(|()| Reply::Done),
            Request::Mount { dir, options } => {
                self.mount(&host_path(&dir)?, &options, descriptor).map(|()| Reply::Done)
            }
            Request::Unmount { dir, force, cut_off } => {
                let how = match (force, cut_off) {
                    (_, true) => Unmount::Force,
                    (true, false) => Unmount::Detach,
                    (false, false) => Unmount::IfUnused,
                };
                Ok(Reply::Unmounted { left: self.unmount(&host_path(&dir)?, how)? })
            }
            Request::Rules { dir, rules } => self.set_rules(&host_path(&dir)?, &rules).map(|()| Reply::Done),
            Request::Mounts => Ok(Reply::Mounts { mounts: self.host.mounts() }),
            Request::Stop => {
                self.ask_to_stop();
                Ok(Reply::Done)
            }
        }
    }

    /// Mounts, with a record of it that outlives a crash of this process.
    pub fn mount(&self, dir: &Path, options: &[String], connection: Option<OwnedFd>) -> Result<()> {
        let _mounting = self.mounting();
        let vault = self.open.vault();
        // A state of the past is kept by the list of mounts: a garbage collection that is going on has not seen it.
        let _pin = vault.store().objects().store().pin()?;
        let was_there = vault.mount_records()?.iter().any(|known| known.dir == dir);
        // Before it is there: a mount that nobody knows of would stay for ever.
        vault.note_mount(&MountRecord::ours(dir, options))?;
        self.host.mount(dir, options, connection).or_else(|error| {
            if !was_there {
                vault.forget_mount(dir)?;
            }
            Err(error)
        })
    }

    /// Several at a time: each may wait for those who use its mount.
    pub fn unmount(&self, dir: &Path, how: Unmount) -> Result<Unmounted> {
        let unmounted = self.host.unmount(dir, how)?;
        let _mounting = self.mounting();
        // The directory may be another's by now.
        if self.host.mounts().iter().all(|mount| mount.record.dir != dir) {
            self.open.vault().forget_mount(dir)?;
        }
        Ok(unmounted)
    }

    /// Changes the rules of a mount.
    pub fn set_rules(&self, dir: &Path, rules: &[String]) -> Result<()> {
        let _mounting = self.mounting();
        let bad = |rule: &String| Error::BadRequest { reason: format!("'{rule}' is no rule") };
        let rules = rules.iter().map(|rule| Rule::parse_stored(rule).map_err(|_| bad(rule)));
        self.host.set_rules(dir, rules.collect::<Result<Vec<_>>>()?)
    }

    fn mounting(&self) -> MutexGuard<'_, ()> {
        self.mounting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn ask_to_stop(&self) {
        *self.stopping() = true;
        self.stopped.notify_all();
    }

    /// Waits until someone asks the owner to stop.
    pub fn await_stop(&self) {
        let stopping = self.stopping();
        let waited = self.stopped.wait_while(stopping, |stop| !*stop);
        drop(waited.expect("no panic happens while the lock is held"));
    }

    fn stopping(&self) -> MutexGuard<'_, bool> {
        self.stop.lock().expect("no panic happens while the lock is held")
    }
}

fn host_path(bytes: &Bytes) -> Result<PathBuf> {
    let bad = || Error::BadRequest { reason: "a path of the host is not readable".into() };
    bytes.to_host().filter(|path| path.is_absolute()).ok_or_else(bad)
}
