//! What a shell language interpreter has to do here: small, so that another one can take its place.

pub(crate) mod bashkit;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::command::{CommandResult, OwnCommand};
use crate::error::ShellError;

/// An interpreter with the state of one shell.
pub trait ShellEngine: Send {
    /// Runs a script with this on its standard input.
    fn exec(&mut self, script: &str, stdin: &[u8]) -> Result<CommandResult, ShellError>;

    /// Adds a command.
    fn register(&mut self, name: &str, command: Arc<OwnCommand>);

    /// Ends the script that runs once it is true.
    fn cancel_flag(&self) -> Arc<AtomicBool>;

    /// The working directory.
    fn cwd(&self) -> String;

    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// Sets an exported variable.
    fn set_variable(&mut self, name: &str, value: &str);
}
