//! Vaults as directories: what a mount is to be, and the mounts that the owner of a vault serves.

mod live;
mod options;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use avfs_fuse::mounting::MountError;
use avfs_fuse::mounting::{self, Unmount};
use live::LiveMount;
pub use live::MountState;
pub use options::{MountOptions, Transport};

use crate::control::Host;
use crate::error::{Error, Result};
use crate::mounts::MountRecord;
use crate::open::OpenVault;

/// Hears what an operator should know.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// How long an unmount waits for those who use the mount.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the kernel may take to forget what was changed behind it.
const FORGETTING: Duration = Duration::from_secs(10);

/// Makes the kernel's side of a mount; the connection is then to be served.
pub fn connect(vault: &str, dir: &Path, options: &MountOptions) -> Result<OwnedFd> {
    // Two mounts in one place could not be told apart when one of them is to end.
    if mounting::mounts()?.iter().any(|mounted| mounted.at == dir) {
        return Err(MountError::Taken { path: dir.to_owned() }.into());
    }
    // If only root may come in, there is nothing to be checked by mode and owner; and a check that the kernel
    // makes costs it a look at the directory after each change in it.
    let only_root = !options.allow_other && rustix::process::geteuid().is_root();
    let kernel = mounting::MountOptions {
        read_only: options.is_read_only(),
        allow_other: options.allow_other,
        default_permissions: !only_root,
        ..mounting::MountOptions::new(format!("avfs:{vault}"))
    };
    Ok(mounting::mount(dir, &kernel)?)
}

/// Takes away what a dead process left mounted.
pub fn take_away(mount: &MountRecord) -> Result<()> {
    match mounting::clean_up(&mount.dir) {
        Ok(_) | Err(MountError::NotMounted { .. } | MountError::NoSuchPlace { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes a mount away that was made and that nobody will serve.
pub fn detach(dir: &Path) {
    // If it is not there any more, that is what was wanted.
    let _ = mounting::unmount(dir, Unmount::Detach);
}

/// The mounts of one vault, served by the process that owns it.
pub struct Mounts {
    open: Arc<OpenVault>,
    report: Report,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    live: Vec<Arc<LiveMount>>,
    /// Nothing is mounted any more: the owner is about to end.
    closed: bool,
}

impl Mounts {
    pub fn new(open: Arc<OpenVault>, report: Report) -> Arc<Mounts> {
        Arc::new(Mounts { open, report, state: Mutex::default(), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is no mount; from then on there will be none.
    pub fn await_last(&self) {
        let none_left = |state: &mut State| !state.live.is_empty();
        let waited = self.changed.wait_while(self.state(), none_left);
        waited.unwrap_or_else(PoisonError::into_inner).closed = true;
    }

    /// Ends all mounts, also those in use.
    pub fn detach_all(&self) {
        self.state().closed = true;
        let live = self.state().live.clone();
        for mount in live {
            if let Err(error) = self.end(&mount, true) {
                (self.report)(&format!("unmounting {}: {error}", mount.dir().display()));
            }
        }
    }

    fn end(&self, mount: &LiveMount, force: bool) -> Result<()> {
        let how = if force { Unmount::Detach } else { Unmount::IfUnused };
        let start = Instant::now();
        loop {
            match mounting::unmount(mount.dir(), how) {
                Err(MountError::Busy { .. }) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                // Somebody else was faster.
                Err(MountError::NotMounted { .. }) => break,
                ended => break ended?,
            }
        }
        // With force, whoever uses it still is served until he is done.
        if !force {
            mount.await_end();
        }
        Ok(())
    }

    /// What those are told who come too late.
    fn gone(&self) -> Result<Error> {
        let (vault, pid) = (self.open.vault().name()?.to_string(), std::process::id());
        Ok(Error::OwnerGone { vault, pid })
    }

    /// Strikes a mount that has ended from the list.
    fn ended(&self, mount: &Arc<LiveMount>) {
        if let Err(error) = self.open.vault().forget_mount(mount.dir()) {
            (self.report)(&format!("forgetting the mount {}: {error}", mount.dir().display()));
        }
        let mut state = self.state();
        state.live.retain(|other| !Arc::ptr_eq(other, mount));
        mount.note_end();
        self.changed.notify_all();
    }
}

/// An owner that serves mounts.
pub struct MountHost(pub Arc<Mounts>);

impl Host for MountHost {
    fn mount(&self, dir: &Path, options: &[String], connection: Option<OwnedFd>) -> Result<()> {
        let mounts = &self.0;
        let wanted = MountOptions::parse(options)?;
        let vault = mounts.open.vault();
        if mounts.state().closed {
            return Err(mounts.gone()?);
        }
        if mounts.state().live.iter().any(|mount| mount.dir() == dir) {
            return Err(MountError::Taken { path: dir.to_owned() }.into());
        }
        let connection = match connection {
            Some(connection) => connection,
            None => connect(vault.name()?.as_str(), dir, &wanted)?,
        };
        let served = Arc::clone(mounts);
        let mount = LiveMount::serve(&mounts.open, dir, wanted, connection, &mounts.report, move |mount| {
            served.ended(mount);
        })?;
        let mut state = mounts.state();
        if state.closed {
            // It is never served by a process that ends: whoever asked takes the mount away.
            return Err(mounts.gone()?);
        }
        if !mount.has_ended() {
            state.live.push(mount);
        }
        Ok(())
    }

    fn unmount(&self, dir: &Path, force: bool) -> Result<()> {
        let found = self.0.state().live.iter().find(|mount| mount.dir() == dir).cloned();
        let mount = found.ok_or_else(|| MountError::NotMounted { path: dir.to_owned() })?;
        self.0.end(&mount, force)?;
        self.0.open.settle().map(|_| ())
    }

    fn mounts(&self) -> Vec<MountState> {
        self.0.state().live.iter().map(|mount| mount.state()).collect()
    }

    fn catch_up(&self) {
        let live = self.0.state().live.clone();
        for mount in live {
            if mount.flush(FORGETTING).is_err() {
                (self.0.report)(&format!("the kernel is slow to forget at {}", mount.dir().display()));
            }
        }
    }
}
