//! The inner end of the proxy: a listening socket of the sandbox's network, served by a process outside of it.
//!
//! A socket belongs to the network that it was made in, wherever its descriptor goes. So nothing has to run inside.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Where programs inside find the proxy. Nothing else is in their network, so it is always free.
pub(crate) const PROXY_PORT: u16 = 3128;

/// Listens inside and gives the socket away.
pub(super) fn send_listener(over: &OwnedFd) -> io::Result<()> {
    give(&TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?, over)
}

pub(crate) fn give(listener: &TcpListener, over: &OwnedFd) -> io::Result<()> {
    let fds = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(over, &[IoSlice::new(b"L")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Takes the socket, outside. Nothing if the stage ended without giving one.
pub(crate) fn receive_listener(over: &OwnedFd) -> io::Result<Option<TcpListener>> {
    let mut byte = [0_u8; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(over, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok(fds.flatten().next().map(TcpListener::from))
}
