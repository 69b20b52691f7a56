//! The shell that callers use.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use avfs_vfs::{Vfs, VisibilityView};

use crate::bridge::HostBridge;
use crate::command::{CommandResult, OwnCommand};
use crate::engine::ShellEngine;
use crate::engine::bashkit::BashkitEngine;
use crate::error::ShellError;

/// What one line may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellLimits {
    /// How long a line may take.
    pub time: Duration,
    /// How many commands a line may run.
    pub commands: usize,
    /// How often one loop may go round.
    pub loop_rounds: usize,
    /// How deep functions may call each other: at most 16.
    pub depth: usize,
}

impl Default for ShellLimits {
    fn default() -> ShellLimits {
        ShellLimits {
            time: Duration::from_secs(30),
            commands: 100_000,
            loop_rounds: 100_000,
            depth: 16,
        }
    }
}

/// How a shell is made.
#[derive(Clone, Default)]
pub struct ShellOptions {
    /// What the shell can see. A filesystem handle that has a view keeps that one.
    pub view: Option<VisibilityView>,
    /// The only commands that it runs, besides those of the shell language. `None`: all.
    pub allowed_commands: Option<BTreeSet<String>>,
    /// More output of a line is an error. `None`: 1 MiB.
    pub max_output_bytes: Option<usize>,
    /// Exported variables.
    pub env: BTreeMap<String, String>,
    /// The first working directory. `None`: the root.
    pub cwd: Option<String>,
    /// What one line may use.
    pub limits: ShellLimits,
    /// Commands of the caller. They stand before those of the shell.
    pub commands: BTreeMap<String, Arc<OwnCommand>>,
    /// Runs `host` and `python`.
    pub bridge: Option<Arc<dyn HostBridge>>,
    /// Whether commands that the shell does not have go to the bridge as well.
    pub host_fallback: bool,
}

impl fmt::Debug for ShellOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellOptions")
            .field("allowed_commands", &self.allowed_commands)
            .field("max_output_bytes", &self.max_output_bytes)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A shell over a filesystem in memory. Working directory, variables and functions last from line to line.
pub struct SandboxShell {
    engine: Box<dyn ShellEngine>,
}

impl fmt::Debug for SandboxShell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SandboxShell(in {})", self.cwd())
    }
}

impl SandboxShell {
    /// A shell that sees everything and has the default limits.
    pub fn new(vfs: &Vfs) -> SandboxShell {
        let engine = BashkitEngine::new(vfs.clone(), ShellOptions::default());
        SandboxShell {
            engine: Box::new(engine),
        }
    }

    /// A shell with these options.
    pub fn with_options(vfs: &Vfs, mut options: ShellOptions) -> Result<SandboxShell, avfs_vfs::VfsError> {
        let vfs = match options.view.take() {
            Some(view) => vfs.with_view(view)?,
            None => vfs.clone(),
        };
        if let Some(cwd) = &options.cwd {
            vfs.ls(cwd)?;
        }
        let engine = BashkitEngine::new(vfs, options);
        Ok(SandboxShell {
            engine: Box::new(engine),
        })
    }

    /// Runs a line, or a script of many.
    pub fn exec(&mut self, script: &str) -> Result<CommandResult, ShellError> {
        self.engine.exec(script, &[])
    }

    /// Runs a line with this on its standard input.
    pub fn exec_with_input(&mut self, script: &str, stdin: &[u8]) -> Result<CommandResult, ShellError> {
        self.engine.exec(script, stdin)
    }

    /// Adds a command, or replaces one of the caller. From here on, commands of the shell stand before it.
    pub fn register_command(&mut self, name: &str, command: Arc<OwnCommand>) {
        self.engine.register(name, command);
    }

    /// Ends what runs now, from another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.engine.cancel_flag())
    }

    /// The working directory.
    pub fn cwd(&self) -> String {
        self.engine.cwd()
    }

    /// The value of a variable.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.engine.variable(name)
    }

    /// Sets an exported variable.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.engine.set_variable(name, value);
    }
}

/// Ends the line that a shell runs.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<AtomicBool>);

impl Canceller {
    /// The line ends with [`ShellError::Cancelled`].
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
