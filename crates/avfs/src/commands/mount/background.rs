//! Starting the process that serves a mount after this one has ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, Stdio};

use agentvfs::Error;
use agentvfs::mount::MountOptions;
use anyhow::Result;

use super::MountPlan;
use crate::context::Context;
use crate::exit::ExitStatus;

pub(super) enum StartedMount {
    /// This process serves.
    Ready(u32),
    /// It has reported the reason.
    Failed(ExitStatus),
}

/// The message of the process, followed by the number of the serving process, which may be a different one.
pub(super) const READY: &str = "ready";

/// Starts it and waits until it serves or has failed. Until then it talks to our user in our place.
pub(super) fn start(context: &mut Context<'_>, plan: &MountPlan) -> Result<StartedMount> {
    let host = |action, source| Error::Host {
        action,
        place: "avfs".into(),
        source,
    };
    let program = std::env::current_exe().map_err(|source| host("finding", source))?;
    let mut command = Command::new(program);
    command
        .arg("mount")
        .arg("--background-child")
        .arg("--home")
        .arg(context.home()?);
    if context.out.is_json() {
        command.arg("--json");
    }
    command.arg(plan.vault.name()?.as_str()).arg(&plan.dir);
    // Memory that each thread keeps for itself is memory that an idle mount does not give back.
    command.env("MALLOC_ARENA_MAX", "2");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = command.spawn().map_err(|source| host("starting", source))?;
    // Closing the pipe, at the end of this block, tells the process that it has everything.
    if let Some(input) = child.stdin.take() {
        // If it does not read, it has ended and reported the reason.
        let _ = tell(input, &plan.options);
    }
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        // If it ends without a message, it has reported the failure itself.
        let _ = BufReader::new(output).read_line(&mut line);
    }
    // Its number can be another one than the child's: an owner that exists already serves the mount itself.
    if let Some(pid) = line.strip_prefix(READY).and_then(|pid| pid.trim().parse().ok()) {
        return Ok(StartedMount::Ready(pid));
    }
    // A JSON object was sent to us to print.
    context.out.bytes(line.as_bytes())?;
    let status = child.wait().map_err(|source| host("waiting for", source))?;
    let number = status.code().and_then(|code| u8::try_from(code).ok());
    let known = ExitStatus::ALL
        .into_iter()
        .find(|status| Some(status.number()) == number);
    Ok(StartedMount::Failed(
        known
            .filter(|status| *status != ExitStatus::Success)
            .unwrap_or(ExitStatus::Internal),
    ))
}

/// Rules can be many: more than a command line holds.
fn tell(mut input: ChildStdin, options: &MountOptions) -> std::io::Result<()> {
    input.write_all(options.words().join("\0").as_bytes())
}

/// The options from the process that started this one.
pub(super) fn told() -> Result<MountOptions> {
    let host = |source| Error::Host {
        action: "listening to",
        place: "avfs".into(),
        source,
    };
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).map_err(host)?;
    let words: Vec<String> = text
        .split('\0')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    Ok(MountOptions::parse(&words)?)
}
