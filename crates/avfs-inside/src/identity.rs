//! The user inside, for builders of sandboxes that can start the first program as one user only.
//!
//! A container has one user of the host, whom its runtime needs to be root inside while it builds. The stage then
//! makes a user namespace within, where the same user has another number. It keeps no capabilities there.

use std::fmt;
use std::fs;
use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

/// A user and a group, as numbers inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageIdentity {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl StageIdentity {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (uid, gid) = text.split_once(':')?;
        Some(Self {
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
        })
    }

    /// Becomes this user, and then does something for which it needs to own the namespaces. The process has one thread.
    #[allow(unsafe_code, reason = "rustix asks for a promise about descriptors")]
    pub(super) fn assume(self, with_mounts: bool, then: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let refused =
            |error: io::Error| io::Error::other(format!("the user of the image is refused: {error}"));
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let mut flags = UnshareFlags::NEWUSER;
        flags.set(UnshareFlags::NEWNS, with_mounts);
        // SAFETY: descriptors are not unshared.
        let made = unsafe { rustix::thread::unshare_unsafe(flags) };
        made.map_err(|errno| refused(errno.into()))?;
        let mapped = fs::write("/proc/self/setgroups", "deny")
            .and_then(|()| fs::write("/proc/self/gid_map", format!("{} {} 1", self.gid, gid.as_raw())))
            .and_then(|()| fs::write("/proc/self/uid_map", format!("{} {} 1", self.uid, uid.as_raw())));
        mapped.map_err(refused)?;
        then()?;
        for one in CapabilitySet::all().iter() {
            match rustix::thread::remove_capability_from_bounding_set(one) {
                // An older kernel does not know it.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(errno) => return Err(refused(errno.into())),
            }
        }
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none).map_err(|errno| refused(errno.into()))
    }
}

impl fmt::Display for StageIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}
