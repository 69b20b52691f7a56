//! `avfs fork`: copies of a task, for attempts beside each other.

use agentvfs::{Store, Task, VaultName};
use anyhow::Result;
use serde::Serialize;

use crate::commands::tasks::tasks_here;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// The most copies that one command makes.
const MOST: u32 = 1000;

/// Make copies of a task as it is now
#[derive(Debug, clap::Args)]
#[command(after_help = "The copies have everything that the task has at this moment, also while it runs,
and are tasks of their own. Without --task it is the newest task of this project.

Examples:
  avfs fork 3                      three attempts, from where the newest task is
  avfs fork 2 --task fix --name try
  avfs compare try-1 try-2")]
pub struct ForkArgs {
    /// How many
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    count: u32,

    /// Of which task
    #[arg(long, value_name = "TASK")]
    task: Option<String>,

    /// What the copies are called, with a number behind it [default: the task's name]
    #[arg(long)]
    name: Option<String>,
}

#[derive(Serialize)]
struct ForkBody {
    task: String,
    copies: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &ForkArgs) -> Result<ExitStatus> {
    let store = context.task_store()?;
    let task = chosen(&store, args.task.as_deref())?;
    let prefix = args.name.as_deref().unwrap_or(task.name().as_str());
    let names = free_names(&store, prefix, args.count)?;
    let copies = task.fork(&names)?;
    let body = ForkBody {
        task: task.name().to_string(),
        copies: copies.iter().map(|copy| copy.name().to_string()).collect(),
    };
    if context.out.is_json() {
        context.out.object("fork", &body)?;
    } else {
        for name in &body.copies {
            context.out.line(name)?;
        }
        context.out.talk(format_args!("go on in one of them with `avfs run --task {}`", body.copies[0]));
    }
    Ok(ExitStatus::Success)
}

/// The task that was named, or the newest one here.
fn chosen(store: &Store, named: Option<&str>) -> Result<Task> {
    if let Some(name) = named {
        return Ok(store.task(name)?);
    }
    let none = || {
        Failure::new("no-task", ExitStatus::NotFound, "this project has no task")
            .hint(Some("start one with `avfs run`, or name one with --task".to_owned()))
    };
    Ok(tasks_here(store)?.pop().ok_or_else(none)?)
}

/// Names with the next numbers that are free.
fn free_names(store: &Store, prefix: &str, count: u32) -> Result<Vec<VaultName>> {
    let mut names = Vec::new();
    let mut number = 0;
    while names.len() < count as usize {
        number += 1;
        let name = VaultName::new(&format!("{prefix}-{number}"))?;
        if !store.has_vault(name.as_str())? {
            names.push(name);
        }
    }
    Ok(names)
}
