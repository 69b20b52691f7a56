//! The subject of undo and redo in a directory: the last action there, on the directory or on the vault that
//! commands work on.

use std::path::Path;

use agentvfs::apply::ApplyRecord;
use agentvfs::error::HistoryError;
use agentvfs::git::MadeBranch;
use agentvfs::{Error, Here, HistoryEntry, Store, Task, Timestamp, Vault};
use anyhow::Result;

use super::words;
use crate::commands::missing::refuse_moved;
use crate::context::Context;
use crate::escape::{printable_line, printable_path};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::here::{has_own_past, is_beside};
use crate::unreached::quoted;

/// One thing to undo or to redo.
pub enum UndoStep {
    /// For a redo: the undo of an apply.
    Apply(ApplyRecord),
    /// For a redo: the entry of an undo.
    Change { vault: Vault, entry: HistoryEntry },
}

impl UndoStep {
    fn time(&self) -> Timestamp {
        match self {
            UndoStep::Apply(record) => record.time,
            UndoStep::Change { entry, .. } => entry.time,
        }
    }

    /// Whether it is a new change, and not a redone one.
    fn is_fresh(&self) -> bool {
        match self {
            UndoStep::Apply(record) => record.redoes.is_none(),
            UndoStep::Change { .. } => true,
        }
    }

    /// In words for people, where it is about to be undone.
    pub fn describe(&self, store: &Store) -> Result<String> {
        Ok(match self {
            UndoStep::Apply(record) => {
                let task = record.task.as_deref().unwrap_or("-");
                let id = store.applies().first(record)?;
                format!(
                    "apply {id} of task {task} to {}",
                    printable_path(&record.directory())
                )
            }
            UndoStep::Change { vault, entry } => {
                let run = words::of_entry(vault, entry)?.or_else(|| words::of_undo(entry));
                let other = || format!("'{}'", printable_line(entry.action.as_bytes()));
                format!("{} in vault {}", run.unwrap_or_else(other), vault.name()?)
            }
        })
    }
}

/// The change that the next undo reverts. Fails if it is in one of several tasks, or if there is none.
pub fn next_undo(context: &mut Context<'_>) -> Result<UndoStep> {
    let store = context.store()?;
    // A named vault is meant alone: the directory does not matter then.
    if context.is_alone() || is_named(context, &store)? {
        return change(context.vault()?);
    }
    refuse_moved(&store)?;
    let here = context.here()?;
    let is_here = |directory: &Path| here.is_here(directory);
    let apply = store.applies().last(is_here)?;
    let tasks = here.tasks()?;
    // Before anything else is considered: undoing an older action here would surprise the user.
    if let Some(made) = branch_made_last(&here, &tasks, apply.as_ref())? {
        return Err(made.into());
    }
    if tasks.is_empty() {
        let meant = meant_here(context, &here, &store)?;
        let last = meant.map(last_change).transpose()?.flatten();
        return match later(apply.map(UndoStep::Apply), last) {
            Some(step) => Ok(step),
            None if has_own_past(&here)? => Err(nothing_here(context, &here, "undo")?.into()),
            None => change(context.vault()?),
        };
    }
    let Some(apply) = apply else {
        return change(context.vault()?);
    };
    // While a program works in a task, its changes are not the user's last action.
    match latest(
        tasks.iter().filter(|task| !task.is_running().unwrap_or(true)),
        last_change,
    )? {
        // The vault is determined by the general rule, which asks if there are several tasks; it need not
        // be the one with the last change.
        Some(last) if last.time() > apply.time => match context.vault() {
            Err(error) if Failure::of(&error).code == "several-tasks" => {
                Err(done_in_task(&tasks, &last, &store)?.into())
            }
            vault => change(vault?),
        },
        Some(_) | None => Ok(UndoStep::Apply(apply)),
    }
}

/// Says in which of several tasks the last thing was done: it is not undone before the task is named.
fn done_in_task(tasks: &[Task], last: &UndoStep, store: &Store) -> Result<Failure> {
    let is_there = |task: &&Task| match last {
        UndoStep::Change { vault, .. } => vault.id() == task.vault().id(),
        UndoStep::Apply(_) => false,
    };
    let name = tasks
        .iter()
        .find(is_there)
        .map(|task| task.vault_name().to_string())
        .unwrap_or_default();
    let text = format!(
        "the last thing done here was {}, and this project has several tasks",
        last.describe(store)?
    );
    let hint = format!(
        "`avfs undo --vault {name}` undoes it; `avfs undo --apply` undoes the last apply to this directory"
    );
    Ok(Failure::new("several-tasks", ExitStatus::BadInput, text).hint(Some(hint)))
}

/// Fails if the last action here was making a branch of a task. The branch belongs to git from then on:
/// undoing something else instead would remove the work that the user has just brought home.
fn branch_made_last(here: &Here, tasks: &[Task], apply: Option<&ApplyRecord>) -> Result<Option<Failure>> {
    let mut newest: Option<(Timestamp, Vec<MadeBranch>, &Task)> = None;
    for task in tasks {
        let root = task.root();
        let mut made = task.git().last_branches()?;
        made.retain(|made| made.directory.starts_with(root) || here.is_here(&made.directory));
        if let Some(time) = made.iter().map(|made| made.time).max()
            && newest.as_ref().is_none_or(|(newest, ..)| time > *newest)
        {
            newest = Some((time, made, task));
        }
    }
    let Some((time, made, task)) = newest else {
        return Ok(None);
    };
    let idle = tasks.iter().filter(|task| !task.is_running().unwrap_or(true));
    let changed = latest(idle, last_change)?.map(|step| step.time());
    if changed
        .max(apply.map(|apply| apply.time))
        .is_some_and(|later| later > time)
    {
        return Ok(None);
    }
    let Some(first) = made.first() else {
        return Ok(None);
    };
    let (name, branch) = (here.name_of(task), first.branch.short());
    let text = format!(
        "the last thing done here was bringing task {name} to git, as branch {branch}: avfs does not undo that"
    );
    let removals: Vec<String> = made
        .iter()
        .map(|made| format!("`{}`", removal(made, task)))
        .collect();
    let (removals, verb) = match &removals[..] {
        [only] => (only.clone(), "removes it"),
        all => (all.join(" and "), "remove it"),
    };
    let last_apply = match apply {
        Some(_) => "; `avfs undo --apply` undoes the last apply to this directory",
        None => "",
    };
    let vault = task.vault_name();
    let hint = format!(
        "{removals} {verb}; `avfs undo --vault {vault}` undoes the last change of the task{last_apply}"
    );
    Ok(Some(
        Failure::new("nothing-to-undo", ExitStatus::Conflict, text).hint(Some(hint)),
    ))
}

/// The command that removes a branch.
fn removal(made: &MadeBranch, task: &Task) -> String {
    let branch = made.branch.short();
    if made.directory == task.root() {
        quoted(&["git", "branch", "-D", &branch].map(str::to_owned))
    } else {
        let directory = printable_path(&made.directory);
        quoted(&["git", "-C", &directory, "branch", "-D", &branch].map(str::to_owned))
    }
}

/// The change that the next redo repeats.
pub fn next_redo(context: &mut Context<'_>) -> Result<UndoStep> {
    let store = context.store()?;
    if context.is_alone() || is_named(context, &store)? {
        return undone(context.vault()?);
    }
    refuse_moved(&store)?;
    let here = context.here()?;
    let is_here = |directory: &Path| here.is_here(directory);
    let apply = store.applies().last_undone(is_here)?.map(UndoStep::Apply);
    let tasks = here.tasks()?;
    let change = if tasks.is_empty() {
        let meant = meant_here(context, &here, &store)?;
        meant.map(last_undone).transpose()?.flatten()
    } else {
        latest(tasks.iter(), last_undone)?
    };
    let Some(step) = later(apply, change) else {
        // A single vault reports itself that it has nothing.
        return match context.decided_already(&store)? {
            Some(decided) if tasks.is_empty() && !has_own_past(&here)? => undone(decided.vault),
            Some(_) | None => Err(nothing_here(context, &here, "redo")?.into()),
        };
    };
    // A change that was made after the undo ends the chain: redoing would go behind it.
    match next_undo(context) {
        Ok(last) if last.is_fresh() && last.time() > step.time() => {
            Err(nothing_here(context, &here, "redo")?.into())
        }
        Ok(_) | Err(_) => Ok(step),
    }
}

/// The vault that commands work on here, if undo and redo mean it too.
fn meant_here(context: &Context<'_>, here: &Here, store: &Store) -> Result<Option<Vault>> {
    match context.decided_already(store)? {
        Some(decided) if !is_beside(here, &decided)? => context.vault_if_chosen(),
        Some(_) | None => Ok(None),
    }
}

/// Whether a vault is named, so that only its history counts.
fn is_named(context: &Context<'_>, store: &Store) -> Result<bool> {
    Ok(context
        .decided_already(store)?
        .is_some_and(|decided| decided.reason.is_explicit()))
}

fn change(vault: Vault) -> Result<UndoStep> {
    let nothing = Error::History(HistoryError::NothingToUndo {
        vault: vault.name()?.to_string(),
    });
    Ok(last_change(vault)?.ok_or(nothing)?)
}

fn undone(vault: Vault) -> Result<UndoStep> {
    let nothing = Error::History(HistoryError::NothingToRedo {
        vault: vault.name()?.to_string(),
    });
    Ok(last_undone(vault)?.ok_or(nothing)?)
}

fn last_change(vault: Vault) -> Result<Option<UndoStep>> {
    // Brings in changes of the process that owns the vault, so that its last one is found.
    vault.head()?;
    Ok(vault
        .history()
        .next_undo()?
        .map(|entry| UndoStep::Change { vault, entry }))
}

fn last_undone(vault: Vault) -> Result<Option<UndoStep>> {
    vault.head()?;
    Ok(vault
        .history()
        .last_undo()?
        .map(|entry| UndoStep::Change { vault, entry }))
}

fn latest<'a>(
    tasks: impl Iterator<Item = &'a Task>,
    find: impl Fn(Vault) -> Result<Option<UndoStep>>,
) -> Result<Option<UndoStep>> {
    let mut latest = None;
    for task in tasks {
        latest = later(latest, find(task.vault().clone())?);
    }
    Ok(latest)
}

fn later(one: Option<UndoStep>, other: Option<UndoStep>) -> Option<UndoStep> {
    match (one, other) {
        (Some(one), Some(other)) if other.time() > one.time() => Some(other),
        (None, other) => other,
        (one, _) => one,
    }
}

/// Says that nothing is left to do in a directory, and which vault could be meant.
fn nothing_here(context: &Context<'_>, here: &Here, verb: &str) -> Result<Failure> {
    let place = here.project().map_or(here.directory(), |project| project.root());
    let code = if verb == "undo" {
        "nothing-to-undo"
    } else {
        "nothing-to-redo"
    };
    let text = format!("there is nothing to {verb} in {}", printable_path(place));
    let find = if verb == "undo" { last_change } else { last_undone };
    let hint = match context.vault_if_chosen()? {
        Some(vault) if find(vault.clone())?.is_some() => {
            let name = vault.name()?;
            let typed = here.full_name(&vault)?;
            Some(format!("for vault '{name}': `avfs {verb} --vault {typed}`"))
        }
        Some(_) | None => None,
    };
    Ok(Failure::new(code, ExitStatus::Conflict, text).hint(hint))
}
