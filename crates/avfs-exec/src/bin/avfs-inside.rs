//! The stage as a program of its own, for this crate's tests: the product is its own stage, and so is this.
//!
//! `avfs-inside LAUNCHER WORKSPACE COMMAND…` launches a command (`bubblewrap` or `landlock`), with itself as the stage.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use avfs_exec::launch::{Inside, Run};
use avfs_exec::{Bubblewrap, Cancel, Event, Landlocked, Launcher, Plan, Stdin};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let status = match arguments.next() {
        Some(first) if first == avfs_exec::inside::ARGUMENT => {
            avfs_exec::inside::main(arguments.next().as_deref())
        }
        Some(launcher) => launch(&launcher, arguments.collect()).unwrap_or_else(|reason| complain(&reason)),
        None => complain("usage: avfs-inside LAUNCHER WORKSPACE COMMAND…"),
    };
    u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn launch(launcher: &OsString, mut rest: Vec<OsString>) -> Result<i32, String> {
    let inside = Inside::new(std::env::current_exe().map_err(|error| error.to_string())?);
    let launcher: Box<dyn Launcher> = match launcher.to_str() {
        Some("bubblewrap") => Box::new(Bubblewrap::new(inside)),
        Some("landlock") => Box::new(Landlocked::new(inside)),
        Some(_) | None => return Err("no such launcher".to_owned()),
    };
    if rest.len() < 2 {
        return Err("a workspace and a command are needed".to_owned());
    }
    let plan = Plan::new(rest.remove(0), rest);
    let cancel = Cancel::new().map_err(|error| error.to_string())?;
    let mut show = |event: Event<'_>| match event {
        // Whoever does not listen is not told.
        Event::Stdout(bytes) => {
            drop(std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()))
        }
        Event::Stderr(bytes) => drop(std::io::stderr().write_all(bytes)),
        Event::Started | Event::Stopping(_) | Event::Refused(_) => {}
    };
    let run = Run::new(&plan, Stdin::Nothing, &cancel, &mut show);
    launcher.launch(run).map(|outcome| outcome.status()).map_err(|error| format!("{}: {error}", error.code()))
}

#[allow(clippy::print_stderr, reason = "a program for tests talks to its tests")]
fn complain(reason: &str) -> i32 {
    eprintln!("avfs-inside: {reason}");
    125
}
