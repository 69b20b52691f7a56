//! `avfs export`: files of a vault to the host.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agentvfs::transfer::DirectoryExport;
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::{AtArg, vault_path};
use crate::commands::transferred::{ReportBody, tell};
use crate::context::Context;
use crate::entry::TargetField;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::host_file::{EVERYONE, write_whole};
use crate::json::PathField;
use crate::progress::Progress;
use crate::rule_args::RuleArgs;

/// Copy the vault, or a part of it, to a directory or a tar archive of the host
#[derive(Debug, clap::Args)]
#[command(
    allow_missing_positional = true,
    after_help = "A target that ends in .tar, or '-', is written as a tar archive.

Examples:
  avfs export /tmp/web
  avfs export dist dist.tar
  avfs export - --at v1 | tar t"
)]
pub struct ExportArgs {
    /// What to copy
    #[arg(value_parser = vault_path(), default_value = "/")]
    path: TreePath,

    /// Directory or tar file to write; '-' is a tar archive on standard output
    #[arg(value_name = "DIR|TAR", required = true, value_hint = clap::ValueHint::AnyPath)]
    target: PathBuf,

    /// Write into a directory that has files, or over a tar file
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct ExportBody {
    #[serde(flatten)]
    path: PathField,
    #[serde(flatten)]
    target: TargetField,
    #[serde(flatten)]
    report: ReportBody,
}

pub fn run(context: &mut Context<'_>, args: &ExportArgs) -> Result<ExitStatus> {
    check_target(context, args)?;
    let view = context.view(&args.at)?;
    let total = view.files_at(&args.path)?;
    let progress = Progress::start(context.out, "export", total);
    let report = match form(&args.target) {
        Form::Stream => view.export_tar(&args.path, &mut context.out.stream(), &progress)?,
        Form::Tar => write_whole(&args.target, EVERYONE, args.force, |out| {
            Ok(view.export_tar(&args.path, out, &progress)?)
        })?,
        Form::Directory => {
            let options = DirectoryExport { merge: args.force, ..DirectoryExport::default() };
            view.export_directory(&args.path, &args.target, &options, &progress)?
        }
    };
    drop(progress);
    if context.out.is_json() {
        let target = TargetField::new(args.target.as_os_str().as_bytes());
        let body = ExportBody { path: (&args.path).into(), target, report: (&report).into() };
        context.out.object("export", &body)?;
    }
    tell(context.out, "exported", &report);
    Ok(ExitStatus::Success)
}

enum Form {
    Directory,
    Tar,
    /// An archive on standard output.
    Stream,
}

fn form(target: &Path) -> Form {
    match target.as_os_str().as_bytes() {
        b"-" => Form::Stream,
        name if name.ends_with(b".tar") => Form::Tar,
        _ => Form::Directory,
    }
}

fn check_target(context: &Context<'_>, args: &ExportArgs) -> Result<()> {
    let refuse = |message: &str, hint: &str| {
        Err(Failure::new("usage", ExitStatus::BadInput, message).hint(Some(hint.to_owned())).into())
    };
    let name = args.target.as_os_str().as_bytes();
    match form(&args.target) {
        Form::Stream if context.out.is_json() => {
            refuse("standard output cannot take an archive and --json", "name a file")
        }
        Form::Stream if context.out.is_terminal() => {
            refuse("an archive is not for a terminal", "name a file, or pipe it on")
        }
        Form::Directory if name.ends_with(b".tar.gz") || name.ends_with(b".tgz") => {
            refuse("archives are written without compression", "avfs export - | gzip > FILE")
        }
        _ => Ok(()),
    }
}
