//! Additional device descriptors for one connection, so that threads do not share a queue of requests in
//! progress.
#![allow(unsafe_code, reason = "an ioctl of /dev/fuse that no library has")]

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::ioctl::{self, Opcode, Setter, opcode};

/// Takes the descriptor of a connection, and attaches the descriptor on which it is called to that
/// connection.
const CLONE: Opcode = opcode::read::<u32>(229, 0);

/// Another descriptor of the connection, or the same one if the kernel does not provide any.
pub(super) fn another(connection: &Arc<OwnedFd>) -> Arc<OwnedFd> {
    clone(connection).map_or_else(|_| connection.clone(), Arc::new)
}

fn clone(connection: &OwnedFd) -> std::io::Result<OwnedFd> {
    let fd = super::open()?;
    let number = connection.as_raw_fd() as u32;
    // SAFETY: the opcode is FUSE_DEV_IOC_CLONE, which reads one 32-bit number.
    let request = unsafe { Setter::<CLONE, u32>::new(number) };
    // SAFETY: the ioctl changes nothing but the kernel's own state of the descriptor.
    unsafe { ioctl::ioctl(&fd, request) }?;
    Ok(fd)
}
