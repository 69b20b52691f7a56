//! `avfs status`: the current directory, and the vault that commands would work on.

use std::path::Path;

use agentvfs::error::{TaskError, VaultError};
use agentvfs::hidden::{Extent, HiddenFile, hidden_in};
use agentvfs::{Error, Here, Store, Task};
use anyhow::Result;
use serde::Serialize;

use crate::commands::rules::{HiddenBody, hidden_bodies};
use crate::commands::run::given_rules;
use crate::commands::tasks::{ProjectField, UNREADABLE, has_vanished};
use crate::commands::undo::last::{UndoStep, next_redo, next_undo};
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::here::working_directory;
use crate::json::byte_field;
use crate::rule_args::RuleArgs;
use crate::versions::count;

byte_field!(DirectoryField, directory, directory_bytes_hex);

/// How many hidden files are named.
const NAMED: usize = 10;

/// How many entries of the directory are examined, as before a run.
const LOOKED_AT: Extent = Extent::Entries(4000);

/// Show the project, its tasks, the vault that commands work on, and what undo would do
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Also shows why that vault was chosen, which files are hidden from agents, which
conflicts are open, and what `avfs undo` and `avfs redo` would do here.

Examples:
  avfs status
  avfs status --json | jq -r .vault.name"
)]
pub struct StatusArgs {}

#[derive(Serialize)]
struct StatusBody {
    #[serde(flatten)]
    directory: DirectoryField,
    /// The project that the directory belongs to, or would with its first task.
    #[serde(flatten)]
    project: Option<ProjectField>,
    /// Whether a task was made from it.
    known: bool,
    tasks: Vec<StatusTaskBody>,
    /// Files that are hidden from programs in new tasks: all that git tracks, and of the others those near
    /// the top.
    hidden_files: Vec<HiddenBody>,
    #[serde(skip)]
    hidden: Vec<HiddenFile>,
    vault: Option<StatusVaultBody>,
    undo: Option<StepBody>,
    redo: Option<StepBody>,
    #[serde(skip)]
    why_no_vault: Option<String>,
    #[serde(skip)]
    why_no_undo: Option<String>,
}

#[derive(Serialize)]
struct StatusTaskBody {
    name: String,
    state: &'static str,
    open_conflicts: usize,
}

#[derive(Serialize)]
struct StatusVaultBody {
    name: String,
    /// Which rule chose it.
    reason: &'static str,
    #[serde(skip)]
    why: String,
    open_conflicts: u64,
}

#[derive(Serialize)]
struct StepBody {
    /// `apply`: the number of the apply. Otherwise a vault and an entry of its history.
    #[serde(skip_serializing_if = "Option::is_none")]
    apply: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vault: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    text: String,
}

impl StatusTaskBody {
    fn of(task: &Task) -> Result<StatusTaskBody> {
        Ok(StatusTaskBody {
            name: task.name().to_string(),
            state: task.state()?.as_str(),
            open_conflicts: task.open_conflicts()?.len(),
        })
    }
}

impl StepBody {
    fn of(step: &UndoStep, store: &Store) -> Result<StepBody> {
        let text = step.describe(store)?;
        Ok(match step {
            UndoStep::Apply(record) => {
                let apply = store.applies().first(record)?;
                StepBody {
                    apply: Some(apply.0),
                    vault: None,
                    seq: None,
                    text,
                }
            }
            UndoStep::Change { vault, entry } => StepBody {
                apply: None,
                vault: Some(vault.name()?.to_string()),
                seq: Some(entry.seq),
                text,
            },
        })
    }
}

pub fn run(context: &mut Context<'_>, _: &StatusArgs) -> Result<ExitStatus> {
    let here = context.here()?;
    let store = context.store()?;
    let mut body = body(context, &here, &store)?;
    // Why there is nothing to undo is worth a line; why there is nothing to redo is not.
    let undo = next_undo(context);
    body.why_no_undo = undo.as_ref().err().map(|error| Failure::of(error).message);
    body.undo = undo.ok().map(|step| StepBody::of(&step, &store)).transpose()?;
    body.redo = next_redo(context)
        .ok()
        .map(|step| StepBody::of(&step, &store))
        .transpose()?;
    if context.out.is_json() {
        context.out.object("status", &body)?
    } else {
        print(context, &here, &body)?
    }
    Ok(ExitStatus::Success)
}

fn body(context: &Context<'_>, here: &Here, store: &Store) -> Result<StatusBody> {
    let (vault, why_no_vault) = match context.decide(store) {
        Ok(Some(decided)) => {
            let info = decided.vault.info()?;
            let (name, open_conflicts) = (info.name.to_string(), info.conflicts);
            let (reason, why) = (decided.reason.word(), decided.reason.to_string());
            (
                Some(StatusVaultBody {
                    name,
                    reason,
                    why,
                    open_conflicts,
                }),
                None,
            )
        }
        Ok(None) => (None, Some("none chosen".to_owned())),
        // The state of a choice that cannot be made is what a user asks for here.
        Err(error @ (Error::Task(TaskError::Several { .. }) | Error::Vault(VaultError::Unknown { .. }))) => {
            (None, Some(format!("none chosen: {error}")))
        }
        Err(error) => return Err(error.into()),
    };
    let root = match here.project() {
        Some(project) => Some(project.root().to_owned()),
        None => store
            .projects()
            .root_of(here.directory())
            .ok()
            // Without a task, only a repository is taken for a project: any directory could be one.
            .filter(|root| root.join(".git").exists()),
    };
    let hidden = root
        .as_deref()
        .map_or_else(|| Ok(Vec::new()), hidden_from_tasks)?;
    let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    Ok(StatusBody {
        directory: DirectoryField::new(&bytes(here.directory())),
        project: root.map(|root| ProjectField::new(&bytes(&root))),
        known: here.project().is_some(),
        tasks: tasks(here)?,
        hidden_files: hidden_bodies(&hidden),
        hidden,
        vault,
        undo: None,
        redo: None,
        why_no_vault,
        why_no_undo: None,
    })
}

fn tasks(here: &Here) -> Result<Vec<StatusTaskBody>> {
    let mut bodies = Vec::new();
    for task in here.tasks()? {
        match StatusTaskBody::of(&task) {
            // Another command discarded it while this one listed.
            Err(error) if has_vanished(&error) => {}
            Err(_) => bodies.push(StatusTaskBody {
                name: task.name().to_string(),
                state: UNREADABLE,
                open_conflicts: 0,
            }),
            body => bodies.push(body?),
        }
    }
    Ok(bodies)
}

/// The files that the rules of new tasks hide. A directory that cannot be read has none.
fn hidden_from_tasks(root: &Path) -> Result<Vec<HiddenFile>> {
    let rules = given_rules(&RuleArgs::default())?.unwrap_or_default();
    Ok(hidden_in(root, &rules, LOOKED_AT)
        .map(|hidden| hidden.files)
        .unwrap_or_default())
}

fn print(context: &mut Context<'_>, here: &Here, body: &StatusBody) -> Result<()> {
    let no_project = context.store()?.projects().why_no_project(&working_directory());
    let moved = super::missing::moved_here(&context.store()?);
    let out = &mut *context.out;
    let project = here.project().map(|project| printable_path(project.root()));
    match (&project, &body.project) {
        (Some(root), _) => out.line(format_args!("project  {root}"))?,
        (None, Some(_)) if moved.is_some() => {
            out.line(format_args!("project  {}", moved.unwrap_or_default()))?
        }
        (None, Some(_)) => {
            out.line("project  a git repository that has no task yet; `avfs run` creates the first")?
        }
        (None, None) if no_project.is_some() => {
            let why = no_project.unwrap_or_default();
            out.line(format_args!("project  {}", no_project_here(why)))?
        }
        (None, None) => out.line("project  none; `avfs run` makes this directory one")?,
    }
    for task in &body.tasks {
        let open = match task.open_conflicts {
            0 => String::new(),
            open => format!(", {}", count(open as u64, "open conflict")),
        };
        out.line(format_args!("task     {}: {}{open}", task.name, task.state))?;
    }
    for file in body.hidden.iter().take(NAMED) {
        out.line(format_args!(
            "hidden   {} ({})",
            crate::escape::printable_line(file.path.as_bytes()),
            file.why
        ))?;
    }
    if body.hidden.len() > NAMED {
        out.line(format_args!(
            "hidden   and {} more: `avfs rules hidden` lists all",
            body.hidden.len() - NAMED
        ))?;
    }
    match &body.vault {
        Some(vault) => out.line(format_args!("vault    {} ({})", vault.name, vault.why))?,
        None => out.line(format_args!(
            "vault    {}",
            body.why_no_vault.as_deref().unwrap_or("-")
        ))?,
    }
    if let Some(vault) = body.vault.as_ref().filter(|vault| vault.open_conflicts > 0) {
        let open = count(vault.open_conflicts, "open conflict");
        out.line(format_args!("         {open}; `avfs conflicts` lists them"))?;
    }
    match (&body.undo, &body.why_no_undo) {
        (Some(step), _) => out.line(format_args!("undo     {}", step.text))?,
        (None, Some(why)) => out.line(format_args!("undo     nothing: {why}"))?,
        (None, None) => out.line(format_args!("undo     nothing"))?,
    }
    if let Some(step) = &body.redo {
        out.line(format_args!("redo     {}", step.text))?;
    }
    Ok(())
}

/// Why there is no project in the working directory, in one line.
pub fn no_project_here(why: &str) -> String {
    match std::env::current_dir() {
        Ok(place) => format!(
            "none: {} cannot be a project: {why}; a project is a directory below",
            printable_path(&place)
        ),
        Err(_) => "none: the current directory was removed".to_owned(),
    }
}
