//! `avfs fork`: copies of a task, for attempts beside each other.

use agentvfs::{Project, TaskName};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;

/// The most copies that one command makes.
const MOST: u32 = 1000;

/// Copy a task as it is now, once or several times
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The copies have everything that the task has at this moment, even while it runs, and
are separate tasks.

Examples:
  avfs fork 3                      three attempts, from where the only task is
  avfs fork 2 --task fix --name try
  avfs compare try-1 try-2"
)]
pub struct ForkArgs {
    /// How many copies to make
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    count: u32,

    /// The task to copy [default: the one that commands work on here]
    #[arg(long, value_name = "TASK")]
    task: Option<String>,

    /// Name the copies NAME-1, NAME-2, … [default: the task's name]
    #[arg(long)]
    name: Option<String>,
}

#[derive(Serialize)]
struct ForkBody {
    task: String,
    copies: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &ForkArgs) -> Result<ExitStatus> {
    let task = context.task(args.task.as_deref())?;
    let project = task.vault().store().project(task.root())?;
    let prefix = args.name.as_deref().unwrap_or(task.name().as_str());
    let names = free_names(&project, prefix, args.count)?;
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
        context.out.talk(format_args!(
            "continue in one of them with `avfs run --task {}`",
            body.copies[0]
        ));
    }
    Ok(ExitStatus::Success)
}

/// Names with the next numbers that are free.
fn free_names(project: &Project, prefix: &str, count: u32) -> Result<Vec<TaskName>> {
    let mut names = Vec::new();
    let mut number = 0;
    while names.len() < count as usize {
        number += 1;
        let name = TaskName::new(&format!("{prefix}-{number}"))?;
        if project.task(name.as_str())?.is_none() {
            names.push(name);
        }
    }
    Ok(names)
}
