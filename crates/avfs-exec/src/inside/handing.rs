//! Descriptors from one process to another, over a socket: one with each message, or none.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// What goes with a descriptor.
const WITH_DESCRIPTOR: u8 = b'D';

/// One message. Nothing in it: the other side is gone.
pub(crate) struct Taken {
    pub(crate) byte: Option<u8>,
    pub(crate) fd: Option<OwnedFd>,
}

/// Gives a descriptor away.
pub(crate) fn give(fd: impl AsFd, over: &OwnedFd) -> io::Result<()> {
    let fds = [fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(over, &[IoSlice::new(&[WITH_DESCRIPTOR])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Takes one message, and the descriptor that came with it.
pub(crate) fn take(over: &OwnedFd) -> io::Result<Taken> {
    let mut byte = [0_u8; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(&mut byte)];
    let got =
        rustix::io::retry_on_intr(|| recvmsg(over, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fd = fds.flatten().next();
    Ok(Taken { byte: (got.bytes > 0).then_some(byte[0]), fd })
}

/// Sends a message without a descriptor.
pub(crate) fn tell(byte: u8, over: &OwnedFd) -> io::Result<()> {
    rustix::net::send(over, &[byte], SendFlags::NOSIGNAL)?;
    Ok(())
}
