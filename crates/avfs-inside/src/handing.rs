//! Passes descriptors from one process to another, over a socket: at most one with each message; with frames,
//! up to [`AT_ONCE`].

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The byte that accompanies a descriptor.
const WITH_DESCRIPTOR: u8 = b'D';

/// One message. If it is empty, the other side is gone.
pub struct TakenMessage {
    /// The byte of the message.
    pub byte: Option<u8>,
    /// The descriptor that came with it.
    pub fd: Option<OwnedFd>,
}

/// Sends a descriptor.
pub fn give(fd: impl AsFd, over: &OwnedFd) -> io::Result<()> {
    let fds = [fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(
        over,
        &[IoSlice::new(&[WITH_DESCRIPTOR])],
        &mut control,
        // The other side may be gone; a signal would end this process before it can report that.
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives one message, and the descriptor that came with it.
pub fn take(over: &OwnedFd) -> io::Result<TakenMessage> {
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
    Ok(TakenMessage {
        byte: (got.bytes > 0).then_some(byte[0]),
        fd,
    })
}

/// The most descriptors that come with one frame: the streams of a process.
pub(crate) const AT_ONCE: usize = 3;

/// Sends the beginning of a frame, as much as fits, with its descriptors. Returns the number of bytes sent.
pub fn send_part(
    over: impl AsFd,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(rustix::io::Errno::TOOBIG);
    }
    let flags = flags | SendFlags::NOSIGNAL;
    sendmsg(over, &[IoSlice::new(bytes)], &mut control, flags)
}

/// Receives available bytes of frames, and the descriptors that came with them. The kernel closes surplus
/// descriptors.
pub(super) fn receive_part(
    over: impl AsFd,
    buffer: &mut [u8],
    mut keep: impl FnMut(OwnedFd),
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(buffer)];
    let got = recvmsg(over, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            fds.for_each(&mut keep);
        }
    }
    Ok(got.bytes)
}

/// Sends a message without a descriptor.
pub fn tell(byte: u8, over: &OwnedFd) -> io::Result<()> {
    rustix::net::send(over, &[byte], SendFlags::NOSIGNAL)?;
    Ok(())
}
