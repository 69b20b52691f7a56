//! Runs the program git in such a way that it does only what it is asked to.
//!
//! It uses one repository, which is named explicitly and never searched for. Only the search path of the
//! environment is passed on. Settings of the system and of the user are not read; those of the repository
//! are, and those that could start a program or use the network are overridden.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use avfs_core::printable;
use rustix::process::{PidfdFlags, Signal};

use super::bounds::{Bounds, SPARING};
use crate::error::GitError;

/// These take precedence over the repository's settings.
const SETTINGS: [&str; 12] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.alternateRefsCommand=",
    "core.attributesFile=/dev/null",
    "commit.gpgSign=false",
    "gc.auto=0",
    "log.mailmap=false",
    "log.showSignature=false",
    "maintenance.auto=false",
    "protocol.allow=never",
];

const ENVIRONMENT: [(&str, &str); 11] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_GRAFT_FILE", "/dev/null"),
    ("GIT_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
    ("LC_ALL", "C"),
];

/// Where programs are, if the environment does not say.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The maximum length of git's error messages that is reported.
const COMPLAINT_MAX: usize = 600;

/// Ends calls of git that are no longer wanted.
#[derive(Clone, Default)]
pub(crate) struct GitStop(Arc<Mutex<Stoppable>>);

#[derive(Default)]
struct Stoppable {
    is_stopped: bool,
    running: Vec<OwnedFd>,
}

impl GitStop {
    /// Ends those that run, and each that is started from now on.
    pub(crate) fn stop(&self) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.is_stopped = true;
        calls.running.drain(..).for_each(|call| end(&call));
    }

    fn add(&self, child: &Child) {
        let Some(call) = rustix::process::Pid::from_raw(child.id() as i32)
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return;
        };
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.is_stopped {
            end(&call)
        } else {
            calls.running.push(call)
        }
    }
}

fn end(call: &OwnedFd) {
    // It may have ended by itself.
    let _ = rustix::process::pidfd_send_signal(call, Signal::KILL);
}

/// One call of git.
pub(super) struct Git {
    command: Command,
    /// Continues "git failed …".
    action: &'static str,
    bounds: Option<Bounds>,
    stop: Option<GitStop>,
    user: Option<FileOwner>,
}

/// The user and group of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileOwner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Git {
    /// `action` describes the call, for example "reading refs".
    pub(super) fn new(repository: &Path, action: &'static str) -> Git {
        let mut command = Command::new("git");
        let path = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
        // Not in the caller's directory: neither a repository nor a program must be found there.
        command
            .current_dir("/")
            .env_clear()
            .env("PATH", path)
            .envs(ENVIRONMENT);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null");
        if let Some(place) = std::env::var_os("TMPDIR") {
            command.env("TMPDIR", place);
        }
        command.arg("--git-dir").arg(repository).arg("--no-pager");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        Git {
            command,
            action,
            bounds: None,
            stop: None,
            user: None,
        }
    }

    /// Runs it as another user, which requires root: its files belong to that user, and it has no more access
    /// than that user.
    pub(super) fn run_by(mut self, user: FileOwner) -> Git {
        // Our directory for temporary files is not accessible to others.
        self.command.env_remove("TMPDIR");
        self.user = Some(user);
        self
    }

    /// Also reads the user's own settings: identity, and global ignore patterns.
    pub(super) fn with_user_settings(mut self) -> Git {
        self.command.env_remove("GIT_CONFIG_GLOBAL");
        for name in ["HOME", "XDG_CONFIG_HOME"] {
            if let Some(value) = std::env::var_os(name) {
                self.command.env(name, value);
            }
        }
        self
    }

    /// Reads those of the system too.
    pub(super) fn with_system_settings(mut self) -> Git {
        self.command.env_remove("GIT_CONFIG_NOSYSTEM");
        self
    }

    /// Has it work on an index in another place, with no files beside it.
    pub(super) fn on_index(mut self, index: &Path) -> Git {
        self.command
            .env("GIT_INDEX_FILE", index)
            .env("GIT_WORK_TREE", "/");
        self
    }

    /// Ends it on request.
    pub(super) fn stopped_by(mut self, stop: &GitStop) -> Git {
        self.stop = Some(stop.clone());
        self
    }

    /// Makes it examine files, and record the results in an index elsewhere.
    pub(super) fn noting_files(mut self, index: &Path, files: &Path) -> Git {
        self.command
            .env("GIT_INDEX_FILE", index)
            .env("GIT_WORK_TREE", files)
            .env("GIT_OPTIONAL_LOCKS", "1");
        self
    }

    /// Ends it when it exceeds these limits. Must be called before the arguments are added.
    pub(super) fn bounded(mut self, bounds: Bounds) -> Git {
        for setting in SPARING {
            self.command.args(["-c", setting]);
        }
        self.bounds = Some(bounds);
        self
    }

    pub(super) fn arg(mut self, argument: impl AsRef<OsStr>) -> Git {
        self.command.arg(argument);
        self
    }

    pub(super) fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Git {
        self.command.args(arguments);
        self
    }

    /// Its output.
    pub(super) fn output(self) -> Result<Vec<u8>, GitError> {
        self.output_of(|_| Ok(()))
    }

    /// The line that it prints.
    pub(super) fn line(self) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.output()?).trim_end().to_owned())
    }

    /// The line that it prints; `None` if it fails.
    pub(super) fn line_if_any(self) -> Result<Option<String>, GitError> {
        match self.line() {
            Ok(line) => Ok(Some(line).filter(|line| !line.is_empty())),
            Err(GitError::Failed { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Its output for an input.
    pub(super) fn output_of(
        self,
        give: impl FnOnce(&mut dyn Write) -> Result<(), GitError>,
    ) -> Result<Vec<u8>, GitError> {
        let mut running = self.start()?;
        let (input, output) = running.ends();
        let bounds = running.bounds;
        let (given, read) = std::thread::scope(|scope| {
            let reading = scope.spawn(move || read_within(output, bounds));
            let mut input = io::BufWriter::new(input);
            let given = give(&mut input).and_then(|()| flushed(input));
            (given, reading.join().expect("reading does not panic"))
        });
        match read {
            Err(error @ GitError::Refused { .. }) => {
                running.abandon();
                Err(error)
            }
            read => running.finish_given(given).and(read),
        }
    }

    /// Has it read a file, or write to one.
    pub(super) fn between(self, input: Stdio, output: Stdio) -> Result<Vec<u8>, GitError> {
        let mut running = self.start_with(input, output)?;
        let read = match running.child.stdout.take() {
            Some(output) => read_within(output, running.bounds),
            None => Ok(Vec::new()),
        };
        match read {
            Err(error @ GitError::Refused { .. }) => {
                running.abandon();
                Err(error)
            }
            read => running.finish().and(read),
        }
    }

    /// Starts it with both ends open.
    pub(super) fn start(self) -> Result<Running, GitError> {
        self.start_with(Stdio::piped(), Stdio::piped())
    }

    fn start_with(mut self, input: Stdio, output: Stdio) -> Result<Running, GitError> {
        let complaints = tempfile::tempfile().map_err(GitError::host("making a temporary file"))?;
        let errors = complaints
            .try_clone()
            .map_err(GitError::host("making a temporary file"))?;
        if let Some(bounds) = &self.bounds {
            self.command = bounds.hold(&self.command);
        }
        if let Some(FileOwner { uid, gid }) = self.user {
            // The other groups of root are left with it.
            self.command.uid(uid).gid(gid);
        }
        self.command.stdin(input).stdout(output).stderr(errors);
        let child = self.command.spawn().map_err(GitError::NoProgram)?;
        if let Some(stop) = &self.stop {
            stop.add(&child);
        }
        Ok(Running {
            child,
            complaints,
            action: self.action,
            bounds: self.bounds,
        })
    }
}

/// Everything that it prints, unless that is too much.
fn read_within(output: ChildStdout, bounds: Option<Bounds>) -> Result<Vec<u8>, GitError> {
    let max = bounds.map_or(u64::MAX - 1, |bounds| bounds.output);
    let mut bytes = Vec::new();
    let read = output.take(max + 1).read_to_end(&mut bytes);
    if read.map_err(GitError::host("reading what git prints"))? as u64 > max {
        Err(GitError::Refused {
            reason: format!("git prints more than {max} bytes about them"),
        })
    } else {
        Ok(bytes)
    }
}

fn flushed(mut input: io::BufWriter<ChildStdin>) -> Result<(), GitError> {
    input.flush().map_err(GitError::host(GIVING))
}

pub(super) const GIVING: &str = "writing to git";

/// A running call.
pub(super) struct Running {
    child: Child,
    complaints: File,
    action: &'static str,
    bounds: Option<Bounds>,
}

impl Running {
    /// Its input and its output. Can be taken once.
    pub(super) fn ends(&mut self) -> (ChildStdin, ChildStdout) {
        let (input, output) = (self.child.stdin.take(), self.child.stdout.take());
        (
            input.expect("both ends were asked for"),
            output.expect("both ends were asked for"),
        )
    }

    /// Ends it, whatever it is doing.
    pub(super) fn abandon(mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }

    /// Waits for it. If it did not accept its input, its own error is the better one.
    pub(super) fn finish_given(self, given: Result<(), GitError>) -> Result<(), GitError> {
        match given {
            Err(GitError::Host { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => self.finish(),
            Err(error) => {
                self.abandon();
                Err(error)
            }
            Ok(()) => self.finish(),
        }
    }

    pub(super) fn finish(mut self) -> Result<(), GitError> {
        let status = self.child.wait().map_err(GitError::host("waiting for git"))?;
        match status.code() {
            Some(0) => Ok(()),
            // The status of the shell that sets the limits.
            Some(127) if self.bounds.is_some() => Err(GitError::NoProgram(io::ErrorKind::NotFound.into())),
            Some(_) | None => Err(GitError::Failed {
                action: self.action,
                message: self.complaint(status),
            }),
        }
    }

    fn complaint(&mut self, status: ExitStatus) -> String {
        let mut text = Vec::new();
        let read = self
            .complaints
            .rewind()
            .and_then(|()| self.complaints.read_to_end(&mut text));
        let mut lines: Vec<String> = text.split(|byte| *byte == b'\n').map(printable).collect();
        // Advice on settings of git is about something else than the failure.
        lines.retain(|line| !line.trim().is_empty() && !line.starts_with("hint:"));
        let is_out_of_time = [Signal::XCPU, Signal::KILL]
            .iter()
            .any(|end| status.signal() == Some(end.as_raw()));
        if let Some(bounds) = self.bounds.filter(|_| is_out_of_time) {
            return format!("it takes more than {} seconds of processor time", bounds.seconds);
        }
        if read.is_err() || lines.is_empty() {
            return status.to_string();
        }
        let mut message = lines.join("; ");
        let cut = (0..=COMPLAINT_MAX.min(message.len()))
            .rev()
            .find(|at| message.is_char_boundary(*at));
        message.truncate(cut.unwrap_or_default());
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that replaces git.
    fn plays(script: &str, bounds: Bounds) -> Result<Vec<u8>, GitError> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Git {
            command,
            action: "playing",
            bounds: Some(bounds),
            stop: None,
            user: None,
        }
        .output()
    }

    #[test]
    fn program_that_takes_too_long_is_ended() {
        let bounds = Bounds {
            seconds: 1,
            ..Bounds::default()
        };
        let error = plays("while :; do :; done", bounds).unwrap_err();
        let expected = "git failed playing: it takes more than 1 seconds of processor time";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn advice_is_no_part_of_a_failure() {
        let script = "echo 'hint: turn this off' >&2; echo hint: >&2; echo 'fatal: it broke' >&2; exit 1";
        let error = plays(script, Bounds::default()).unwrap_err();
        assert_eq!(error.to_string(), "git failed playing: fatal: it broke");
    }

    #[test]
    fn program_that_prints_too_much_is_ended() {
        let bounds = Bounds {
            output: 1000,
            ..Bounds::default()
        };
        let error = plays("while echo more; do :; done", bounds).unwrap_err();
        assert!(matches!(error, GitError::Refused { .. }), "{error}");
        assert_eq!(plays("echo little", bounds).unwrap(), b"little\n");
    }
}
