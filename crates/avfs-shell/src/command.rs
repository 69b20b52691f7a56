//! Commands of the caller, and what every command answers.

use std::collections::BTreeMap;

use avfs_vfs::Vfs;

/// What a line, or one command of it, has answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// Everything on standard output.
    pub stdout: Vec<u8>,
    /// Everything on standard error.
    pub stderr: Vec<u8>,
    /// The exit status.
    pub exit_code: i32,
}

impl CommandResult {
    /// Success, with this on standard output.
    pub fn ok(stdout: impl Into<Vec<u8>>) -> CommandResult {
        CommandResult {
            stdout: stdout.into(),
            ..CommandResult::default()
        }
    }

    /// A failure, with this on standard error.
    pub fn failure(exit_code: i32, stderr: impl Into<Vec<u8>>) -> CommandResult {
        CommandResult {
            stderr: stderr.into(),
            exit_code,
            ..CommandResult::default()
        }
    }

    /// Standard output as text. Bytes that are not UTF-8 are replaced.
    pub fn stdout_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// Standard error as text. Bytes that are not UTF-8 are replaced.
    pub fn stderr_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

/// One use of a command.
#[derive(Clone, Debug)]
pub struct CommandCall {
    /// The name by which it was called.
    pub name: String,
    /// What follows the name, after expansion.
    pub args: Vec<String>,
    /// Everything on standard input.
    pub stdin: Vec<u8>,
    /// The working directory.
    pub cwd: String,
    /// The exported variables.
    pub env: BTreeMap<String, String>,
    /// The filesystem, as the shell sees it.
    pub vfs: Vfs,
}

/// A command of the caller.
pub type OwnCommand = dyn Fn(&CommandCall) -> CommandResult + Send + Sync;
