//! Sockets of the sandbox's network that are used outside of it.
//!
//! A socket belongs to the network that it was made in, wherever its descriptor goes. So nothing has to run inside to
//! listen there (the proxy, addresses of the host that are listed) or to connect to what listens there (ports that are
//! published).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::handing::{give, take, tell};

/// What is said instead of giving a socket that could not be made.
const NONE: u8 = b'N';

/// What is asked for: a socket for addresses of this family, which is not connected yet.
const V4: u8 = b'4';
const V6: u8 = b'6';

/// Listens inside at each of these addresses and gives the sockets away, in this order. The first has to be had; of the
/// others, what cannot be had is left out.
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

/// Answers one request for a socket. Says whether somebody is left to ask.
pub(crate) fn answer(over: &OwnedFd) -> io::Result<bool> {
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

/// Takes the sockets that [`send_listeners`] gives, outside. Nothing if the stage ended before.
pub(crate) fn receive_listeners(
    over: &OwnedFd,
    count: usize,
) -> io::Result<Option<Vec<Option<TcpListener>>>> {
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

/// Has a socket made inside for connecting to `address`, outside. Only one at a time may ask.
pub(crate) fn ask_for_socket(address: SocketAddr, over: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let over = over.try_clone_to_owned()?;
    tell(if address.is_ipv4() { V4 } else { V6 }, &over)?;
    take(&over)?.fd.ok_or_else(|| io::ErrorKind::NotConnected.into())
}
