//! `cargo xtask`: work on the repository itself. Nothing here is part of the product.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what a task does"
)]

mod bench;
mod shape;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// A task: its name, its purpose, and its function, which receives the remaining arguments.
struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<ExitCode>,
}

const TASKS: &[Task] = &[
    Task {
        name: "help",
        about: "List the tasks",
        run: help,
    },
    Task {
        name: "bench",
        about: "Measure: `bench core` for vaults by their size, `bench mount` for mounts beside a host directory, \
                 `bench rules` for mounts with and without rules, `bench scale` for mounts of great size, \
                 `bench exec` for runs, `bench server` for `avfs serve`",
        run: bench::run,
    },
    Task {
        name: "shape",
        about: "Count what the structure is judged by: import cycles, names of types, methods, comments; `--details` \
                 and the name of a crate say more",
        run: shape::run,
    },
];

/// Errors are printed as a sentence: the reports of tasks are for people, never a backtrace.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    task(&arguments).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn task(arguments: &[String]) -> Result<ExitCode> {
    let Some((name, rest)) = arguments.split_first() else {
        return help(&[]);
    };
    match TASKS.iter().find(|task| task.name == name) {
        Some(task) => (task.run)(rest),
        None => bail!("no task '{name}': `cargo xtask help` lists them"),
    }
}

fn help(_: &[String]) -> Result<ExitCode> {
    println!("Usage: cargo xtask TASK [ARGUMENTS]\n\nTasks:");
    for task in TASKS {
        println!("  {:<10} {}", task.name, task.about);
    }
    Ok(ExitCode::SUCCESS)
}
