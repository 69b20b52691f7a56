//! The cost of a command in an open sandbox, compared with a separate run and bubblewrap alone: medians of
//! `true`, in turns.
//!
//! `cargo run --release -p agentvfs --example open_sandbox_speed -- [ROUNDS]`, with `avfs` built or on the `PATH`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::process::Command as Process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentvfs::exec::sandbox::Cancel;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::launch::InnerProgram;
use agentvfs::exec::{RunContext, RunSpec};
use agentvfs::{SandboxCommand, Store, VaultName};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let rounds = std::env::args()
        .nth(1)
        .map_or(Ok(100), |text| text.parse::<usize>())?;
    let path = std::env::var_os("PATH");
    let inside = InnerProgram::find(None, path.as_deref()).ok_or("avfs is not built")?;
    let store = Store::in_memory();
    let vault = store.create_vault(&VaultName::new("v")?)?;
    let runs = store.create_vault(&VaultName::new("runs")?)?;
    let spec = RunSpec::new(Command::Argv(vec!["true".into()]));
    let sandbox = vault.open_sandbox(&spec, inside.clone(), None, Arc::new(|_| ()))?;
    let cancel = Cancel::new()?;
    let (mut bubblewrap, mut run, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        bubblewrap.push(timed(|| {
            let mut bwrap = Process::new("bwrap");
            bwrap.args([
                "--unshare-all",
                "--ro-bind",
                "/",
                "/",
                "--proc",
                "/proc",
                "--dev",
                "/dev",
                "true",
            ]);
            let is_success = bwrap.status()?.success();
            is_success.then_some(()).ok_or_else(|| "bubblewrap failed".into())
        })?);
        run.push(timed(|| {
            let finished = runs.exec(&spec, RunContext::new(inside.clone(), &cancel, &mut ()));
            let is_success = finished.outcome.is_success();
            finished.after.wait();
            is_success.then_some(()).ok_or_else(|| "the run failed".into())
        })?);
        open.push(timed(|| {
            let command = SandboxCommand::new(spec.command.clone());
            let finished = sandbox.exec(command, &cancel, &mut ());
            let is_success = finished.outcome.is_success();
            is_success
                .then_some(())
                .ok_or_else(|| "the command failed".into())
        })?);
    }
    sandbox.end()?.wait();
    for (what, mut times) in [
        ("bubblewrap alone", bubblewrap),
        ("a run of its own", run),
        ("in the open sandbox", open),
    ] {
        times.sort();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        println!("{what}: median {:?}, 90th {:?}", at(50), at(90));
    }
    Ok(())
}

fn timed(act: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed())
}
