//! The path of the socket of a vault, and which processes may use its ends.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::SOCKET;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// The address of a socket in a directory. The kernel accepts 107 bytes of a path; if that is too little, the
/// directory is named by a descriptor, which must stay open as long as the address is used.
struct Address {
    address: SocketAddrUnix,
    _directory: Option<OwnedFd>,
}

fn address_in(directory: &Path) -> io::Result<Address> {
    if let Ok(address) = SocketAddrUnix::new(directory.join(SOCKET)) {
        return Ok(Address {
            address,
            _directory: None,
        });
    }
    // An address has room for 108 bytes, and the path is longer: the directory is named by its descriptor.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty())?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd()))?;
    Ok(Address {
        address,
        _directory: Some(opened),
    })
}

fn new_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Makes the socket of a vault. Only its owner does this, so an existing socket belongs to a dead owner.
pub(crate) fn listen_in(directory: &Path) -> io::Result<UnixListener> {
    remove_from(directory)?;
    let (socket, place) = (new_socket()?, address_in(directory)?);
    bind(&socket, &place.address)?;
    // No process can connect before it listens.
    std::fs::set_permissions(directory.join(SOCKET), std::fs::Permissions::from_mode(0o600))?;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

pub(crate) fn remove_from(directory: &Path) -> io::Result<()> {
    match std::fs::remove_file(directory.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Connects to the process that serves a vault; `None` if there is none.
pub(crate) fn connect_in(directory: &Path, patience: Duration) -> io::Result<Option<UnixStream>> {
    // Not before the socket is there: most of the time it is not.
    match std::fs::symlink_metadata(directory.join(SOCKET)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let (socket, place) = (new_socket()?, address_in(directory)?);
    set_socket_timeout(
        &socket,
        Timeout::Send,
        Some(patience.max(Duration::from_millis(1))),
    )?;
    loop {
        match connect(&socket, &place.address) {
            Ok(()) => return Ok(Some(UnixStream::from(socket))),
            // A socket without a process behind it was left by one that was killed.
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::CONNREFUSED) => return Ok(None),
            // Its queue is full: the owner is there, and busy.
            Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Whether the process at the other end may make requests: it runs as the same user, or as root.
pub(crate) fn may_ask(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

/// Whether the process at the other end is an owner of the store: the user of this directory, or root.
pub(crate) fn may_answer(stream: &UnixStream, directory: &Path) -> io::Result<bool> {
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(directory)?);
    let peer = socket_peercred(stream)?;
    Ok(peer.uid.is_root() || peer.uid.as_raw() == owner)
}
