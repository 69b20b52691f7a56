//! Sockets of the sandbox's network that are used outside of it.
//!
//! A socket belongs to the network namespace in which it was created, wherever its descriptor is passed. So
//! no process needs to run inside to listen there (the proxy, listed addresses of the host) or to connect to
//! servers there (published ports).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::handing::{give, take, tell};

/// Sent instead of a socket that could not be created.
const NONE: u8 = b'N';

/// A request for an unconnected socket of this address family.
const V4: u8 = b'4';
const V6: u8 = b'6';

/// Listens inside at each of these addresses and sends the sockets, in this order. The first is mandatory;
/// others that cannot be created are skipped.
pub(super) fn send_listeners(at: &[SocketAddr], over: &OwnedFd) -> io::Result<()> {
    for (index, address) in at.iter().enumerate() {
        match TcpListener::bind(address) {
            Ok(listener) => give(listener, over)?,
            Err(error) if index == 0 => return Err(error),
            Err(_) => tell(NONE, over)?,
        }
    }
    Ok(())
}

/// Answers one request for a socket. Returns whether the requester is still there.
pub fn answer(over: &OwnedFd) -> io::Result<bool> {
    let family = match take(over)?.byte {
        Some(V4) => AddressFamily::INET,
        Some(V6) => AddressFamily::INET6,
        Some(_) => return tell(NONE, over).map(|()| true),
        None => return Ok(false),
    };
    match rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None) {
        Ok(socket) => give(socket, over)?,
        Err(_) => tell(NONE, over)?,
    }
    Ok(true)
}

/// Receives, outside, the sockets that `send_listeners` sends. `None` if the stage ended before.
pub fn receive_listeners(over: &OwnedFd, count: usize) -> io::Result<Option<Vec<Option<TcpListener>>>> {
    let mut all = Vec::new();
    while all.len() < count {
        let taken = take(over)?;
        if taken.byte.is_none() {
            return Ok(None);
        }
        all.push(taken.fd.map(TcpListener::from));
    }
    Ok(Some(all))
}

/// Requests, from outside, a socket inside for connecting to `address`. Only one caller at a time.
pub fn ask_for_socket(address: SocketAddr, over: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let over = over.try_clone_to_owned()?;
    tell(if address.is_ipv4() { V4 } else { V6 }, &over)?;
    take(&over)?.fd.ok_or_else(|| io::ErrorKind::NotConnected.into())
}
