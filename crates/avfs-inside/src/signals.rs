//! Signals about children as a descriptor that can be polled.

#![allow(
    unsafe_code,
    reason = "signalfd and signal masks are in no library that we use"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

/// A descriptor that is readable after a child has ended. The signal itself is blocked from now on.
pub(super) fn children() -> io::Result<OwnedFd> {
    let set = set_of(&[libc::SIGCHLD]);
    // SAFETY: the set is initialised and lives through the calls.
    unsafe {
        if libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }
}

/// Blocks one more signal.
pub(super) fn hold(signal: libc::c_int) -> io::Result<()> {
    let set = set_of(&[signal]);
    // SAFETY: the set is initialised and lives through the call.
    match unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Unblocks all signals and restores default actions. For a child before it becomes the command.
pub(super) fn as_usual() -> io::Result<()> {
    let set = set_of(&[]);
    // SAFETY: the set is initialised and lives through the call; default actions need no function.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        match libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}
