//! A private view of the host for this process, in which one directory appears in the place of another. For
//! programs that a person runs outside of any sandbox: their absolute paths lead to the copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind_recursive, mount_change, mount_remount};
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

/// Why directories cannot be shown at other paths to a process of the host.
#[derive(Debug, thiserror::Error)]
pub enum InPlaceError {
    /// The kernel refused namespaces.
    #[error("this system gives this user no namespaces: {action}")]
    NoNamespaces {
        /// What was attempted.
        action: &'static str,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The directory cannot be mounted there.
    #[error("{} cannot be shown at {}", shown.display(), place.display())]
    NotShown {
        /// The directory.
        shown: PathBuf,
        /// Where it should have been.
        place: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

/// Makes `shown` appear at `place` for this process and all processes that it starts from now on. Nothing
/// changes for others. The process must have one thread: the kernel refuses a user namespace to a process
/// with several. What was at `place` is read-only at `aside` from then on.
pub fn show_in_place(shown: &Path, place: &Path, aside: Option<&Path>) -> Result<(), InPlaceError> {
    enter_namespaces()?;
    // Later mounts outside become visible here; our mounts are not visible outside.
    let downstream = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", downstream).map_err(|errno| refused("mounts of its own", errno.into()))?;
    if let Some(aside) = aside {
        show_read_only(place, aside).map_err(|errno| InPlaceError::NotShown {
            shown: place.to_owned(),
            place: aside.to_owned(),
            source: errno.into(),
        })?;
    }
    mount_bind_recursive(shown, place).map_err(|errno| InPlaceError::NotShown {
        shown: shown.to_owned(),
        place: place.to_owned(),
        source: errno.into(),
    })
}

fn show_read_only(shown: &Path, place: &Path) -> rustix::io::Result<()> {
    mount_bind_recursive(shown, place)?;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    // A namespace of users may not take away the flags of a mount that it was given.
    let given = rustix::fs::statvfs(place)?.f_flag;
    for (is, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if given.contains(is) {
            flags |= flag;
        }
    }
    mount_remount(place, flags, "")
}

/// Root may create mount namespaces. Other users may in a user namespace that maps their own ids.
fn enter_namespaces() -> Result<(), InPlaceError> {
    if geteuid().is_root() {
        return unshare(UnshareFlags::NEWNS, "a namespace of mounts");
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(
        UnshareFlags::NEWNS | UnshareFlags::NEWUSER,
        "a namespace of users",
    )?;
    let map = |file: &str, text: &str| {
        fs::write(format!("/proc/self/{file}"), text).map_err(|source| refused("a map of users", source))
    };
    // Otherwise the kernel accepts no group map.
    map("setgroups", "deny")?;
    map("uid_map", &format!("{user} {user} 1"))?;
    map("gid_map", &format!("{group} {group} 1"))
}

#[allow(unsafe_code, reason = "the safe call of the library is going away")]
fn unshare(flags: UnshareFlags, action: &'static str) -> Result<(), InPlaceError> {
    // SAFETY: only an unshared table of descriptors could break other threads, and that table stays shared.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(|errno| refused(action, errno.into()))
}

fn refused(action: &'static str, source: io::Error) -> InPlaceError {
    InPlaceError::NoNamespaces { action, source }
}
