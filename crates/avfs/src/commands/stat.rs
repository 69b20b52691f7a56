//! `avfs stat`: everything known about entries.

use agentvfs::rules::Level;
use agentvfs::{EntryKind, FoundEntry};
use anyhow::Result;
use avfs_core::{TreePath, to_hex};
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::args::{AtArg, PathArg, path_arg};
use crate::context::Context;
use crate::entry::{EntryBody, kind_name, letters, names, octal, target};
use crate::escape::printable;
use crate::exit::ExitStatus;
use crate::json::byte_field;
use crate::printer::Printer;
use crate::rule_args::RuleArgs;
use crate::size::HumanSize;
use crate::time::show_local;
use crate::view::View;

/// Show all attributes of files, including the version for `write --expect`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs stat notes.txt
  avfs stat notes.txt --json | jq -r '.entries[0].version'")]
pub struct StatArgs {
    /// The files and directories to show
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct StatCountsBody {
    entries: Vec<StatBody>,
}

#[derive(Serialize)]
struct StatBody {
    #[serde(flatten)]
    entry: EntryBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    below: Option<BelowBody>,
    xattrs: Vec<XattrBody>,
}

/// The contents of a directory, at any depth.
#[derive(Serialize)]
struct BelowBody {
    files: u64,
    bytes: u64,
}

byte_field!(NameField, name, name_bytes_hex);

#[derive(Serialize)]
struct XattrBody {
    #[serde(flatten)]
    name: NameField,
    value_hex: String,
}

pub fn run(context: &mut Context<'_>, args: &StatArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let view = context.view(&args.at)?;
    let find = |path: &TreePath| Ok((path.clone(), view.find(path)?, version(&view, path)?));
    let found = paths.iter().map(find).collect::<Result<Vec<_>>>()?;
    if context.out.is_json() {
        let entries = found
            .into_iter()
            .map(|(path, found, version)| body(&path, &found, version))
            .collect();
        context.out.object("stat", &StatCountsBody { entries })?;
        return Ok(ExitStatus::Success);
    }
    for (index, (path, found, version)) in found.iter().enumerate() {
        if index > 0 {
            context.out.line("")?;
        }
        print(context.out, path, found, version.as_deref())?;
    }
    Ok(ExitStatus::Success)
}

/// Only files have one, and only for readable files is it shown.
fn version(view: &View, path: &TreePath) -> Result<Option<String>> {
    let found = view.find(path)?;
    match found.entry.kind {
        // It would reveal the contents of the file.
        EntryKind::File { .. } if found.level < Level::Read => Ok(None),
        EntryKind::File { .. } => Ok(Some(view.version(path)?.to_string())),
        _ => Ok(None),
    }
}

fn body(path: &TreePath, found: &FoundEntry, version: Option<String>) -> StatBody {
    let xattrs = found.entry.meta.xattrs.iter();
    let xattrs = xattrs.map(|(name, value)| XattrBody {
        name: NameField::new(name),
        value_hex: to_hex(value),
    });
    let below = match &found.entry.kind {
        EntryKind::Directory { below, .. } if is_counted(found) => Some(BelowBody {
            files: below.inodes,
            bytes: below.bytes,
        }),
        _ => None,
    };
    StatBody {
        entry: EntryBody::new(path, found),
        version,
        below,
        xattrs: xattrs.collect(),
    }
}

/// If something may be hidden, totals are not shown.
fn is_counted(found: &FoundEntry) -> bool {
    match &found.entry.kind {
        EntryKind::Directory { entries, below } => entries.is_none() || below.inodes > 0,
        _ => false,
    }
}

fn print(out: &mut Printer, path: &TreePath, found: &FoundEntry, version: Option<&str>) -> Result<()> {
    let meta = &found.entry.meta;
    let mut row = |label: &str, value: String| out.line(format_args!("{label:<9}{value}"));
    row("path", path.to_string())?;
    row("type", kind_name((&found.entry.kind).into()).to_owned())?;
    match &found.entry.kind {
        EntryKind::Directory { below, .. } if is_counted(found) => {
            row(
                "below",
                format!("{} entries, {}", below.inodes, HumanSize(below.bytes)),
            )?;
        }
        EntryKind::Directory { .. } => {}
        EntryKind::CharDevice { device } | EntryKind::BlockDevice { device } => {
            row("device", device.to_string())?;
        }
        _ => row("size", found.entry.size().to_string())?,
    }
    if let Some(target) = target(found) {
        row("target", printable(target))?;
    }
    row("mode", format!("{} {}", octal(meta.mode), letters(found)))?;
    row("owner", format!("{}:{}", meta.uid, meta.gid))?;
    row("names", names(found).to_string())?;
    row("mtime", show_local(meta.mtime, &TimeZone::system()))?;
    if let Some(version) = version {
        row("version", version.to_owned())?;
    }
    for (name, value) in meta.xattrs.iter() {
        row("xattr", format!("{} = {}", printable(name), printable(value)))?;
    }
    Ok(())
}
