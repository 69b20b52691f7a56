//! A mount that cannot be created, served, or have the requested properties.

use std::path::PathBuf;

use avfs_fuse::transport::ServingError;

use super::sources::mount_code;
use super::{ErrorCode, Hint};
use avfs_fuse::mounting::MountError;

#[derive(Debug, thiserror::Error)]
pub enum VaultMountError {
    #[error(transparent)]
    System(#[from] MountError),
    #[error("vault '{vault}' is mounted exclusively at {}", dir.display())]
    Exclusive { vault: String, dir: PathBuf },
    #[error("vault '{vault}' is already mounted at {}, so it cannot be mounted exclusively", dir.display())]
    Shared { vault: String, dir: PathBuf },
    #[error(
        "rule '{rule}' is checked when a file is opened, and the kernel does not ask for that in an exclusive mount"
    )]
    RuleNeedsOpen { rule: String },
    #[error("a mount cannot be served")]
    Serving(#[from] ServingError),
    #[error("the kernel is slow to forget what it knows of {}", dir.display())]
    SlowKernel { dir: PathBuf },
}

impl VaultMountError {
    pub fn code(&self) -> ErrorCode {
        match self {
            VaultMountError::System(source) => mount_code(source),
            VaultMountError::Exclusive { .. } => ErrorCode::MountedAlone,
            VaultMountError::Shared { .. } => ErrorCode::NotAlone,
            VaultMountError::RuleNeedsOpen { .. } => ErrorCode::RuleNeedsOpen,
            VaultMountError::Serving(_) => ErrorCode::MountRefused,
            VaultMountError::SlowKernel { .. } => ErrorCode::MountBusy,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            VaultMountError::Serving(ServingError::Uring(_)) => Hint::EnableIoUring,
            VaultMountError::Serving(_) => return None,
            VaultMountError::System(source) => return system_hint(source),
            VaultMountError::Exclusive { dir, .. } => Hint::UnmountFirst { dir: dir.clone() },
            VaultMountError::Shared { .. } => Hint::MountShared,
            VaultMountError::RuleNeedsOpen { .. } => Hint::UseNoneAndWriteOnly,
            VaultMountError::SlowKernel { .. } => Hint::CachedForAMoment,
        };
        Some(hint)
    }
}

fn system_hint(error: &MountError) -> Option<Hint> {
    match error {
        MountError::NoDevice
        | MountError::NotTheDevice
        | MountError::DeviceDenied
        | MountError::Device(_)
        | MountError::NoFusermount
        | MountError::Refused { .. } => Some(Hint::CheckMachine),
        MountError::NotMounted { .. } => Some(Hint::ListMounts),
        MountError::Taken { .. } => Some(Hint::MountElsewhere),
        MountError::Busy { .. } => Some(Hint::ForceUnmount),
        MountError::NoSuchPlace { .. }
        | MountError::NotADirectory { .. }
        | MountError::Stuck { .. }
        | MountError::Look { .. }
        | MountError::Table(_) => None,
    }
}
