//! `avfs import`: host files into a vault.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use agentvfs::OpenVault;
use agentvfs::transfer::ImportedTree;
use anyhow::{Context as _, Result};
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::{PathArg, path_arg};
use crate::change::ChangedBody;
use crate::commands::transferred::{ReportBody, tell};
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::json::PathField;
use crate::progress::Progress;
use crate::rule_args::RuleArgs;

/// Copy a directory or a tar archive from the host into the vault
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Bytes, modes, times, symbolic and hard links, extended attributes and holes
are kept. A tar archive with a harmful entry (an absolute path, '..', a
device, a path through a link) is refused as a whole.

Examples:
  avfs import ~/src/web
  avfs import release.tar vendor/release
  git archive HEAD | avfs import - src"
)]
pub struct ImportArgs {
    /// The directory or tar file to read; '-' is a tar archive on standard input
    #[arg(value_name = "DIR|TAR", value_hint = clap::ValueHint::AnyPath)]
    source: PathBuf,

    /// The path in the vault to copy to
    #[arg(value_parser = path_arg(), default_value = "/")]
    path: PathArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct ImportBody {
    #[serde(flatten)]
    path: PathField,
    #[serde(flatten)]
    report: ReportBody,
    #[serde(flatten)]
    changed: ChangedBody,
}

pub fn run(context: &mut Context<'_>, args: &ImportArgs) -> Result<ExitStatus> {
    let (source, path) = (&args.source, &context.path(&args.path)?);
    let detail = format!("{} {path}", printable_path(source));
    let progress = Progress::start(context.out, "import", None);
    let mut stored = None;
    let (report, changed) = context.change("import", &detail, |open| {
        // Standard input can be read once, and a directory need not be read twice.
        if stored.is_none() {
            stored = Some(store(open, source, path, &progress)?);
        }
        Ok(open
            .imports()
            .take(path, stored.as_ref().expect("it was stored just now"))?)
    })?;
    drop(progress);
    if context.out.is_json() {
        let body = ImportBody {
            path: path.into(),
            report: (&report).into(),
            changed: changed.body(),
        };
        context.out.object("import", &body)?;
    }
    tell(context.out, "imported", &report);
    Ok(ExitStatus::Success)
}

fn store(open: &OpenVault, source: &Path, path: &TreePath, progress: &Progress) -> Result<ImportedTree> {
    if source == "-" {
        return Ok(open.imports().store_tar(io::stdin().lock(), path, progress)?);
    }
    let opening = || format!("opening {}", printable_path(source));
    let file = File::open(source).with_context(opening)?;
    if file.metadata().with_context(opening)?.is_dir() {
        Ok(open.imports().store_directory(source, path, progress)?)
    } else {
        Ok(open.imports().store_tar(file, path, progress)?)
    }
}
