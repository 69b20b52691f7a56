//! Vaults as directories: the options of a mount, and the mounts that the owner of a vault serves.

mod live;
mod options;
mod service;

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use avfs_core::rules::Rule;
use avfs_fuse::mounting;
pub use avfs_fuse::mounting::{MountError, UnmountMode, check_device};
pub use avfs_fuse::transport::may_yield_to_callers;
use live::LiveMount;
pub use options::{MountOptions, OneOwner, Transport};
pub(crate) use service::OwnOrAsk;
pub use service::{MountService, VaultMount};

pub use crate::control::MountState;
use crate::control::{MountRecord, Unmounted};
use crate::error::{Error, OwnerError, Result, VaultMountError};
use crate::open::OpenVault;
use crate::served::Host;

/// Receives messages for the operator.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// How long an unmount waits for the users of the mount.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an unused mount takes to end.
const A_MOMENT: Duration = Duration::from_millis(200);
/// How long the kernel may take to process notifications.
const FORGETTING: Duration = Duration::from_secs(10);

/// Makes the kernel's side of a mount; the connection is then to be served.
pub fn connect(vault: &str, dir: &Path, options: &MountOptions) -> Result<OwnedFd> {
    // If the kernel checks mode and owner, it requests the attributes of a directory after each change in it.
    // If only root has access, there is nothing to check; if only the mounting user has, the server makes the
    // checks.
    let is_root = rustix::process::geteuid().is_root();
    let leaves_to_server = !options.allow_other && (is_root || options.is_asked_before_open());
    let kernel = mounting::FuseMountOptions {
        read_only: options.is_read_only(),
        allow_other: options.allow_other,
        default_permissions: !leaves_to_server,
        ..mounting::FuseMountOptions::new(format!("avfs:{vault}"))
    };
    let connection = mounting::mount(dir, &kernel)?;
    if !leaves_to_server {
        checked_by_kernel().insert(dir.to_owned());
    }
    Ok(connection)
}

/// Mounts that this process has made and not begun to serve, and at which the kernel checks mode and owner. Without
/// them, it would have to read the list of all mounts, which becomes long when many sandboxes are open.
static CHECKED_BY_KERNEL: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

fn checked_by_kernel() -> MutexGuard<'static, HashSet<PathBuf>> {
    CHECKED_BY_KERNEL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the server checks mode and owner at a mount. Assumed for one that is not visible here: checking
/// twice does no harm.
fn leaves_modes_to_server(dir: &Path) -> bool {
    if checked_by_kernel().remove(dir) {
        return false;
    }
    let mounts = mounting::mounts().unwrap_or_default();
    let found = mounts.iter().rfind(|mount| mount.at == dir);
    // Where root comes in alone, there is nothing to be checked.
    found.is_none_or(|mount| !mount.default_permissions && mount.user != Some(0))
}

/// Removes a mount that a dead process left.
pub fn take_away(mount: &MountRecord) -> Result<()> {
    match mounting::clean_up(&mount.dir) {
        Ok(_) | Err(MountError::NotMounted { .. } | MountError::NoSuchPlace { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether one of our mounts is at a directory, as this process sees it.
pub fn is_here(dir: &Path) -> Result<bool> {
    Ok(mounting::mounts()?.iter().any(|mount| mount.at == dir))
}

/// The vault of one of our mounts at a directory, as this process sees it.
pub fn vault_at(dir: &Path) -> Result<Option<String>> {
    let at = mounting::mounts()?.into_iter().rfind(|mount| mount.at == dir);
    Ok(at.map(|mount| {
        mount
            .source
            .strip_prefix("avfs:")
            .unwrap_or(&mount.source)
            .to_owned()
    }))
}

/// Removes a mount that was created and will not be served.
pub fn detach(dir: &Path) {
    checked_by_kernel().remove(dir);
    // If it is no longer there, that is fine.
    let _ = mounting::unmount(dir, UnmountMode::Detach);
}

/// Removes a mount without its owner, who notices. With `force`, even if programs use it.
pub fn unmount(dir: &Path, force: bool) -> Result<()> {
    Ok(mounting::unmount(
        dir,
        if force {
            UnmountMode::Detach
        } else {
            UnmountMode::IfUnused
        },
    )?)
}

/// The mounts of one vault, served by the process that owns it.
pub struct Mounts {
    open: Arc<OpenVault>,
    report: Report,
    state: Mutex<MountsState>,
    changed: Condvar,
}

#[derive(Default)]
struct MountsState {
    live: Vec<Arc<LiveMount>>,
    /// Mounts are no longer accepted: the owner is about to end.
    closed: bool,
}

impl MountsState {
    /// The mount that has a directory.
    fn at(&self, dir: &Path) -> Option<&Arc<LiveMount>> {
        self.live
            .iter()
            .find(|mount| mount.dir() == dir && !mount.is_detached())
    }

    /// An exclusive mount allows no other mount. A mount that was forcibly detached does not count: its
    /// remaining users know.
    fn check_room_for(&self, wanted: &MountOptions, vault: &str) -> Result<()> {
        let Some(other) = self.live.iter().find(|mount| mount.excludes(wanted)) else {
            return Ok(());
        };
        let (vault, dir) = (vault.to_owned(), other.dir().to_owned());
        Err(if other.is_alone() {
            Error::Mount(VaultMountError::Exclusive { vault, dir })
        } else {
            Error::Mount(VaultMountError::Shared { vault, dir })
        })
    }
}

impl Mounts {
    /// The mounts of an open vault; there are none yet. `report` gets messages for the operator.
    pub fn new(open: Arc<OpenVault>, report: Report) -> Arc<Mounts> {
        Arc::new(Mounts {
            open,
            report,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, MountsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is no mount; from then on there will be none.
    pub fn await_last(&self) {
        let none_left = |state: &mut MountsState| !state.live.is_empty();
        let waited = self.changed.wait_while(self.state(), none_left);
        waited.unwrap_or_else(PoisonError::into_inner).closed = true;
    }

    /// Stops accepting mounts if the only one is at `dir`; returns whether it did.
    pub(crate) fn close_if_only(&self, dir: &Path) -> bool {
        let mut state = self.state();
        let is_last = state.live.iter().all(|mount| mount.dir() == dir);
        state.closed |= is_last;
        is_last
    }

    /// Ends all mounts, also those in use.
    pub fn detach_all(&self) {
        self.state().closed = true;
        let live = self.state().live.clone();
        // Where one was taken away, something else may be mounted by now.
        for mount in live.into_iter().filter(|mount| !mount.is_detached()) {
            if let Err(error) = self.end(&mount, UnmountMode::Detach) {
                (self.report)(&format!("unmounting {}: {error}", mount.dir().display()));
            }
        }
    }

    fn end(&self, mount: &LiveMount, how: UnmountMode) -> Result<Unmounted> {
        // By force, the kernel would remove it only for root, and before its last requests have arrived.
        let (by_kernel, at_most) = match how {
            UnmountMode::IfUnused => (UnmountMode::IfUnused, PATIENCE),
            UnmountMode::Detach | UnmountMode::Force => (UnmountMode::Detach, A_MOMENT),
        };
        let start = Instant::now();
        loop {
            match mounting::unmount(mount.dir(), by_kernel) {
                Err(MountError::Busy { .. }) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                // Another process was faster.
                Err(MountError::NotMounted { .. }) => break,
                ended => break ended?,
            }
        }
        // A mount namespace may have a copy, for as long as a container runs, and the kernel does not count
        // that as a use of the removed one.
        self.detached(mount);
        let mut has_ended = mount.await_end(at_most);
        if !has_ended && how == UnmountMode::Force {
            mount.cut_off();
            has_ended = mount.await_end(PATIENCE);
        }
        Ok(if has_ended {
            Unmounted::Wholly
        } else {
            Unmounted::Here
        })
    }

    fn detached(&self, mount: &LiveMount) {
        let state = self.state();
        mount.set_detached();
        self.forget(&state, mount.dir());
    }

    /// Strikes a mount that has ended from the list.
    fn ended(&self, mount: &Arc<LiveMount>) {
        let mut state = self.state();
        state.live.retain(|other| !Arc::ptr_eq(other, mount));
        self.forget(&state, mount.dir());
        self.changed.notify_all();
    }

    /// Strikes a directory from the list, unless another mount has it by now.
    fn forget(&self, state: &MountsState, dir: &Path) {
        if state.at(dir).is_none()
            && let Err(error) = self.open.vault().mounts().forget_mount(dir)
        {
            (self.report)(&format!("forgetting the mount {}: {error}", dir.display()));
        }
    }
}

/// An owner that serves mounts.
pub struct MountHost(pub Arc<Mounts>);

impl Host for MountHost {
    fn mount(&self, dir: &Path, options: &[String], connection: Option<OwnedFd>) -> Result<()> {
        let mounts = &self.0;
        let wanted = MountOptions::parse(options)?;
        wanted.check()?;
        let vault = mounts.open.vault();
        let name = vault.name()?.to_string();
        // Mounts come one at a time, so none comes between.
        mounts.state().check_room_for(&wanted, &name)?;
        let connection = connection.map_or_else(|| connect(&name, dir, &wanted), Ok)?;
        // Until it is registered: its end, which may come immediately, and the end of all others wait for
        // that.
        let mut state = mounts.state();
        if state.closed {
            return Err(Error::Owner(OwnerError::Gone {
                vault: name,
                pid: std::process::id(),
            }));
        }
        let served = Arc::clone(mounts);
        let mount = LiveMount::serve(
            &mounts.open,
            dir,
            wanted,
            connection,
            &mounts.report,
            move |mount| {
                served.ended(mount);
            },
        )?;
        state.live.push(mount);
        // Once more: a mount that had the directory before may have struck it from the list when it ended.
        vault.mounts().note_mount(&MountRecord::ours(dir, options))
    }

    fn unmount(&self, dir: &Path, how: UnmountMode) -> Result<Unmounted> {
        let found = self.0.state().at(dir).cloned();
        let mount = found.ok_or_else(|| MountError::NotMounted { path: dir.to_owned() })?;
        let unmounted = self.0.end(&mount, how)?;
        let open = &self.0.open;
        open.settle_or_sync()
            .map_err(|error| open.vault().unstored().explain(error))?;
        Ok(unmounted)
    }

    fn set_rules(&self, dir: &Path, rules: Vec<Rule>) -> Result<()> {
        let found = self.0.state().at(dir).cloned();
        let mount = found.ok_or_else(|| MountError::NotMounted { path: dir.to_owned() })?;
        mount.set_rules(rules, FORGETTING)?;
        self.0.open.vault().mounts().note_mount(&mount.state().record)
    }

    fn mounts(&self) -> Vec<MountState> {
        let state = self.0.state();
        state
            .live
            .iter()
            .filter(|mount| !mount.is_detached())
            .map(|mount| mount.state())
            .collect()
    }

    fn catch_up(&self) {
        let live = self.0.state().live.clone();
        for mount in live {
            if mount.flush(FORGETTING).is_err() {
                (self.0.report)(&format!(
                    "the kernel is slow to forget at {}",
                    mount.dir().display()
                ));
            }
        }
    }
}
