//! `avfs hook worktree-create` and `worktree-remove`: a worktree of an agent is a mounted fork of the project.

use std::path::Path;

use agentvfs::Task;
use anyhow::Result;

use super::input::HookInput;
use crate::commands::run::{WantedTask, given_rules};
use crate::commands::unmount;
use crate::commands::workspace::{mounted, remove_place};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::rule_args::RuleArgs;

/// Open a fork of the project as a worktree of the agent
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints where the fork is mounted. It has everything that the project has, ignored files included, and
is there at once.

Examples:
  avfs hook worktree-create <input.json"
)]
pub struct HookWorktreeCreateArgs {}

/// Unmount a worktree of the agent; its work stays as a task
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs hook worktree-remove <input.json")]
pub struct HookWorktreeRemoveArgs {}

pub fn create(context: &mut Context<'_>, _: &HookWorktreeCreateArgs) -> Result<ExitStatus> {
    let input = HookInput::read()?;
    let name = task_name(&input.name);
    let store = context.task_store()?;
    let root = store.projects().root_of(&input.cwd)?;
    let known = match store.projects().known_project(&root)? {
        Some(project) => project.task(&name)?,
        None => None,
    };
    let task = match known {
        Some(task) => task,
        None => {
            let wanted = WantedTask {
                name: Some(&name),
                command: "agent worktree".to_owned(),
                automatic: true,
                profile: None,
                rules: given_rules(&RuleArgs::default())?,
            };
            wanted.make(context, &root)?.0
        }
    };
    match mounted(context, &task, None)? {
        Ok(dir) => {
            context.out.line(dir.display())?;
            Ok(ExitStatus::Success)
        }
        Err(status) => Ok(status),
    }
}

pub fn remove(context: &mut Context<'_>, _: &HookWorktreeRemoveArgs) -> Result<ExitStatus> {
    let input = HookInput::read()?;
    let task = task_at(context, &input.worktree_path)?;
    unmount::end(task.vault(), &input.worktree_path, true)?;
    remove_place(context, &task, &input.worktree_path)?;
    // Nobody misses one in which nothing was changed.
    let name = task.vault_name().clone();
    let is_spent = Task::of(task.vault().clone())?.is_spent()?;
    if is_spent && task.discard(false).is_ok() {
        context
            .out
            .talk(format_args!("{name}: nothing changed, so it is gone"));
    } else {
        context.out.talk(format_args!(
            "{name} keeps the work: `avfs diff {name}`, `avfs apply {name}`"
        ));
    }
    Ok(ExitStatus::Success)
}

fn task_at(context: &mut Context<'_>, dir: &Path) -> Result<Task> {
    let store = context.task_store()?;
    let found = store
        .mounts()
        .list()?
        .into_iter()
        .find(|known| known.mount.dir == dir);
    let Some(known) = found else {
        let text = format!(
            "nothing of avfs is mounted at {}",
            crate::escape::printable_path(dir)
        );
        return Err(Failure::new("not-mounted", ExitStatus::NotFound, text).into());
    };
    Ok(Task::of(store.vault(known.vault.as_str())?)?)
}

/// A name of a task from the name of a worktree.
fn task_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(plain).take(40).collect();
    match name.trim_matches('-') {
        "" => "worktree".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_worktree_is_the_name_of_a_task() {
        for (name, expected) in [
            ("fix-login", "fix-login"),
            ("Agent/A 1", "agent-a-1"),
            ("../..", "worktree"),
            ("", "worktree"),
        ] {
            assert_eq!(task_name(name), expected);
            assert!(agentvfs::TaskName::new(&task_name(name)).is_ok());
        }
    }
}
