//! Starting the process that serves a mount after this one has ended.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use agentvfs::Error;
use anyhow::Result;

use super::{MountArgs, Plan};
use crate::context::Context;
use crate::exit::ExitStatus;

pub(super) enum Started {
    /// It serves, as this process.
    Ready(u32),
    /// This process owns the vault.
    Busy(String),
    /// It has said why not.
    Failed(ExitStatus),
}

/// What the process says when it serves.
pub(super) const READY: &str = "ready";
/// What it says, with the owner, if another one owns the vault.
pub(super) const BUSY: &str = "busy ";

/// Starts it and waits until it serves or has failed. Until then it talks to our user in our place.
pub(super) fn start(context: &Context<'_>, plan: &Plan, args: &MountArgs) -> Result<Started> {
    let host = |action, source| Error::Host { action, place: "avfs".into(), source };
    let program = std::env::current_exe().map_err(|source| host("finding", source))?;
    let mut command = Command::new(program);
    command.arg("mount").arg("--background-child").arg("--home").arg(context.home()?);
    if context.out.is_json() {
        command.arg("--json");
    }
    command.args(args.read_only.then_some("--read-only")).args(args.allow_other.then_some("--allow-other"));
    command.arg("--transport").arg(args.transport.as_str());
    if let Some(snapshot) = plan.options.at {
        command.arg("--at").arg(snapshot.to_string());
    }
    command.arg(plan.vault.name()?.as_str()).arg(&plan.dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().map_err(|source| host("starting", source))?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        // An end without a word is a failure that it has told on its own.
        let _ = BufReader::new(output).read_line(&mut line);
    }
    if line.trim_end() == READY {
        return Ok(Started::Ready(child.id()));
    }
    let busy = line.trim_end().strip_prefix(BUSY).map(str::to_owned);
    let status = child.wait().map_err(|source| host("waiting for", source))?;
    if let Some(owner) = busy {
        return Ok(Started::Busy(owner));
    }
    let number = status.code().and_then(|code| u8::try_from(code).ok());
    let known = ExitStatus::ALL.into_iter().find(|status| Some(status.number()) == number);
    Ok(Started::Failed(known.filter(|status| *status != ExitStatus::Success).unwrap_or(ExitStatus::Internal)))
}
