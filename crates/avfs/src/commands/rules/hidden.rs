//! `avfs rules hidden`: which files are hidden from tasks of a project, and why.

use std::path::PathBuf;

use agentvfs::Task;
use agentvfs::hidden::{Extent, HiddenFile, hidden_in};
use anyhow::Result;
use serde::Serialize;

use super::in_force::new_task_rules;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::json::PathField;
use crate::rule_args::{Chosen, RuleArgs};

/// List the files of this project that are hidden from its tasks, and why
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The project is the one that the working directory belongs to. Without flags, the rules
are those that `avfs rules explain` uses: those of the chosen task, or else those
that `avfs run` gives to a new task. A file that git tracks is hidden only if it is a
key or a credential.

Examples:
  avfs rules hidden
  avfs rules hidden --vault task-1
  avfs rules hidden --preset agent-safe
  avfs rules hidden --json | jq -r '.files[] | select(.tracked) | .path'"
)]
pub struct HiddenArgs {
    #[command(flatten)]
    pub rules: RuleArgs,
}

/// A hidden file in JSON.
#[derive(Serialize)]
pub struct HiddenBody {
    #[serde(flatten)]
    path: PathField,
    reason: String,
    tracked: bool,
}

pub fn hidden_bodies(files: &[HiddenFile]) -> Vec<HiddenBody> {
    let body = |file: &HiddenFile| HiddenBody {
        path: PathField::from(&file.path),
        reason: file.why.to_string(),
        tracked: file.is_tracked,
    };
    files.iter().map(body).collect()
}

#[derive(Serialize)]
struct Body {
    files: Vec<HiddenBody>,
}

pub fn run(context: &mut Context<'_>, args: &HiddenArgs) -> Result<ExitStatus> {
    let files = find(context, &context.rule_args(&args.rules).clone())?;
    if context.out.is_json() {
        context.out.object(
            "rules-hidden",
            &Body {
                files: hidden_bodies(&files),
            },
        )?;
        return Ok(ExitStatus::Success);
    }
    if files.is_empty() {
        context.out.talk("nothing is hidden");
    }
    for file in &files {
        let path = crate::escape::printable_line(file.path.as_bytes());
        let tracked = if file.is_tracked {
            ", tracked: `git show` prints it all the same"
        } else {
            ""
        };
        context.out.line(format_args!("{path}  {}{tracked}", file.why))?;
    }
    Ok(ExitStatus::Success)
}

fn find(context: &mut Context<'_>, flags: &RuleArgs) -> Result<Vec<HiddenFile>> {
    context.task_store()?;
    if let Chosen::Stored = flags.read()?
        && let Some(task) = context
            .vault_if_chosen()?
            .map(|vault| Task::of_vault(&vault))
            .transpose()?
            .flatten()
    {
        let Some(rules) = task.vault().rules_for_programs()? else {
            return Ok(Vec::new());
        };
        context.out.talk(format_args!(
            "hidden from programs in task {}:",
            task.vault_name()
        ));
        return Ok(task.work().hidden_files(&rules, Extent::Everything)?.files);
    }
    let root = project(context)?;
    let rules = match flags.read()? {
        Chosen::Everything => None,
        Chosen::These(rules) => Some(rules.list().to_vec()),
        Chosen::Stored => new_task_rules(context, &root, flags)?,
    };
    match rules {
        Some(rules) => Ok(hidden_in(&root, &rules, Extent::Everything)?.files),
        None => Ok(Vec::new()),
    }
}

fn project(context: &mut Context<'_>) -> Result<PathBuf> {
    let here = std::env::current_dir().map_err(|source| agentvfs::Error::Host {
        action: "finding",
        place: "the working directory".to_owned(),
        source,
    })?;
    Ok(context.task_store()?.projects().root_of(&here)?)
}
