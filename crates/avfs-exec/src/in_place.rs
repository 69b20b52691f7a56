//! A look at the host that this process alone has, in which one directory stands at the place of another. For programs that
//! a person runs outside of any sandbox: their absolute paths lead to the copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, mount_bind_recursive, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

#[derive(Debug, thiserror::Error)]
pub enum InPlaceError {
    #[error("this system gives this user no namespaces: {action}")]
    NoNamespaces {
        action: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{} cannot be shown at {}", shown.display(), place.display())]
    NotShown {
        shown: PathBuf,
        place: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Has this process, and what it starts from now on, see `shown` at `place`. Nothing changes for others. The process must
/// have one thread: the kernel gives no namespace of users to one of several.
pub fn show_in_place(shown: &Path, place: &Path) -> Result<(), InPlaceError> {
    enter_namespaces()?;
    // What is mounted outside later comes in; what we mount does not go out.
    let downstream = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", downstream).map_err(|errno| refused("mounts of its own", errno.into()))?;
    mount_bind_recursive(shown, place).map_err(|errno| InPlaceError::NotShown {
        shown: shown.to_owned(),
        place: place.to_owned(),
        source: errno.into(),
    })
}

/// Root may have mounts of its own. Others get that right in a namespace in which they are the users that they are outside.
fn enter_namespaces() -> Result<(), InPlaceError> {
    if geteuid().is_root() {
        return unshare(UnshareFlags::NEWNS, "a namespace of mounts");
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWNS | UnshareFlags::NEWUSER, "a namespace of users")?;
    let map = |file: &str, text: &str| {
        fs::write(format!("/proc/self/{file}"), text).map_err(|source| refused("a map of users", source))
    };
    // Without this word the kernel takes no map of groups.
    map("setgroups", "deny")?;
    map("uid_map", &format!("{user} {user} 1"))?;
    map("gid_map", &format!("{group} {group} 1"))
}

#[allow(unsafe_code, reason = "the safe call of the library is going away")]
fn unshare(flags: UnshareFlags, action: &'static str) -> Result<(), InPlaceError> {
    // SAFETY: only a table of files that threads share could be missed, and that one stays shared.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(|errno| refused(action, errno.into()))
}

fn refused(action: &'static str, source: io::Error) -> InPlaceError {
    InPlaceError::NoNamespaces { action, source }
}
