//! How a program embeds agentvfs: a store in memory, a vault from a directory, a command in a sandbox with
//! rules, its changes, a fork, a session, and applying the work to the directory.
//!
//! `cargo run -p agentvfs --example embed -- DIRECTORY`, with `avfs` built or on the `PATH`, and bubblewrap installed.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::path::PathBuf;
use std::sync::Arc;

use agentvfs::apply::ApplyOptions;
use agentvfs::exec::sandbox::Cancel;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::launch::InnerProgram;
use agentvfs::exec::{RunContext, RunSpec};
use agentvfs::session::{IDLE, SessionCommand, SessionRequest};
use agentvfs::{NewTask, Store, TaskName};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = PathBuf::from(std::env::args_os().nth(1).ok_or("which directory?")?);
    let path = std::env::var_os("PATH");
    let inside = InnerProgram::find(None, path.as_deref()).ok_or("avfs is not built")?;
    let shell = |line: &str| Command::Shell(line.to_owned());

    // A task is a vault made from a directory: instantly, without copying anything.
    let store = Store::in_memory();
    let task = store.project(&directory)?.new_task(&NewTask::default())?;

    // One command, for which only *.txt can be written and .env does not exist.
    let rules = agentvfs::rules::lines(&["/**=read", "*.txt=write", ".env=none"])?;
    let mut spec = RunSpec::new(shell("ls -A; echo from the sandbox >new.txt; echo x >other"));
    spec.rules = Some(rules);
    let cancel = Cancel::new()?;
    let vault = task.vault();
    let run = vault.exec(&spec, RunContext::new(inside.clone(), &cancel, &mut ()));
    for file in &run.outcome.changed_files {
        println!("changed: {}", file.path.path);
    }
    run.after.wait();

    // A fork is another task with the same work, free until it changes something.
    let fork = task.fork(&[TaskName::new("other")?])?.remove(0);
    let request = SessionRequest {
        exec: RunSpec::new(shell("")),
        idle: IDLE,
    };
    let vault = fork.vault();
    let session = vault.hold_session(request, inside, None, Arc::new(|_| ()))?;
    for line in ["cd /workspace && who=fork", "echo $who >>new.txt; cat new.txt"] {
        let answer = session.exec(&SessionCommand::new(shell(line)), &mut |_| ())?;
        let output = answer.envelope["result"]["stdout"].as_str();
        print!("{}", output.unwrap_or_default());
    }
    session.end()?;

    // All of it or nothing, merged with the changes that the user made meanwhile.
    let applied = task.apply(&ApplyOptions::default())?;
    println!("applied: {} file(s)", applied.files.len());
    Ok(())
}
