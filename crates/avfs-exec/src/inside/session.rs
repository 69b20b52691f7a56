//! One shell that runs scripts one after another, and keeps its directory, variables and functions between them.
//!
//! The shell reads scripts from one descriptor, each ended by a zero byte, and writes the status of each to another. Both
//! are closed for what the scripts start. A script that finds them nevertheless lies about itself only.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::{Errno, FdFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use super::frame::{Channel, Report};

/// Numbers from here on are nobody's: programs and shells use small ones.
const OUT_OF_THE_WAY: i32 = 64;

/// The stage's side of the shell.
pub(super) struct Shell {
    pub(super) inner: Option<Inner>,
    scripts: OwnedFd,
    statuses: OwnedFd,
    /// What the shell has not taken yet, and what it has not told to the end.
    unsent: Vec<u8>,
    told: Vec<u8>,
}

/// The shell's side.
pub(super) struct Inner {
    scripts: OwnedFd,
    statuses: OwnedFd,
}

impl Shell {
    pub(super) fn new() -> io::Result<Self> {
        let (inner_scripts, scripts) = pipe_with(PipeFlags::CLOEXEC)?;
        let (statuses, inner_statuses) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&scripts, OFlags::NONBLOCK)?;
        rustix::fs::fcntl_setfl(&statuses, OFlags::NONBLOCK)?;
        let inner = Some(Inner {
            scripts: out_of_the_way(inner_scripts)?,
            statuses: out_of_the_way(inner_statuses)?,
        });
        Ok(Self { inner, scripts, statuses, unsent: Vec::new(), told: Vec::new() })
    }

    /// Takes a script for the shell. Zero bytes would end it early, and no shell understands them.
    pub(super) fn give(&mut self, script: &[u8]) {
        self.unsent.extend(script.iter().filter(|byte| **byte != 0));
        self.unsent.push(0);
        self.push();
    }

    pub(super) fn poll_fds(&self) -> Vec<PollFd<'_>> {
        let waiting = (!self.unsent.is_empty()).then(|| PollFd::new(&self.scripts, PollFlags::OUT));
        [PollFd::new(&self.statuses, PollFlags::IN)].into_iter().chain(waiting).collect()
    }

    /// Passes on what can be passed on, in both directions.
    pub(super) fn attend(&mut self, channel: &Channel) -> io::Result<()> {
        self.push();
        let mut buffer = [0_u8; 256];
        while let Ok(count @ 1..) = rustix::io::read(&self.statuses, &mut buffer) {
            self.told.extend_from_slice(&buffer[..count]);
        }
        while let Some(end) = self.told.iter().position(|byte| *byte == 0) {
            let line: Vec<u8> = self.told.drain(..=end).collect();
            let code = std::str::from_utf8(&line[..end]).ok().and_then(|text| text.parse().ok());
            channel.report(&Report::Done { code: code.unwrap_or(1) })?;
        }
        Ok(())
    }

    fn push(&mut self) {
        match rustix::io::write(&self.scripts, &self.unsent) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The shell is gone, which is about to be noticed.
            Err(_) => self.unsent.clear(),
        }
    }
}

impl Inner {
    /// What the shell is started with, behind its name. `$?` is what it was at the end of the last script.
    pub(super) fn arguments(&self) -> [String; 4] {
        let (scripts, statuses) = (self.scripts.as_raw_fd(), self.statuses.as_raw_fd());
        let program = format!(
            r#"__avfs_status() {{ return "$1"; }}
__avfs_code=0
while IFS= read -r -d '' -u {scripts} __avfs_script; do
    __avfs_status "$__avfs_code"
    eval "$__avfs_script" {scripts}<&- {statuses}>&-
    __avfs_code=$?
    printf '%s\0' "$__avfs_code" >&{statuses}
done
exit "$__avfs_code""#
        );
        ["--noprofile".to_owned(), "--norc".to_owned(), "-c".to_owned(), program]
    }

    /// In the child: both are kept by what it becomes.
    pub(super) fn keep(&self) -> io::Result<()> {
        for kept in [&self.scripts, &self.statuses] {
            rustix::io::fcntl_setfd(kept, FdFlags::empty())?;
        }
        Ok(())
    }
}

fn out_of_the_way(fd: OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, OUT_OF_THE_WAY)?)
}
