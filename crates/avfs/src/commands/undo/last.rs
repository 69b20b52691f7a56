//! What undo and redo are about in a directory: the last thing that was done there, to the directory or to the vault
//! that commands work on.

use std::path::Path;

use agentvfs::apply::ApplyRecord;
use agentvfs::git::MadeBranch;
use agentvfs::{Error, Here, HistoryEntry, Store, Task, Timestamp, Vault};
use anyhow::Result;

use crate::context::Context;
use crate::escape::{printable_line, printable_path};
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// One thing to undo or to redo.
pub enum Step {
    /// For a redo: the undo of an apply.
    Apply(ApplyRecord),
    /// For a redo: the entry of an undo.
    Change { vault: Vault, entry: HistoryEntry },
}

impl Step {
    fn time(&self) -> Timestamp {
        match self {
            Step::Apply(record) => record.time,
            Step::Change { entry, .. } => entry.time,
        }
    }

    /// Whether it is a change of its own, and not one that was done again.
    fn is_fresh(&self) -> bool {
        match self {
            Step::Apply(record) => record.redoes.is_none(),
            Step::Change { .. } => true,
        }
    }

    /// In words for people, where it is about to be undone.
    pub fn describe(&self, store: &Store) -> Result<String> {
        Ok(match self {
            Step::Apply(record) => {
                let task = record.task.as_deref().unwrap_or("-");
                let id = store.first_apply(record)?;
                format!("apply {id} of task {task} to {}", printable_path(&record.directory()))
            }
            Step::Change { vault, entry } => {
                format!("'{}' in vault {}", printable_line(entry.action.as_bytes()), vault.name()?)
            }
        })
    }
}

/// What the next undo undoes. Fails if that is in one of several tasks, or nowhere.
pub fn next_undo(context: &mut Context<'_>) -> Result<Step> {
    let store = context.store()?;
    if context.is_alone() || is_named(context, &store)? {
        return change(context.vault()?);
    }
    let here = context.here()?;
    let is_here = |directory: &Path| here.is_here(directory);
    let apply = store.last_apply(is_here)?;
    let tasks = here.tasks()?;
    if let Some(made) = branch_made_last(&here, &tasks, apply.as_ref())? {
        return Err(made.into());
    }
    if tasks.is_empty() {
        let last = context.vault_if_chosen()?.map(last_change).transpose()?.flatten();
        let newest = store.last_apply_time(is_here)?;
        // Beside a project, the vault that was chosen for all directories counts only if it was used last.
        let used_last =
            last.filter(|last| here.project().is_none() || newest.is_none_or(|time| last.time() > time));
        return match later(apply.map(Step::Apply), used_last) {
            Some(step) => Ok(step),
            None if here.project().is_some() && newest.is_some() => {
                Err(nothing_here(context, &here, "undo")?.into())
            }
            None => change(context.vault()?),
        };
    }
    let Some(apply) = apply else { return change(context.vault()?) };
    // While a program works in a task, what it does there is not what the user did last.
    match latest(tasks.iter().filter(|task| !task.is_running().unwrap_or(true)), last_change)? {
        Some(change) if change.time() > apply.time => self::change(context.vault()?),
        Some(_) | None => Ok(Step::Apply(apply)),
    }
}

/// Says so if the last thing done here was making a branch of a task. It is git's from then on: to undo something else
/// instead would take away what the user has just brought home.
fn branch_made_last(here: &Here, tasks: &[Task], apply: Option<&ApplyRecord>) -> Result<Option<Failure>> {
    let mut newest: Option<(MadeBranch, &Task)> = None;
    for task in tasks {
        let root = task.root();
        let made = task
            .last_branch()?
            .filter(|made| made.directory.starts_with(root) || here.is_here(&made.directory));
        if let Some(made) = made
            && newest.as_ref().is_none_or(|(newest, _)| made.time > newest.time)
        {
            newest = Some((made, task));
        }
    }
    let Some((made, task)) = newest else { return Ok(None) };
    let idle = tasks.iter().filter(|task| !task.is_running().unwrap_or(true));
    let changed = latest(idle, last_change)?.map(|step| step.time());
    if changed.max(apply.map(|apply| apply.time)).is_some_and(|time| time > made.time) {
        return Ok(None);
    }
    let (name, branch) = (here.name_of(task), made.branch.short());
    let text = format!(
        "the last thing done here was bringing task {name} to git, as branch {branch}: avfs does not undo that"
    );
    let place = match made.directory == task.root() {
        true => String::new(),
        false => format!(" -C {}", printable_path(&made.directory)),
    };
    let hint = format!(
        "`git{place} branch -D {branch}` removes it; `avfs undo --vault {name}` undoes the last change of the task"
    );
    Ok(Some(Failure::new("nothing-to-undo", ExitStatus::Conflict, text).hint(Some(hint))))
}

/// What the next redo does again.
pub fn next_redo(context: &mut Context<'_>) -> Result<Step> {
    let store = context.store()?;
    if context.is_alone() || is_named(context, &store)? {
        return undone(context.vault()?);
    }
    let here = context.here()?;
    let is_here = |directory: &Path| here.is_here(directory);
    let apply = store.last_undone_apply(is_here)?.map(Step::Apply);
    let tasks = here.tasks()?;
    let change = match tasks.is_empty() {
        true => context.vault_if_chosen()?.map(last_undone).transpose()?.flatten(),
        false => latest(tasks.iter(), last_undone)?,
    };
    let Some(step) = later(apply, change) else {
        // One vault says itself that it has nothing.
        return match context.decided_already(&store)? {
            Some(decided) if tasks.is_empty() && here.project().is_none() => undone(decided.vault),
            Some(_) | None => Err(nothing_here(context, &here, "redo")?.into()),
        };
    };
    match next_undo(context) {
        Ok(last) if last.is_fresh() && last.time() > step.time() => {
            Err(nothing_here(context, &here, "redo")?.into())
        }
        Ok(_) | Err(_) => Ok(step),
    }
}

/// Whether a vault is named, so that only its history counts.
fn is_named(context: &Context<'_>, store: &Store) -> Result<bool> {
    Ok(context.decided_already(store)?.is_some_and(|decided| decided.reason.is_explicit()))
}

fn change(vault: Vault) -> Result<Step> {
    let nothing = Error::NothingToUndo { vault: vault.name()?.to_string() };
    Ok(last_change(vault)?.ok_or(nothing)?)
}

fn undone(vault: Vault) -> Result<Step> {
    let nothing = Error::NothingToRedo { vault: vault.name()?.to_string() };
    Ok(last_undone(vault)?.ok_or(nothing)?)
}

fn last_change(vault: Vault) -> Result<Option<Step>> {
    vault.head()?;
    Ok(vault.next_undo()?.map(|entry| Step::Change { vault, entry }))
}

fn last_undone(vault: Vault) -> Result<Option<Step>> {
    vault.head()?;
    Ok(vault.last_undo()?.map(|entry| Step::Change { vault, entry }))
}

fn latest<'a>(
    tasks: impl Iterator<Item = &'a Task>,
    find: impl Fn(Vault) -> Result<Option<Step>>,
) -> Result<Option<Step>> {
    let mut latest = None;
    for task in tasks {
        latest = later(latest, find(task.vault().clone())?);
    }
    Ok(latest)
}

fn later(one: Option<Step>, other: Option<Step>) -> Option<Step> {
    match (one, other) {
        (Some(one), Some(other)) if other.time() > one.time() => Some(other),
        (None, other) => other,
        (one, _) => one,
    }
}

/// Says that nothing is left to do in a directory, and which vault could be meant.
fn nothing_here(context: &Context<'_>, here: &Here, verb: &str) -> Result<Failure> {
    let place = here.project().map_or(here.directory(), |project| project.root());
    let code = if verb == "undo" { "nothing-to-undo" } else { "nothing-to-redo" };
    let text = format!("there is nothing to {verb} in {}", printable_path(place));
    let chosen = context.vault_if_chosen()?.map(|vault| vault.name()).transpose()?;
    let hint = chosen.map(|name| format!("for vault '{name}': `avfs {verb} --vault {name}`"));
    Ok(Failure::new(code, ExitStatus::Conflict, text).hint(hint))
}
