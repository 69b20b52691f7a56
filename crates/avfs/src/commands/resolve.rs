//! `avfs resolve`: settle a conflict.

use std::io::Read;
use std::path::{Path, PathBuf};

use agentvfs::{Resolution, Vault};
use anyhow::{Context as _, Result};
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::vault_path;
use crate::context::Context;
use crate::editor;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::PathField;
use crate::versions::count;

/// Settle a conflict that a merge left open
#[derive(Debug, clap::Args)]
#[command(
    after_help = "After `avfs sync`, --ours is what the task has, and --theirs what the directory has. After
`avfs merge`, --ours is what the vault had that was merged into, and --theirs what was merged.

A file that was put right in a mount or with `avfs write` is settled with --as-is.

Examples:
  avfs resolve src/main.rs --theirs
  avfs resolve src/main.rs --edit
  avfs resolve src/main.rs --file merged.rs
  avfs resolve src/main.rs --as-is"
)]
pub struct ResolveArgs {
    #[arg(value_parser = vault_path())]
    path: TreePath,

    #[command(flatten)]
    to: To,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct To {
    /// What the vault had that was merged into; after a sync: the task
    #[arg(long)]
    ours: bool,

    /// What the vault had that was merged; after a sync: the directory
    #[arg(long)]
    theirs: bool,

    /// What both had before
    #[arg(long)]
    base: bool,

    /// What an editor makes of it: $VISUAL or $EDITOR
    #[arg(long)]
    edit: bool,

    /// The contents of a file; '-': standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// What is there now
    #[arg(long)]
    as_is: bool,
}

#[derive(Serialize)]
struct ResolvedBody {
    vault: String,
    #[serde(flatten)]
    path: PathField,
    snapshot: String,
    /// How many conflicts are still open.
    conflicts: u64,
}

pub fn run(context: &mut Context<'_>, args: &ResolveArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    let resolution = args.to.read(&vault, &args.path)?;
    let saved = vault.resolve(&args.path, &resolution)?;
    let left = vault.info()?.conflicts;
    if context.out.is_json() {
        let (vault, snapshot) = (vault.name()?.to_string(), saved.snapshot.to_string());
        let body = ResolvedBody { vault, path: (&args.path).into(), snapshot, conflicts: left };
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
        Ok(match (self.ours, self.theirs, self.base) {
            (true, ..) => Resolution::Ours,
            (_, true, _) => Resolution::Theirs,
            (.., true) => Resolution::Base,
            (false, false, false) => Resolution::AsIs,
        })
    }
}

fn read_file(file: &Path) -> Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("reading standard input")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| format!("reading {}", file.display()))
}

/// What the user makes of a text. Markers that are left are most likely forgotten.
pub fn edited(text: &[u8]) -> Result<Vec<u8>> {
    let draft = tempfile::Builder::new().prefix("avfs-resolve-").tempfile().context("making a draft")?;
    std::fs::write(draft.path(), text).context("writing a draft")?;
    if !editor::edit(draft.path())? {
        return Err(not_resolved("the editor ended with an error").into());
    }
    let text = std::fs::read(draft.path()).context("reading the draft")?;
    let is_marker = |line: &[u8]| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> ");
    match text.split(|byte| *byte == b'\n').any(is_marker) {
        true => Err(not_resolved("the text still has conflict markers").into()),
        false => Ok(text),
    }
}

fn not_resolved(reason: &str) -> Failure {
    Failure::new("not-resolved", ExitStatus::Conflict, format!("nothing was resolved: {reason}"))
}
