//! Starting the process that serves a mount after this one has ended.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use agentvfs::Error;
use anyhow::Result;

use super::{MountArgs, Plan};
use crate::context::Context;
use crate::exit::ExitStatus;

pub(super) enum Started {
    /// This process serves.
    Ready(u32),
    /// It has said why not.
    Failed(ExitStatus),
}

/// What the process says, with the number of the one that serves, which may have become another one.
pub(super) const READY: &str = "ready";

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
    command.arg("--transport").arg(plan.options.transport.as_str());
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
    if let Some(pid) = line.strip_prefix(READY).and_then(|pid| pid.trim().parse().ok()) {
        return Ok(Started::Ready(pid));
    }
    let status = child.wait().map_err(|source| host("waiting for", source))?;
    let number = status.code().and_then(|code| u8::try_from(code).ok());
    let known = ExitStatus::ALL.into_iter().find(|status| Some(status.number()) == number);
    Ok(Started::Failed(known.filter(|status| *status != ExitStatus::Success).unwrap_or(ExitStatus::Internal)))
}
