//! `avfs quickstart`: from a directory to an agent that works in a copy of it.

use std::path::PathBuf;

use agentvfs::Error;
use anyhow::Result;
use serde::Serialize;

use crate::commands::run::{WantedTask, given_rules};
use crate::commands::workspace::{QUICKSTART, mounted};
use crate::commands::{doctor, setup};
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::here::working_directory;
use crate::rule_args::RuleArgs;

/// Check the machine, create a first task, and say what to type next
#[derive(Debug, clap::Args)]
#[command(
    after_help = "On a terminal, offers to set up the agents that are found here. For scripts, standard output has
`mount=`, the directory of the task, and `next=`, the line to type.

Examples:
  avfs quickstart
  avfs quickstart ~/src/web"
)]
pub struct QuickstartArgs {
    /// The project [default: the working directory]
    dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct QuickstartBody {
    task: String,
    mount: PathBuf,
    next: String,
}

pub fn run(context: &mut Context<'_>, args: &QuickstartArgs) -> Result<ExitStatus> {
    if let Some(status) = doctor::tell_missing(context)? {
        return Ok(status);
    }
    let dir = args.dir.clone().unwrap_or_else(working_directory);
    let dir = dir.canonicalize().map_err(|source| Error::Host {
        action: "finding",
        place: dir.display().to_string(),
        source,
    })?;
    let wanted = WantedTask {
        name: None,
        command: QUICKSTART.to_owned(),
        automatic: true,
        profile: None,
        rules: given_rules(&RuleArgs::default())?,
    };
    let (task, made) = wanted.make(context, &dir)?;
    let mount = match mounted(context, &task, None) {
        Ok(Ok(mount)) => mount,
        failed => {
            made.withdraw(&task);
            return failed.map(|mounted| mounted.err().unwrap_or(ExitStatus::Success));
        }
    };
    let agents = setup::found_agents()?;
    if context.out.is_terminal() && context.out.talks() {
        for agent in &agents {
            if !agent.is_set_up
                && confirm(
                    context.out,
                    format_args!("Give {} the tools of avfs?", agent.name),
                    false,
                )?
            {
                setup::set_up(context, agent)?;
            }
        }
    }
    let program = agents.iter().find_map(|agent| agent.program).unwrap_or("$SHELL");
    let next = format!(
        "cd {} && {program}",
        avfs_core::shell_word(&mount.display().to_string())
    );
    let body = QuickstartBody {
        task: task.vault_name().to_string(),
        mount,
        next,
    };
    if context.out.is_json() {
        context.out.object("quickstart", &body)?;
        return Ok(ExitStatus::Success);
    }
    context.out.line(format_args!("mount={}", body.mount.display()))?;
    context.out.line(format_args!("next={}", body.next))?;
    let name = task.name();
    context.out.talk(format_args!(
        "work there, then: avfs workspace stop {name}; avfs diff {name}; avfs apply {name}"
    ));
    Ok(ExitStatus::Success)
}
