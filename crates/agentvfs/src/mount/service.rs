//! Mounts a vault for any process: this process serves the mount, or the process that owns the vault does.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{MountHost, MountOptions, Mounts, Report, UnmountMode, connect, detach};
use crate::control::Unmounted;
use crate::error::{Error, ErrorCode, OwnerError, Result};
use crate::mounts::VaultMounts;
use crate::open::{OpenVault, Saved};
use crate::served::{Rhythm, ServedVault, StopWaiter};
use crate::take_ahead::TakingAhead;

/// How long an owner that is about to end may take to store its changes.
const ENDING: Duration = Duration::from_secs(60);
/// The pause before an owner that is about to end is checked again.
const PAUSE: Duration = Duration::from_millis(2);

/// The process that serves a mount.
pub enum VaultMount {
    /// This process, until the service is closed.
    Here(Box<MountService>),
    /// The process that owned the vault already.
    ByOwner {
        /// The id of that process.
        pid: u32,
    },
}

/// The process that has a vault that is to be mounted.
pub(crate) enum OwnOrAsk {
    /// This process, from now on. Nothing is mounted yet.
    Own(Box<OpenVault>),
    /// Another process, which has mounted it.
    Asked { pid: u32 },
}

/// A vault that this process owns, with the mounts that it serves and a socket for other processes.
pub struct MountService {
    /// Ends before its source is closed.
    ahead: Option<TakingAhead>,
    mounts: Arc<Mounts>,
    served: ServedVault,
}

impl VaultMounts<'_> {
    /// Mounts the vault at a directory. A handle with rules mounts it through them, whatever the options say.
    pub fn mount(&self, dir: &Path, options: &MountOptions, report: Report) -> Result<VaultMount> {
        if let Some(options) = self.options_with_rules(options) {
            return self.vault.unrestricted().mount(dir, &options, report);
        }
        let open = match self.own_or_ask(dir, options)? {
            OwnOrAsk::Own(open) => open,
            OwnOrAsk::Asked { pid } => return Ok(VaultMount::ByOwner { pid }),
        };
        let ahead = TakingAhead::start(self.vault, options.rules.clone(), Duration::ZERO);
        let mut service = MountService::start(*open, report)?;
        service.ahead = Some(ahead);
        service.mount_over(dir, options, connect(self.vault.name()?.as_str(), dir, options)?)?;
        Ok(VaultMount::Here(Box::new(service)))
    }

    /// Has the process that owns the vault mount it; returns the id of that process. `None`: no process owns it, or
    /// the one that does is about to end.
    pub fn ask_owner(&self, dir: &Path, options: &MountOptions) -> Result<Option<u32>> {
        if let Some(options) = self.options_with_rules(options) {
            return self.vault.unrestricted().mounts().ask_owner(dir, &options);
        }
        let Some(owner) = self.vault.live_owner()? else {
            return Ok(None);
        };
        let pid = owner.pid();
        let connection = connect(self.vault.name()?.as_str(), dir, options)?;
        match owner.mount(dir, &options.words(), Some(connection.as_fd())) {
            Ok(()) => Ok(Some(pid)),
            Err(error) => {
                drop(connection);
                detach(dir);
                if error.code() == ErrorCode::OwnerGone {
                    Ok(None)
                } else {
                    Err(error)
                }
            }
        }
    }

    /// The options with the rules of this handle, if it has any.
    fn options_with_rules(&self, options: &MountOptions) -> Option<MountOptions> {
        let rules = self.vault.rules()?.list().to_vec();
        Some(MountOptions {
            rules: Some(rules),
            ..options.clone()
        })
    }

    /// Becomes the owner of the vault, or asks its owner to mount it. Retries while an owner is about to end,
    /// or several processes start concurrently.
    pub(crate) fn own_or_ask(&self, dir: &Path, options: &MountOptions) -> Result<OwnOrAsk> {
        let start = Instant::now();
        loop {
            let opened = if options.is_read_only() {
                self.vault.open_to_read()
            } else {
                self.vault.open()
            };
            let busy = match opened {
                Ok(open) => return Ok(OwnOrAsk::Own(Box::new(open))),
                Err(busy @ Error::Owner(OwnerError::Busy { .. })) => busy,
                Err(error) => return Err(error),
            };
            if let Some(pid) = self.ask_owner(dir, options)? {
                return Ok(OwnOrAsk::Asked { pid });
            }
            if start.elapsed() > ENDING {
                return Err(busy);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl MountService {
    /// Serves a vault whose mounts come later.
    pub(crate) fn start(open: OpenVault, report: Report) -> Result<MountService> {
        let open = Arc::new(open);
        let mounts = Mounts::new(Arc::clone(&open), Arc::clone(&report));
        let log = Arc::new(move |error: &Error| report(&avfs_core::with_causes(error)));
        let host = Arc::new(MountHost(Arc::clone(&mounts)));
        let served = ServedVault::start(open, host, Rhythm::default(), log)?;
        Ok(MountService {
            ahead: None,
            mounts,
            served,
        })
    }

    /// Serves a mount that the kernel has made already. If it cannot be served, it is taken away again.
    pub(crate) fn mount_over(&self, dir: &Path, options: &MountOptions, connection: OwnedFd) -> Result<()> {
        let served = self.served.mount(dir, &options.words(), Some(connection));
        served.inspect_err(|_| detach(dir))
    }

    /// The vault.
    pub fn open(&self) -> &Arc<OpenVault> {
        self.served.open()
    }

    /// The mounts that it serves.
    pub fn mounts(&self) -> &Arc<Mounts> {
        &self.mounts
    }

    /// Takes a mount away.
    pub fn unmount(&self, dir: &Path, how: UnmountMode) -> Result<Unmounted> {
        self.served.unmount(dir, how)
    }

    /// Waits for another process that asks for the end, without keeping the vault open.
    pub fn stop_waiter(&self) -> StopWaiter {
        self.served.stop_waiter()
    }

    /// Waits until the last mount has ended.
    pub fn await_last(&mut self) {
        self.mounts.await_last();
        self.ahead = None;
    }

    /// Takes a last snapshot, and stops serving. Remaining mounts end without their owner: unmount them
    /// first, or wait for their end.
    pub fn close(mut self) -> Result<Option<Saved>> {
        if let Some(ahead) = self.ahead.take() {
            ahead.learn(self.open().tree());
        }
        self.served.close()
    }
}
