//! `avfs log`: the history of a vault or of one path.

mod drawing;
mod graph;

use agentvfs::{EntryKind, Error, Found, HistoryEntry, PathVersion, ReadError, Timestamp, Vault};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::vault_path;
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
use crate::versions::{EntryBody, Names, short};

/// Show the history of the vault, of a task, or of one file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs log -n 10
  avfs log src/main.rs
  avfs log task-1
  avfs log --graph")]
pub struct LogArgs {
    /// Only snapshots that changed this path; or the name of a task
    #[arg(value_name = "PATH|TASK", value_parser = vault_path())]
    path: Option<TreePath>,

    /// Draw the forks and merges of all vaults of the store
    #[arg(long, conflicts_with = "path")]
    graph: bool,

    /// At most this many
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct LogBody {
    vault: String,
    /// How many conflicts are open in the present state.
    conflicts: u64,
    entries: Vec<EntryBody>,
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
    entry: EntryBody,
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
    // What a killed process left behind becomes part of the history first.
    vault.info()?;
    match path {
        Some(path) => show_path(context.out, &vault, path, limit)?,
        None => show_vault(context.out, &vault, limit)?,
    }
    Ok(ExitStatus::Success)
}

/// The vault and the path in it. A word that names a task, and no file of the vault that commands work on, is that task.
fn meant<'a>(context: &mut Context<'_>, path: Option<&'a TreePath>) -> Result<(Vault, Option<&'a TreePath>)> {
    let name = path.and_then(|path| str::from_utf8(path.as_bytes()).ok());
    let Some(name) = name.filter(|_| !context.is_alone() && !context.names_vault()) else {
        return Ok((context.vault()?, path));
    };
    let decided = context.vault_if_chosen()?;
    let has_file =
        |vault: &Vault| path.is_some_and(|path| vault.reader().is_ok_and(|tree| tree.find(path).is_ok()));
    if decided.as_ref().is_some_and(has_file) {
        return Ok((context.vault()?, path));
    }
    match context.here()?.task(name) {
        Ok(task) => Ok((context.seen(task.vault().clone())?, None)),
        Err(unknown @ Error::UnknownTask { .. }) if decided.is_none() => Err(unknown.into()),
        Err(_) => Ok((context.vault()?, path)),
    }
}

fn show_vault(out: &mut Printer, vault: &Vault, limit: usize) -> Result<()> {
    let names = Names::of(&vault.checkpoints()?);
    let row = Row { now: vault.store().now(), width: vault.info()?.snapshots.to_string().len() };
    let mut entries = Vec::new();
    let mut left = limit;
    let mut failed = None;
    vault.for_each_entry(|entry| {
        if left == 0 {
            return Ok(false);
        }
        left -= 1;
        match out.is_json() {
            true => entries.push(EntryBody::new(&entry, &names)),
            false => failed = row.print(out, &entry, "", &names).err(),
        }
        Ok(failed.is_none())
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let conflicts = warn_of_open(out, vault)?;
    if out.is_json() {
        out.object("log", &LogBody { vault: vault.name()?.to_string(), conflicts, entries })?;
    }
    Ok(())
}

fn show_path(out: &mut Printer, vault: &Vault, path: &TreePath, limit: usize) -> Result<()> {
    let versions = vault.path_history(path, limit)?;
    if versions.is_empty() && limit > 0 {
        let source = ReadError::NotFound { path: path.clone() };
        return Err(Error::Read { vault: vault.name()?.to_string(), source }.into());
    }
    let names = Names::of(&vault.checkpoints()?);
    if out.is_json() {
        let versions = versions.iter().map(|version| version_body(version, &names));
        let body =
            PathLogBody { vault: vault.name()?.to_string(), path: path.into(), versions: versions.collect() };
        return Ok(out.object("path-log", &body)?);
    }
    let row = Row { now: vault.store().now(), width: vault.info()?.snapshots.to_string().len() };
    for version in versions {
        let what = format!("{:>9}  ", describe(version.found.as_ref()));
        row.print(out, &version.entry, &what, &names)?;
    }
    Ok(())
}

fn version_body(version: &PathVersion, names: &Names) -> VersionBody {
    let entry = version.found.as_ref().map(|found| &found.entry);
    VersionBody {
        entry: EntryBody::new(&version.entry, names),
        kind: entry.map(|entry| kind_name((&entry.kind).into())),
        size: entry.filter(|entry| !entry.is_directory()).map(|entry| entry.size()),
    }
}

/// The size of a file, or what else there is.
fn describe(found: Option<&Found>) -> String {
    match found.map(|found| &found.entry.kind) {
        None => "removed".to_owned(),
        Some(EntryKind::File { size, .. }) => HumanSize(*size).to_string(),
        Some(kind) => kind_name(kind.into()).to_owned(),
    }
}

/// How a line of the history is laid out.
struct Row {
    now: Timestamp,
    /// Of the numbers of entries.
    width: usize,
}

impl Row {
    fn print(
        &self,
        out: &mut Printer,
        entry: &HistoryEntry,
        what: &str,
        names: &Names,
    ) -> Result<(), PrintError> {
        let width = self.width;
        let age = Age { then: entry.time, now: self.now }.to_string();
        let id = out.paint(YELLOW, short(entry.snapshot));
        let (actor, action) =
            (printable_line(entry.actor.as_bytes()), printable_line(entry.action.as_bytes()));
        let names = shown_names(out, names.at(entry.seq));
        out.line(format_args!("{:>width$}  {id}  {age:<14}  {actor:<8}  {what}{action}{names}", entry.seq))
    }
}

/// The checkpoints of an entry, behind everything else on its line.
fn shown_names(out: &Printer, names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("  {}", out.paint(crate::printer::GREEN, format!("[{}]", names.join(", ")))),
    }
}
