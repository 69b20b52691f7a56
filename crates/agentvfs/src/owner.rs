//! Which process owns a vault: this one, or one that answers others.

use std::time::{Duration, Instant};

use crate::control::LiveOwner;
use crate::error::{Error, OwnerError, Result, VaultUser};
pub(crate) use crate::ownership::Ownership;
use crate::vault::Vault;

/// The process that may change a vault.
pub(crate) enum VaultOwner {
    /// This process, from now on.
    Us(Ownership),
    /// A process that others can talk to.
    Served(LiveOwner),
}

/// Which process may change a vault.
#[derive(Clone, Copy)]
pub(crate) struct VaultOwnership<'a> {
    pub(crate) vault: &'a Vault,
}

impl VaultOwnership<'_> {
    /// Becomes the owner of the vault, or finds an owner that answers. An owner that does not is waited
    /// for: a short command, or a process that starts or ends.
    pub(crate) fn find(&self) -> Result<VaultOwner> {
        let (start, patience) = (Instant::now(), self.vault.store().patience());
        let mut pause = Duration::from_micros(200);
        loop {
            match self
                .vault
                .store()
                .own_at_once(self.vault.id(), self.vault.name()?.as_str())
            {
                Ok(ownership) => return Ok(VaultOwner::Us(ownership)),
                Err(busy @ Error::Owner(OwnerError::Busy { .. })) => {
                    if let Some(owner) = self.vault.live_owner()? {
                        return Ok(VaultOwner::Served(owner));
                    }
                    if start.elapsed() >= patience {
                        return Err(busy);
                    }
                }
                Err(error) => return Err(error),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Becomes the owner of the vault, or returns which process is.
    pub(crate) fn take(&self) -> Result<Ownership> {
        match self.find()? {
            VaultOwner::Us(ownership) => Ok(ownership),
            VaultOwner::Served(owner) => Err(Error::Owner(OwnerError::Busy {
                vault: self.vault.name()?.to_string(),
                owner: owner.pid().to_string(),
                by: self.user(),
            })),
        }
    }

    /// The purpose for which the vault is open, if it is something that a person can end.
    fn user(&self) -> Option<VaultUser> {
        let sessions = self.vault.sessions().list().ok()?;
        if !sessions.is_empty() {
            let ids = sessions.into_iter().map(|session| session.id).collect();
            return Some(VaultUser::Sessions { ids });
        }
        let mount = self.vault.mounts().list().ok()?.into_iter().next()?;
        Some(VaultUser::Mount { dir: mount.dir })
    }
}
