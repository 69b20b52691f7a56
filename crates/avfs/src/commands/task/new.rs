//! `avfs task new`.

use std::path::PathBuf;

use agentvfs::Error;
use anyhow::Result;

use crate::commands::run::{WantedTask, given_rules};
use crate::commands::tasks::ListedTaskBody;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::here::working_directory;
use crate::rule_args::RuleArgs;

/// Create a task without running anything in it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints the name of the task. It has the rules and the setup that `avfs run` would give it, and
stays until you discard it. `avfs run --task NAME` runs a program in it.

Examples:
  avfs task new
  avfs task new fix-login
  avfs task new fix-login --from ~/src/web
  task=$(avfs task new) && avfs run --detach --task $task -- claude"
)]
pub struct NewArgs {
    #[command(flatten)]
    pub rules: RuleArgs,
    /// The name of the task [default: `task-` and a number]
    #[arg(value_name = "TASK", conflicts_with = "name")]
    task: Option<String>,
    /// The name of the task, as for `avfs run`
    #[arg(long, value_name = "TASK")]
    name: Option<String>,
    /// Fork the project that this directory belongs to [default: the working directory]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

pub fn run(context: &mut Context<'_>, args: &NewArgs) -> Result<ExitStatus> {
    let from = args.from.clone().unwrap_or_else(working_directory);
    // Without links, because projects are known by the real path of their directory.
    let from = from.canonicalize().map_err(|source| Error::Host {
        action: "finding",
        place: from.display().to_string(),
        source,
    })?;
    let wanted = WantedTask {
        name: args.task.as_deref().or(args.name.as_deref()),
        command: String::new(),
        automatic: false,
        profile: None,
        rules: given_rules(&args.rules)?,
    };
    let (task, _) = wanted.make(context, &from)?;
    if context.out.is_json() {
        context.out.object("task", &ListedTaskBody::of(&task)?)?;
        return Ok(ExitStatus::Success);
    }
    let name = context.here()?.name_of(&task);
    context.out.line(&name)?;
    context.out.talk(format_args!(
        "run something in it: avfs run --task {name} -- COMMAND"
    ));
    Ok(ExitStatus::Success)
}
