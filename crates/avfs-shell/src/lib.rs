//! A shell over a filesystem in memory: a real shell language, the commands that agents use, and neither a process
//! nor a file of the host.
//!
//! ```
//! use avfs_shell::SandboxShell;
//! use avfs_vfs::Vfs;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let vfs = Vfs::new();
//! vfs.write_file("/src/main.rs", "// TODO: write it\n", None)?;
//! let mut shell = SandboxShell::new(&vfs);
//! let done = shell.exec("cd /src && grep -n TODO * > /found; wc -l < /found")?;
//! assert_eq!((done.exit_code, done.stdout_text().trim()), (0, "1"));
//! assert_eq!(shell.cwd(), "/src");
//! assert!(vfs.exists("/found")?);
//! # Ok(())
//! # }
//! ```
//!
//! The shell is not a boundary for hostile code: it runs in the process of its caller, with limits. What it cannot do
//! by itself (`host`, `python`, unknown programs) goes to a [`HostBridge`] if the caller gives one.
#![warn(missing_docs)]

mod bridge;
mod command;
mod engine;
mod error;
mod gnu;
mod shell;

pub use bridge::{HostBridge, HostCall, NO_BRIDGE_STATUS};
pub use command::{CommandCall, CommandResult, OwnCommand};
pub use engine::ShellEngine;
pub use error::ShellError;
pub use shell::{Canceller, SandboxShell, ShellLimits, ShellOptions};

/// The examples of the page about the filesystem and the shell.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/vfs.md")]
struct Page;
