//! The inner end of the proxy: a listening socket of the sandbox's network, served by a process outside of it.
//!
//! A socket belongs to the network that it was made in, wherever its descriptor goes. So nothing has to run inside.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;

use super::handing::{give, take};

/// Where programs inside find the proxy. Nothing else is in their network, so it is always free.
pub(crate) const PROXY_PORT: u16 = 3128;

/// Listens inside and gives the socket away.
pub(super) fn send_listener(over: &OwnedFd) -> io::Result<()> {
    give(TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?, over)
}

/// Takes the socket, outside. Nothing if the stage ended without giving one.
pub(crate) fn receive_listener(over: &OwnedFd) -> io::Result<Option<TcpListener>> {
    Ok(take(over)?.fd.map(TcpListener::from))
}
