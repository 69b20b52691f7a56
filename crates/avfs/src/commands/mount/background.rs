//! Starting the process that serves a mount after this one has ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, Stdio};

use agentvfs::Error;
use agentvfs::mount::MountOptions;
use anyhow::Result;

use super::Plan;
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
pub(super) fn start(context: &mut Context<'_>, plan: &Plan) -> Result<Started> {
    let host = |action, source| Error::Host { action, place: "avfs".into(), source };
    let program = std::env::current_exe().map_err(|source| host("finding", source))?;
    let mut command = Command::new(program);
    command.arg("mount").arg("--background-child").arg("--home").arg(context.home()?);
    if context.out.is_json() {
        command.arg("--json");
    }
    command.arg(plan.vault.name()?.as_str()).arg(&plan.dir);
    // Memory that each thread keeps for itself is memory that an idle mount does not give back.
    command.env("MALLOC_ARENA_MAX", "2");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().map_err(|source| host("starting", source))?;
    if let Some(input) = child.stdin.take() {
        // If it does not listen, it has ended and told why.
        let _ = tell(input, &plan.options);
    }
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        // An end without a word is a failure that it has told on its own.
        let _ = BufReader::new(output).read_line(&mut line);
    }
    if let Some(pid) = line.strip_prefix(READY).and_then(|pid| pid.trim().parse().ok()) {
        return Ok(Started::Ready(pid));
    }
    // As an object, it was told to us.
    context.out.bytes(line.as_bytes())?;
    let status = child.wait().map_err(|source| host("waiting for", source))?;
    let number = status.code().and_then(|code| u8::try_from(code).ok());
    let known = ExitStatus::ALL.into_iter().find(|status| Some(status.number()) == number);
    Ok(Started::Failed(known.filter(|status| *status != ExitStatus::Success).unwrap_or(ExitStatus::Internal)))
}

/// Rules can be many: more than a command line holds.
fn tell(mut input: ChildStdin, options: &MountOptions) -> std::io::Result<()> {
    input.write_all(options.words().join("\0").as_bytes())
}

/// What the process that started this one has told it.
pub(super) fn told() -> Result<MountOptions> {
    let host = |source| Error::Host { action: "listening to", place: "avfs".into(), source };
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).map_err(host)?;
    let words: Vec<String> = text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    Ok(MountOptions::parse(&words)?)
}
