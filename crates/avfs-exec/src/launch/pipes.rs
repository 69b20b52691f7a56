//! The ends of all pipes and sockets between a launcher and a run.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::fs::{Gid, MemfdFlags, OFlags, Uid};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, pipe_with};

use super::Stdin;
use super::child::{is_root, numbers};
use crate::plan::UNPRIVILEGED;
use avfs_inside::{StageChannel, StageDescriptors};

/// The launcher's ends.
pub(super) struct LauncherEnds {
    pub(super) channel: StageChannel,
    /// The command's output. Moved to the reader: a second descriptor would keep the pipe open.
    pub(super) output: Option<OutputPipes>,
    /// Messages of the programs that build the sandbox.
    pub(super) talk: OwnedFd,
    pub(super) feed: Option<InputFeed>,
}

pub(super) struct OutputPipes {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// The stage's ends. The launcher drops them once the stage has them; otherwise it would wait for itself.
pub(super) struct StageEnds {
    pub(super) control: OwnedFd,
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) terminal: Option<OwnedFd>,
    /// Of the groups that the stage enters by itself.
    pub(super) entrances: Vec<OwnedFd>,
}

impl StageEnds {
    /// The numbers that are passed to the stage.
    pub(super) fn descriptors(&self, network: Option<&OwnedFd>) -> StageDescriptors {
        StageDescriptors {
            control: self.control.as_raw_fd(),
            stdin: self.stdin.as_raw_fd(),
            stdout: self.stdout.as_raw_fd(),
            stderr: self.stderr.as_raw_fd(),
            network: network.map(AsRawFd::as_raw_fd),
            terminal: self.terminal.as_ref().map(AsRawFd::as_raw_fd),
            entrances: numbers(&self.entrances),
            identity: None,
        }
    }

    pub(super) fn numbers(&self) -> Vec<RawFd> {
        let streams = [&self.control, &self.stdin, &self.stdout, &self.stderr];
        numbers(streams.into_iter().chain(&self.terminal).chain(&self.entrances))
    }
}

/// Bytes on their way to the command's standard input.
pub(super) struct InputFeed {
    pub(super) pipe: OwnedFd,
    pub(super) bytes: Vec<u8>,
    pub(super) sent: usize,
}

/// Creates both sides, and the end for messages of the sandbox's builder.
pub(super) fn pipes(stdin: Stdin, entrances: Vec<OwnedFd>) -> io::Result<(LauncherEnds, StageEnds, OwnedFd)> {
    let (control, inner_control) = socket_pair(SocketType::STREAM)?;
    let (stdout, inner_stdout) = output_pipe()?;
    let (stderr, inner_stderr) = output_pipe()?;
    let (talk, inner_talk) = output_pipe()?;
    let (stdin, terminal) = match stdin {
        Stdin::Terminal(socket) => (Stdin::Nothing, Some(socket)),
        other => (other, None),
    };
    let (feed, inner_stdin) = input(stdin)?;
    let outer = LauncherEnds {
        channel: StageChannel::new(control),
        output: Some(OutputPipes { stdout, stderr }),
        talk,
        feed,
    };
    let inner = StageEnds {
        control: inner_control,
        stdin: inner_stdin,
        stdout: inner_stdout,
        stderr: inner_stderr,
        terminal,
        entrances,
    };
    Ok((outer, inner, inner_talk))
}

pub(super) fn socket_pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// A file in memory, positioned at its beginning.
pub(super) fn in_memory(contents: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("file", MemfdFlags::CLOEXEC)?);
    file.write_all(contents)?;
    file.rewind()?;
    Ok(file.into())
}

/// A pipe whose outer end does not block.
pub(crate) fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (outer, inner) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&outer, OFlags::NONBLOCK)?;
    give_away(&inner)?;
    Ok((outer, inner))
}

/// The same in the other direction: bytes that are written outside are read inside.
pub(crate) fn pipe_for_input() -> io::Result<(OwnedFd, OwnedFd)> {
    let (inner, outer) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&outer, OFlags::NONBLOCK)?;
    give_away(&inner)?;
    Ok((outer, inner))
}

fn input(stdin: Stdin) -> io::Result<(Option<InputFeed>, OwnedFd)> {
    match stdin {
        Stdin::Nothing | Stdin::Terminal(_) => Ok((None, File::open("/dev/null")?.into())),
        Stdin::File(file) => Ok((None, file.into())),
        Stdin::Bytes(bytes) => {
            let (pipe, inner) = pipe_for_input()?;
            Ok((Some(InputFeed { pipe, bytes, sent: 0 }), inner))
        }
    }
}

/// Programs reopen `/dev/stdout`, which requires permission to open the pipe.
fn give_away(pipe: &OwnedFd) -> io::Result<()> {
    if !is_root() {
        return Ok(());
    }
    Ok(rustix::fs::fchown(
        pipe,
        Some(Uid::from_raw(UNPRIVILEGED)),
        Some(Gid::from_raw(UNPRIVILEGED)),
    )?)
}
