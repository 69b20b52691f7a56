//! The way out of the shell: programs of the host, in a sandbox, on the same files.

use std::path::PathBuf;

use avfs_vfs::TreePath;

use crate::command::{CommandCall, CommandResult};

/// The status of a command that needs a bridge where there is none, as of a program that cannot be started.
pub const NO_BRIDGE_STATUS: i32 = 126;

/// What goes through the bridge.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The directory that the program sees as its working tree.
    pub tree: TreePath,
    /// Where it was called, with its input and environment.
    pub call: CommandCall,
}

/// Runs programs of the host in a sandbox, on a directory of the filesystem, and brings their changes back as one
/// step. The shell itself starts nothing.
pub trait HostBridge: Send + Sync {
    /// Runs one program to its end.
    fn run(&self, call: &HostCall) -> CommandResult;
}

/// `host [-p DIRECTORY] PROGRAM [ARGUMENT]…`
pub(crate) fn host_command(call: &CommandCall) -> Result<HostCall, CommandResult> {
    let usage = || CommandResult::failure(2, "usage: host [-p DIRECTORY] PROGRAM [ARGUMENT]...\n");
    let mut args = call.args.iter();
    let mut directory = PathBuf::from(&call.cwd);
    let mut argv = Vec::new();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-p" | "--path" => directory.push(args.next().ok_or_else(usage)?),
            "--" => argv.extend(args.by_ref().cloned()),
            option if option.starts_with('-') => return Err(usage()),
            _ => {
                argv.push(arg.clone());
                argv.extend(args.by_ref().cloned());
            }
        }
    }
    if argv.is_empty() {
        return Err(usage());
    }
    let tree = TreePath::parse(directory.as_os_str().as_encoded_bytes())
        .map_err(|error| CommandResult::failure(1, format!("host: {error}\n")))?;
    Ok(HostCall {
        argv,
        tree,
        call: call.clone(),
    })
}

/// A program by its name, on everything.
pub(crate) fn program_call(call: &CommandCall) -> HostCall {
    let argv = std::iter::once(&call.name).chain(&call.args).cloned().collect();
    HostCall {
        argv,
        tree: TreePath::root(),
        call: call.clone(),
    }
}

/// What a command answers that needs a bridge.
pub(crate) fn no_bridge(name: &str) -> CommandResult {
    CommandResult::failure(
        NO_BRIDGE_STATUS,
        format!(
            "{name}: programs of the host are off in this shell: give it a host bridge (host_fallback), \
             which needs bubblewrap\n"
        ),
    )
}
