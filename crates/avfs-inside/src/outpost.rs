//! A stage in a container that a daemon has made: nothing could be passed to it when it was started.
//!
//! It fetches its descriptors from a socket of the launcher, and makes the tree of the plan its root directory. The daemon
//! has mounted that tree below the root directory of the container, in which it has files of its own.

use std::ffi::CStr;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::mount::{MountPropagationFlags, UnmountFlags};

use super::handing;
use super::{OwnedDescriptors, StageDescriptors};

/// Before the argument of such a stage. Its numbers are places in the order in which descriptors are fetched.
pub const FETCHED: &str = "@";
/// Where the container shows the socket of the launcher.
pub const OUTPOST_SOCKET: &str = "/avfs/stage/socket";
/// Where it shows the tree of the plan.
pub const OUTPOST_ROOT: &str = "/avfs/root";

const ROOT: &CStr = c"/avfs/root";
/// What the container has of its own that the tree has mount points for.
const OWN: [(&CStr, &CStr); 2] = [(c"/proc", c"/avfs/root/proc"), (c"/dev", c"/avfs/root/dev")];

/// Receives the descriptors. `None` if the launcher is gone.
pub(super) fn fetch(wanted: StageDescriptors) -> Option<OwnedDescriptors> {
    let socket = OwnedFd::from(UnixStream::connect(OUTPOST_SOCKET).ok()?);
    let mut fetched: Vec<Option<OwnedFd>> = Vec::new();
    for _ in 0..wanted.count() {
        fetched.push(Some(handing::take(&socket).ok()?.fd?));
    }
    OwnedDescriptors::take(wanted, |place: RawFd| {
        fetched.get_mut(usize::try_from(place).ok()?)?.take()
    })
}

/// Makes the tree of the plan the root directory. In a user and a mount namespace of its own.
pub(super) fn enter_tree() -> io::Result<()> {
    let failed = |doing: &'static str| {
        move |errno: rustix::io::Errno| {
            io::Error::other(format!("the tree of the container, {doing}: {errno}"))
        }
    };
    // What happens to a mount outside still arrives here.
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change(c"/", slave).map_err(failed("making it a slave"))?;
    // Mounts of the container cannot be moved or taken apart here, only shown again as a whole.
    rustix::mount::mount_bind_recursive(ROOT, ROOT).map_err(failed("binding it"))?;
    for (from, at) in OWN {
        rustix::mount::mount_bind_recursive(from, at).map_err(failed("binding what is the container's"))?;
    }
    rustix::process::chdir(ROOT).map_err(failed("entering it"))?;
    rustix::process::pivot_root(c".", c".").map_err(failed("changing the root"))?;
    rustix::mount::unmount(c".", UnmountFlags::DETACH).map_err(failed("leaving the container's own"))?;
    rustix::process::chdir(c"/").map_err(failed("entering its top"))
}
