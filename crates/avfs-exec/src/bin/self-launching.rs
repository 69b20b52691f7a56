//! A program that launches commands with itself as the first program of the sandbox, for the tests of this crate.
//!
//! `self-launching LAUNCHER WORKSPACE COMMAND…` launches a command (`bubblewrap` or `landlock`), with itself as the stage.
//! `processes` in place of a launcher starts it in a sandbox that stays open until it has ended.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use avfs_exec::launch::{InnerProgram, LaunchRequest};
use avfs_exec::processes::OutputEvent;
use avfs_exec::{
    Bubblewrap, Cancel, Landlocked, Launcher, ProcessSandbox, ProcessSpec, RunEvent, SandboxPlan, Stdin,
};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let status = match arguments.next() {
        Some(first) if first == avfs_exec::inside::ARGUMENT => {
            avfs_exec::inside::main(arguments.next().as_deref())
        }
        Some(launcher) => launch(&launcher, arguments.collect()).unwrap_or_else(|reason| complain(&reason)),
        None => complain("usage: self-launching LAUNCHER WORKSPACE COMMAND…"),
    };
    u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn launch(launcher: &OsString, mut rest: Vec<OsString>) -> Result<i32, String> {
    let inside = InnerProgram::new(std::env::current_exe().map_err(|error| error.to_string())?);
    if rest.len() < 2 {
        return Err("a workspace and a command are needed".to_owned());
    }
    let launcher: Box<dyn Launcher> = match launcher.to_str() {
        Some("processes") => return start(Bubblewrap::new(inside), rest.remove(0), rest),
        Some("bubblewrap") => Box::new(Bubblewrap::new(inside)),
        Some("landlock") => Box::new(Landlocked::new(inside)),
        Some(_) | None => return Err("no such launcher".to_owned()),
    };
    let plan = SandboxPlan::new(rest.remove(0), rest);
    let cancel = Cancel::new().map_err(|error| error.to_string())?;
    let mut show = |event: RunEvent<'_>| match event {
        // A reader that is gone misses its output.
        RunEvent::Stdout(bytes) => drop(
            std::io::stdout()
                .write_all(bytes)
                .and_then(|()| std::io::stdout().flush()),
        ),
        RunEvent::Stderr(bytes) => drop(std::io::stderr().write_all(bytes)),
        RunEvent::Started | RunEvent::Stopping(_) | RunEvent::Refused(_) => {}
    };
    let run = LaunchRequest::new(&plan, Stdin::Nothing, &cancel, &mut show);
    launcher
        .launch(run)
        .map(|outcome| outcome.status())
        .map_err(|error| format!("{}: {error}", error.code()))
}

/// Starts a command in an open sandbox.
fn start(launcher: Bubblewrap, workspace: OsString, command: Vec<OsString>) -> Result<i32, String> {
    let plan = SandboxPlan::new(workspace, [""; 0]);
    let sandbox = ProcessSandbox::start(launcher, plan).map_err(|error| error.to_string())?;
    let process = sandbox
        .spawn(ProcessSpec::new(command))
        .map_err(|error| format!("{}: {error}", error.code()))?;
    let mut events = process.subscribe();
    let so_far = events.so_far().clone();
    let show = |bytes: &[u8]| {
        let mut out = std::io::stdout();
        // A reader that is gone misses its output.
        out.write_all(bytes).and_then(|()| out.flush()).ok();
    };
    show(&so_far.stdout.bytes());
    for event in &mut events {
        match event {
            OutputEvent::Stdout(bytes) => show(&bytes),
            OutputEvent::Stderr(_) | OutputEvent::Skipped { .. } => {}
            OutputEvent::Ended(end) => return Ok(end.status()),
        }
    }
    Err("the process is gone".to_owned())
}

#[allow(clippy::print_stderr, reason = "a program for tests talks to its tests")]
fn complain(reason: &str) -> i32 {
    eprintln!("self-launching: {reason}");
    125
}
