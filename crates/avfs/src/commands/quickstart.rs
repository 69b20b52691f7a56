//! `avfs quickstart`: from a directory to an agent that works in a copy of it.

use std::path::{Path, PathBuf};

use agentvfs::{Error, Task};
use anyhow::Result;
use serde::Serialize;

use crate::commands::run::{WantedTask, given_rules};
use crate::commands::workspace::{QUICKSTART, mounted};
use crate::commands::{doctor, setup};
use crate::confirm::{SeriesAnswer, ask_in_series};
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
    context.out.talk("this machine has what avfs needs");
    let (task, made) = match untouched(context, &dir)? {
        Some(task) => (task, None),
        None => {
            let wanted = WantedTask {
                name: None,
                command: QUICKSTART.to_owned(),
                automatic: true,
                profile: None,
                rules: given_rules(&RuleArgs::default())?,
            };
            let (task, made) = wanted.make(context, &dir)?;
            (task, Some(made))
        }
    };
    let mount = match mounted(context, &task, None) {
        Ok(Ok(mount)) => mount,
        failed => {
            if let Some(made) = made {
                made.withdraw(&task);
            }
            return failed.map(|mounted| mounted.err().unwrap_or(ExitStatus::Success));
        }
    };
    let agents = setup::found_agents()?;
    if context.out.is_terminal() && context.out.talks() {
        offer_setup(context, &agents)?;
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

/// The task of an earlier quickstart in which nothing has been done yet.
fn untouched(context: &mut Context<'_>, dir: &Path) -> Result<Option<Task>> {
    let store = context.task_store()?;
    let root = store.projects().root_of(dir)?;
    let Some(project) = store.projects().known_project(&root)? else {
        return Ok(None);
    };
    for task in project.tasks()? {
        if task.command() != QUICKSTART || task.runs().last()?.is_some() {
            continue;
        }
        // It is mounted, so its state alone does not tell.
        let changes = task.changes()?;
        if changes.files.is_empty() && changes.ignored_places.is_empty() && task.open_conflicts()?.is_empty()
        {
            return Ok(Some(task));
        }
    }
    Ok(None)
}

fn offer_setup(context: &mut Context<'_>, agents: &[setup::FoundAgent]) -> Result<()> {
    let mut answer = SeriesAnswer::No;
    for agent in agents.iter().filter(|agent| !agent.is_set_up) {
        if answer != SeriesAnswer::All {
            let file = agent.file.as_deref().map(crate::escape::printable_path);
            let file = file.map_or(String::new(), |file| format!(" ({file})"));
            answer = ask_in_series(
                context.out,
                format_args!("Give {} the tools of avfs{file}?", agent.name),
            )?;
        }
        match answer {
            SeriesAnswer::Yes | SeriesAnswer::All => setup::set_up(context, agent)?,
            SeriesAnswer::No => {}
            SeriesAnswer::None => break,
        }
    }
    Ok(())
}
