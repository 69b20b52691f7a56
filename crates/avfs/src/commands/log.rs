//! `avfs log`: the history of a vault or of one path.

mod drawing;
mod graph;

use agentvfs::error::{FileError, TaskError};
use agentvfs::{EntryKind, Error, FoundEntry, HistoryEntry, PathVersion, ReadError, Timestamp, Vault};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::{PathArg, path_arg};
use crate::conflicts::warn_of_open;
use crate::context::Context;
use crate::entry::kind_name;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::json::PathField;
use crate::printer::{PrintError, Printer, YELLOW};
use crate::rule_args::RuleArgs;
use crate::size::HumanSize;
use crate::time::Age;
use crate::unstored::unstored;
use crate::versions::{EntryNames, HistoryEntryBody, short};

/// Show the history of the vault, of a task, or of one file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs log -n 10
  avfs log src/main.rs
  avfs log task-1
  avfs log --graph")]
pub struct LogArgs {
    /// Show only snapshots that changed this path, or the history of this task
    #[arg(value_name = "PATH|TASK", value_parser = path_arg())]
    path: Option<PathArg>,

    /// Draw the forks and merges of all vaults in the store
    #[arg(long, conflicts_with = "path")]
    graph: bool,

    /// Show at most this many
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct LogBody {
    vault: String,
    /// The number of open conflicts in the present state.
    conflicts: u64,
    entries: Vec<HistoryEntryBody>,
}

#[derive(Serialize)]
struct PathLogBody {
    vault: String,
    #[serde(flatten)]
    path: PathField,
    versions: Vec<VersionBody>,
}

#[derive(Serialize)]
struct VersionBody {
    #[serde(flatten)]
    entry: HistoryEntryBody,
    /// None: from here on there was nothing.
    #[serde(rename = "type")]
    kind: Option<&'static str>,
    size: Option<u64>,
}

pub fn run(context: &mut Context<'_>, args: &LogArgs) -> Result<ExitStatus> {
    let limit = args.limit.unwrap_or(usize::MAX);
    if args.graph {
        return graph::run(context, limit);
    }
    let (vault, path) = meant(context, args.path.as_ref())?;
    // Work that a killed process left behind becomes part of the history first.
    let info = vault.info()?;
    if let Some(unstored) = unstored(&info) {
        context.out.warn(format_args!("{unstored} and not listed here"));
    }
    match path {
        Some(path) => show_path(context.out, &vault, &path, limit)?,
        None => show_vault(context.out, &vault, limit)?,
    }
    Ok(ExitStatus::Success)
}

/// The vault and the path in it. A word that names a task, and no file of the vault that commands work on, is that task.
fn meant(context: &mut Context<'_>, word: Option<&PathArg>) -> Result<(Vault, Option<TreePath>)> {
    let Some(word) = word else {
        return Ok((context.vault()?, None));
    };
    if context.is_alone() || context.vault_flag().is_some() || !word.is_plain() {
        return Ok((context.vault()?, Some(context.path(word)?)));
    }
    let decided = context.vault_if_chosen()?;
    if let Some(vault) = &decided
        && let Ok(path) = context.path(word)
        && vault.reader_at(vault.info()?.head)?.find(&path).is_ok()
    {
        return Ok((context.vault()?, Some(path)));
    }
    match context.here()?.task(&word.to_string()) {
        Ok(task) => Ok((context.seen(task.vault().clone())?, None)),
        Err(unknown @ Error::Task(TaskError::Unknown { .. })) if decided.is_none() => Err(unknown.into()),
        Err(_) => Ok((context.vault()?, Some(context.path(word)?))),
    }
}

fn show_vault(out: &mut Printer, vault: &Vault, limit: usize) -> Result<()> {
    let names = EntryNames::of(&vault.checkpoints()?);
    let row = LogRow {
        now: vault.store().now(),
        width: vault.info()?.snapshots.to_string().len(),
    };
    let mut entries = Vec::new();
    let mut left = limit;
    let mut failed = None;
    vault.history().for_each_entry(|entry| {
        if left == 0 {
            return Ok(false);
        }
        left -= 1;
        if out.is_json() {
            entries.push(HistoryEntryBody::new(&entry, &names))
        } else {
            failed = row.print(out, &entry, "", &names).err()
        }
        Ok(failed.is_none())
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let conflicts = warn_of_open(out, vault)?;
    if out.is_json() {
        out.object(
            "log",
            &LogBody {
                vault: vault.name()?.to_string(),
                conflicts,
                entries,
            },
        )?;
    }
    Ok(())
}

fn show_path(out: &mut Printer, vault: &Vault, path: &TreePath, limit: usize) -> Result<()> {
    let versions = vault.history().path_history(path, limit)?;
    if versions.is_empty() && limit > 0 {
        let source = ReadError::NotFound { path: path.clone() };
        return Err(Error::File(FileError::Read {
            vault: vault.name()?.to_string(),
            source,
        })
        .into());
    }
    let names = EntryNames::of(&vault.checkpoints()?);
    if out.is_json() {
        let versions = versions.iter().map(|version| version_body(version, &names));
        let body = PathLogBody {
            vault: vault.name()?.to_string(),
            path: path.into(),
            versions: versions.collect(),
        };
        return Ok(out.object("path-log", &body)?);
    }
    let row = LogRow {
        now: vault.store().now(),
        width: vault.info()?.snapshots.to_string().len(),
    };
    for version in versions {
        let what = format!("{:>9}  ", describe(version.found.as_ref()));
        row.print(out, &version.entry, &what, &names)?;
    }
    Ok(())
}

fn version_body(version: &PathVersion, names: &EntryNames) -> VersionBody {
    let entry = version.found.as_ref().map(|found| &found.entry);
    VersionBody {
        entry: HistoryEntryBody::new(&version.entry, names),
        kind: entry.map(|entry| kind_name((&entry.kind).into())),
        size: entry
            .filter(|entry| !entry.is_directory())
            .map(|entry| entry.size()),
    }
}

/// The size of a file, or the kind of another entry.
fn describe(found: Option<&FoundEntry>) -> String {
    match found.map(|found| &found.entry.kind) {
        None => "removed".to_owned(),
        Some(EntryKind::File { size, .. }) => HumanSize(*size).to_string(),
        Some(kind) => kind_name(kind.into()).to_owned(),
    }
}

/// The layout of a line of the history.
struct LogRow {
    now: Timestamp,
    /// Of the numbers of entries.
    width: usize,
}

impl LogRow {
    fn print(
        &self,
        out: &mut Printer,
        entry: &HistoryEntry,
        what: &str,
        names: &EntryNames,
    ) -> Result<(), PrintError> {
        let width = self.width;
        let age = Age {
            then: entry.time,
            now: self.now,
        }
        .to_string();
        let id = out.paint(YELLOW, short(entry.snapshot));
        let (actor, action) = (
            printable_line(entry.actor.as_bytes()),
            printable_line(entry.action.as_bytes()),
        );
        let names = shown_names(out, names.at(entry.seq));
        out.line(format_args!(
            "{:>width$}  {id}  {age:<14}  {actor:<8}  {what}{action}{names}",
            entry.seq
        ))
    }
}

/// The checkpoints of an entry, at the end of its line.
fn shown_names(out: &Printer, names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(
            "  {}",
            out.paint(crate::printer::GREEN, format!("[{}]", names.join(", ")))
        ),
    }
}
