//! Why a process was not started, or could not be controlled.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use super::{NotOrdered, SpawnStep};

/// A process that was not started. None of its code has run.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The request contradicts itself.
    #[error("{reason}")]
    BadSpec {
        /// In what.
        reason: &'static str,
    },
    /// There is no such program inside.
    #[error("{program:?} was not found in the sandbox")]
    NotFound {
        /// Its name.
        program: OsString,
    },
    /// The program cannot be executed.
    #[error("{program:?} cannot be executed")]
    NotExecutable {
        /// Its name.
        program: OsString,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The working directory cannot be entered.
    #[error("the working directory {path:?} cannot be entered in the sandbox")]
    NoDirectory {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The process could not be confined, and was not started.
    #[error("Landlock, the limits or the filter of system calls could not be applied")]
    NotConfined,
    /// The process was given up and killed.
    #[error("{program:?} did not start in time")]
    TooSlow {
        /// Its name.
        program: OsString,
    },
    /// Too many requests wait for the sandbox.
    #[error("too many requests are waiting for the sandbox")]
    Busy,
    /// The sandbox is not there any longer.
    #[error("the sandbox has ended")]
    SandboxEnded,
    /// Another call of the system failed.
    #[error("{doing}")]
    System {
        /// What was attempted.
        doing: &'static str,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl SpawnError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadSpec { .. } => "bad_spec",
            Self::NotFound { .. } => "program_not_found",
            Self::NotExecutable { .. } => "program_not_executable",
            Self::NoDirectory { .. } => "no_such_directory",
            Self::NotConfined => "cannot_isolate",
            Self::TooSlow { .. } => "start_timed_out",
            Self::Busy => "busy",
            Self::SandboxEnded => "sandbox_ended",
            Self::System { .. } => "system_error",
        }
    }

    /// The status that a shell would show, if it would show one.
    pub fn status(&self) -> Option<i32> {
        match self {
            Self::NotFound { .. } => Some(127),
            Self::NotExecutable { .. } => Some(126),
            Self::BadSpec { .. }
            | Self::NoDirectory { .. }
            | Self::NotConfined
            | Self::TooSlow { .. }
            | Self::Busy
            | Self::SandboxEnded
            | Self::System { .. } => None,
        }
    }

    pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }

    pub(super) fn of(step: SpawnStep, errno: i32, program: OsString, cwd: PathBuf) -> Self {
        let source = io::Error::from_raw_os_error(errno);
        match step {
            SpawnStep::Program if errno == libc::ENOENT => Self::NotFound { program },
            SpawnStep::Program => Self::NotExecutable { program, source },
            SpawnStep::Directory => Self::NoDirectory { path: cwd, source },
            SpawnStep::Confinement => Self::NotConfined,
            SpawnStep::Leaving => Self::SandboxEnded,
            SpawnStep::Process => Self::System {
                doing: "making a process in the sandbox",
                source,
            },
            SpawnStep::Terminal => Self::System {
                doing: "making a terminal in the sandbox",
                source,
            },
        }
    }
}

impl From<NotOrdered> for SpawnError {
    fn from(reason: NotOrdered) -> Self {
        match reason {
            NotOrdered::Over => Self::SandboxEnded,
            NotOrdered::Busy => Self::Busy,
        }
    }
}

/// Why an operation on a process failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It is not there any longer.
    #[error("the process has ended")]
    Ended,
    /// It was closed, or never was a pipe or a terminal; or the process has closed it.
    #[error("the process reads no input")]
    InputClosed,
    /// Its input stayed full for too long.
    #[error("the process did not read its input in time")]
    InputFull,
    /// It was started without a terminal.
    #[error("the process has no terminal")]
    NoTerminal,
    /// The kernel does not know the signal.
    #[error("there is no signal {signal}")]
    NoSignal {
        /// Its number.
        signal: i32,
    },
    /// Too many requests wait for the sandbox.
    #[error("too many requests are waiting for the sandbox")]
    Busy,
    /// The sandbox is not there any longer.
    #[error("the sandbox has ended")]
    SandboxEnded,
    /// The terminal did not take the size.
    #[error("the size of the terminal cannot be set")]
    Resize(#[source] io::Error),
}

impl ProcessError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Ended => "process_ended",
            Self::InputClosed => "input_closed",
            Self::InputFull => "input_full",
            Self::NoTerminal => "no_terminal",
            Self::NoSignal { .. } => "no_such_signal",
            Self::Busy => "busy",
            Self::SandboxEnded => "sandbox_ended",
            Self::Resize(_) => "system_error",
        }
    }
}

impl From<NotOrdered> for ProcessError {
    fn from(reason: NotOrdered) -> Self {
        match reason {
            NotOrdered::Over => Self::SandboxEnded,
            NotOrdered::Busy => Self::Busy,
        }
    }
}
