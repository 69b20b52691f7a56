//! `avfs resolve`: settle a conflict.

use std::io::Read;
use std::path::{Path, PathBuf};

use agentvfs::{Resolution, Vault};
use anyhow::{Context as _, Result};
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::{PathArg, path_arg};
use crate::context::Context;
use crate::editor;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::PathField;
use crate::versions::count;

/// Resolve a conflict that a merge left open
#[derive(Debug, clap::Args)]
#[command(
    after_help = "After `avfs sync`, --task (or --ours) is the task's version and --directory (or --theirs) the
directory's. After `avfs merge`, --ours is the version of the vault that was merged into, and
--theirs that of the vault that was merged. Of a text, a version is taken in the lines that both
sides changed; everything else stays merged. If you have already fixed the file, in a mount or with `avfs write`, use --as-is.

Examples:
  avfs resolve src/main.rs --theirs
  avfs resolve src/main.rs --directory
  avfs resolve src/main.rs --edit
  avfs resolve src/main.rs --file merged.rs
  avfs resolve src/main.rs --as-is"
)]
pub struct ResolveArgs {
    /// The path in conflict
    #[arg(value_parser = path_arg())]
    path: PathArg,

    #[command(flatten)]
    to: To,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct To {
    /// Use the version of the vault that was merged into; after a sync, of the task
    #[arg(long)]
    ours: bool,

    /// Use the version of the vault that was merged; after a sync, of the directory
    #[arg(long)]
    theirs: bool,

    /// After a sync: use the version of the task
    #[arg(long)]
    task: bool,

    /// After a sync: use the version of the directory
    #[arg(long)]
    directory: bool,

    /// Use the version that both sides started from, for the whole file
    #[arg(long)]
    base: bool,

    /// Edit the file in $VISUAL or $EDITOR
    #[arg(long)]
    edit: bool,

    /// Use the contents of this file; '-' is standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Use the file as it is now
    #[arg(long)]
    as_is: bool,
}

#[derive(Serialize)]
struct ResolvedBody {
    vault: String,
    #[serde(flatten)]
    path: PathField,
    snapshot: String,
    /// The number of conflicts that are still open.
    conflicts: u64,
}

pub fn run(context: &mut Context<'_>, args: &ResolveArgs) -> Result<ExitStatus> {
    let path = context.path(&args.path)?;
    let vault = context.vault()?;
    let resolution = args.to.read(&vault, &path)?;
    let saved = vault.resolve(&path, &resolution)?;
    let left = vault.info()?.conflicts;
    if context.out.is_json() {
        let (vault, snapshot) = (vault.name()?.to_string(), saved.snapshot.to_string());
        let body = ResolvedBody {
            vault,
            path: (&path).into(),
            snapshot,
            conflicts: left,
        };
        context.out.object("resolved", &body)?;
    } else if left > 0 {
        context.out.talk(format_args!("{} left", count(left, "conflict")));
    } else {
        context.out.talk("no conflict is left");
    }
    Ok(ExitStatus::Success)
}

impl To {
    fn read(&self, vault: &Vault, path: &TreePath) -> Result<Resolution> {
        if let Some(file) = &self.file {
            return Ok(Resolution::Bytes(read_file(file)?));
        }
        if self.edit {
            return Ok(Resolution::Bytes(edited(&vault.begin()?.read(path)?)?));
        }
        if self.task || self.directory {
            check_synced(vault, path)?;
        }
        Ok(if self.ours || self.task {
            Resolution::Ours
        } else if self.theirs || self.directory {
            Resolution::Theirs
        } else if self.base {
            Resolution::Base
        } else {
            Resolution::AsIs
        })
    }
}

/// Refuses to call the sides of a conflict a task and a directory if they are two vaults.
fn check_synced(vault: &Vault, path: &TreePath) -> Result<()> {
    let open = vault.conflicts()?;
    let Some(open) = open.iter().find(|open| open.conflict.path == *path) else {
        // The resolution reports that there is no conflict.
        return Ok(());
    };
    let is_task = vault.store().task(vault.name()?.as_str()).is_ok();
    if is_task && open.is_with_directory() {
        return Ok(());
    }
    let (into, from) = (vault.name()?, printable_line(open.from.as_bytes()));
    Err(Failure::new(
        "not-resolved",
        ExitStatus::Conflict,
        format!("nothing was resolved: this conflict is between '{into}' and '{from}', not a task and its directory"),
    )
    .hint(Some(format!("--ours is what '{into}' has, --theirs what '{from}' has")))
    .into())
}

fn read_file(file: &Path) -> Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .context("reading standard input")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| format!("reading {}", file.display()))
}

/// The text as edited by the user. Remaining markers are most likely forgotten.
pub fn edited(text: &[u8]) -> Result<Vec<u8>> {
    let draft = tempfile::Builder::new()
        .prefix("avfs-resolve-")
        .tempfile()
        .context("making a draft")?;
    std::fs::write(draft.path(), text).context("writing a draft")?;
    if !editor::edit(draft.path())? {
        return Err(not_resolved("the editor ended with an error").into());
    }
    let text = std::fs::read(draft.path()).context("reading the draft")?;
    let is_marker = |line: &[u8]| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> ");
    if text.split(|byte| *byte == b'\n').any(is_marker) {
        Err(not_resolved("the text still has conflict markers").into())
    } else {
        Ok(text)
    }
}

fn not_resolved(reason: &str) -> Failure {
    Failure::new(
        "not-resolved",
        ExitStatus::Conflict,
        format!("nothing was resolved: {reason}"),
    )
}
