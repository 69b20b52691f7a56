//! Vaults as directories: what a mount is to be, and the mounts that the owner of a vault serves.

mod live;
mod options;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use avfs_core::rules::Rule;
use avfs_fuse::mounting;
pub use avfs_fuse::mounting::{MountError, Unmount, check_device};
pub use avfs_fuse::transport::may_give_way;
use live::LiveMount;
pub use live::MountState;
pub use options::{MountOptions, OneOwner, Transport};

use crate::control::{Host, Unmounted};
use crate::error::{Error, Result};
use crate::mounts::MountRecord;
use crate::open::OpenVault;

/// Hears what an operator should know.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// How long an unmount waits for those who use the mount.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a mount that nobody uses takes to end.
const A_MOMENT: Duration = Duration::from_millis(200);
/// How long the kernel may take to forget what was changed behind it.
const FORGETTING: Duration = Duration::from_secs(10);

/// Makes the kernel's side of a mount; the connection is then to be served.
pub fn connect(vault: &str, dir: &Path, options: &MountOptions) -> Result<OwnedFd> {
    // A check by mode and owner that the kernel makes costs it a look at the directory after each change in it. If only
    // root may come in, there is nothing to be checked; if only the user who mounts may, the server checks what it is asked.
    let is_root = rustix::process::geteuid().is_root();
    let leaves_to_server = !options.allow_other && (is_root || options.is_asked_before_open());
    let kernel = mounting::MountOptions {
        read_only: options.is_read_only(),
        allow_other: options.allow_other,
        default_permissions: !leaves_to_server,
        ..mounting::MountOptions::new(format!("avfs:{vault}"))
    };
    Ok(mounting::mount(dir, &kernel)?)
}

/// Whether it is left to the server what mode and owner allow at a mount. Of one that is not visible here it is: to check
/// twice does no harm.
fn leaves_modes_to_server(dir: &Path) -> bool {
    let mounts = mounting::mounts().unwrap_or_default();
    let found = mounts.iter().rfind(|mount| mount.at == dir);
    // Where root comes in alone, there is nothing to be checked.
    found.is_none_or(|mount| !mount.default_permissions && mount.user != Some(0))
}

/// Takes away what a dead process left mounted.
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

/// What one of our mounts at a directory shows, as this process sees it.
pub fn vault_at(dir: &Path) -> Result<Option<String>> {
    let at = mounting::mounts()?.into_iter().rfind(|mount| mount.at == dir);
    Ok(at.map(|mount| mount.source.strip_prefix("avfs:").unwrap_or(&mount.source).to_owned()))
}

/// Takes a mount away that was made and that nobody will serve.
pub fn detach(dir: &Path) {
    // If it is not there any more, that is what was wanted.
    let _ = mounting::unmount(dir, Unmount::Detach);
}

/// Takes a mount away without its owner, who notices. With `force`, also from programs that use it.
pub fn unmount(dir: &Path, force: bool) -> Result<()> {
    Ok(mounting::unmount(dir, if force { Unmount::Detach } else { Unmount::IfUnused })?)
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

impl State {
    /// The mount that has a directory.
    fn at(&self, dir: &Path) -> Option<&Arc<LiveMount>> {
        self.live.iter().find(|mount| mount.dir() == dir && !mount.is_detached())
    }

    /// A mount that is alone has none beside it. One that was taken away by force does not count: who still uses it
    /// knows.
    fn check_room_for(&self, wanted: &MountOptions, vault: &str) -> Result<()> {
        let Some(other) = self.live.iter().find(|mount| mount.excludes(wanted)) else { return Ok(()) };
        let (vault, dir) = (vault.to_owned(), other.dir().to_owned());
        Err(match other.is_alone() {
            true => Error::MountedAlone { vault, dir },
            false => Error::NotAlone { vault, dir },
        })
    }
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

    /// Ends the taking of mounts if there is none but the one at `dir`; says whether it did.
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
            if let Err(error) = self.end(&mount, Unmount::Detach) {
                (self.report)(&format!("unmounting {}: {error}", mount.dir().display()));
            }
        }
    }

    fn end(&self, mount: &LiveMount, how: Unmount) -> Result<Unmounted> {
        // By force, the kernel would take it away from root alone, and before its last requests have come.
        let (by_kernel, at_most) = match how {
            Unmount::IfUnused => (Unmount::IfUnused, PATIENCE),
            Unmount::Detach | Unmount::Force => (Unmount::Detach, A_MOMENT),
        };
        let start = Instant::now();
        loop {
            match mounting::unmount(mount.dir(), by_kernel) {
                Err(MountError::Busy { .. }) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                // Somebody else was faster.
                Err(MountError::NotMounted { .. }) => break,
                ended => break ended?,
            }
        }
        // A namespace of mounts may have a copy, for as long as a container runs, and to the kernel that is no use of
        // the one that is gone.
        self.detached(mount);
        let mut has_ended = mount.await_end(at_most);
        if !has_ended && how == Unmount::Force {
            mount.cut_off();
            has_ended = mount.await_end(PATIENCE);
        }
        Ok(if has_ended { Unmounted::Wholly } else { Unmounted::Here })
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
    fn forget(&self, state: &State, dir: &Path) {
        if state.at(dir).is_none()
            && let Err(error) = self.open.vault().forget_mount(dir)
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
        // Until it is among them: its end, which may come at once, and the end of all others wait for that.
        let mut state = mounts.state();
        if state.closed {
            return Err(Error::OwnerGone { vault: name, pid: std::process::id() });
        }
        let served = Arc::clone(mounts);
        let mount = LiveMount::serve(&mounts.open, dir, wanted, connection, &mounts.report, move |mount| {
            served.ended(mount);
        })?;
        state.live.push(mount);
        // Once more: a mount that had the directory before may have struck it from the list when it ended.
        vault.note_mount(&MountRecord::ours(dir, options))
    }

    fn unmount(&self, dir: &Path, how: Unmount) -> Result<Unmounted> {
        let found = self.0.state().at(dir).cloned();
        let mount = found.ok_or_else(|| MountError::NotMounted { path: dir.to_owned() })?;
        let unmounted = self.0.end(&mount, how)?;
        let open = &self.0.open;
        open.settle_or_sync().map_err(|error| open.vault().if_unstored(error))?;
        Ok(unmounted)
    }

    fn set_rules(&self, dir: &Path, rules: Vec<Rule>) -> Result<()> {
        let found = self.0.state().at(dir).cloned();
        let mount = found.ok_or_else(|| MountError::NotMounted { path: dir.to_owned() })?;
        mount.set_rules(rules, FORGETTING)?;
        self.0.open.vault().note_mount(&mount.state().record)
    }

    fn mounts(&self) -> Vec<MountState> {
        let state = self.0.state();
        state.live.iter().filter(|mount| !mount.is_detached()).map(|mount| mount.state()).collect()
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
