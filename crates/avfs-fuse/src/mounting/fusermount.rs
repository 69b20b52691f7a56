//! Mounts of ordinary users, through the system's helper program that may mount for them.

use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

use super::{FuseMountOptions, MountError, UnmountMode};

const PROGRAM: &str = "fusermount3";

/// The helper opens `/dev/fuse`, mounts, and sends the descriptor over the socket that is its standard input.
pub(super) fn mount(at: &Path, options: &FuseMountOptions) -> Result<OwnedFd, MountError> {
    let refused = |reason: String| MountError::Refused {
        path: at.to_owned(),
        reason,
    };
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| refused(error.to_string()))?;
    let mut words = options.words();
    words.push(format!("fsname={}", escape(&options.source)));
    words.push("subtype=avfs".into());
    if options.read_only {
        words.push("ro".into());
    }
    let mut helper = Command::new(PROGRAM);
    helper
        .arg("-o")
        .arg(words.join(","))
        .arg("--")
        .arg(at)
        .env("_FUSE_COMMFD", "0");
    helper
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = helper.spawn().map_err(start_error)?;
    // The command holds its end of the socket; once that is dropped, receiving ends when the helper exits.
    drop(helper);
    let connection = receive(&ours);
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // If it cannot be read, only the explanation is missing.
        let _ = stderr.read_to_string(&mut words);
    }
    // Reaped, or it would stay as a zombie for as long as this process lives.
    let _ = child.wait();
    connection.ok_or_else(|| {
        if words.contains("failed to open /dev/fuse: Permission denied") {
            MountError::DeviceDenied
        } else {
            refused(explanation(&words))
        }
    })
}

pub(super) fn unmount(at: &Path, how: UnmountMode) -> Result<(), MountError> {
    let mut helper = Command::new(PROGRAM);
    helper.arg("-u");
    match how {
        UnmountMode::IfUnused => {}
        UnmountMode::Detach | UnmountMode::Force => {
            helper.arg("-z");
        }
    }
    let output = helper
        .arg("--")
        .arg(at)
        .stdin(Stdio::null())
        .output()
        .map_err(start_error)?;
    let path = at.to_owned();
    let words = String::from_utf8_lossy(&output.stderr);
    // The helper has one exit status for every failure: only its message distinguishes them.
    if output.status.success() {
        Ok(())
    } else if words.contains("busy") {
        Err(MountError::Busy { path })
    } else if words.contains("not found") {
        Err(MountError::NotMounted { path })
    } else {
        Err(MountError::Stuck {
            path,
            reason: explanation(&words),
        })
    }
}

fn start_error(error: std::io::Error) -> MountError {
    match error.kind() {
        std::io::ErrorKind::NotFound => MountError::NoFusermount,
        _ => MountError::Device(error),
    }
}

/// The descriptor that arrives on the socket; `None` if the other side exits without sending one.
fn receive(socket: impl AsFd) -> Option<OwnedFd> {
    let mut byte = [0];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut parts = [IoSliceMut::new(&mut byte)];
    // No program that another thread starts meanwhile may inherit the connection.
    rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

/// A comma would begin another option.
fn escape(source: &str) -> String {
    source.replace('\\', "\\\\").replace(',', "\\,")
}

fn explanation(words: &str) -> String {
    let words = words
        .trim()
        .trim_start_matches(PROGRAM)
        .trim_start_matches(':')
        .trim();
    match words {
        "" => format!("{PROGRAM} gave no reason"),
        words => words.replace('\n', "; "),
    }
}
