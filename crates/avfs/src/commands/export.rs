//! `avfs export`: files of a vault to the host.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agentvfs::transfer::DirectoryExport;
use anyhow::Result;
use serde::Serialize;

use crate::args::{AtArg, PathArg, path_arg};
use crate::commands::transferred::{ReportBody, tell};
use crate::context::Context;
use crate::entry::TargetField;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::host_file::{EVERYONE, write_whole};
use crate::json::PathField;
use crate::progress::Progress;
use crate::rule_args::RuleArgs;

/// Copy the vault, or part of it, to a directory or a tar archive on the host
#[derive(Debug, clap::Args)]
#[command(
    allow_missing_positional = true,
    after_help = "If the target ends in .tar or is '-', a tar archive is written.

Examples:
  avfs export /tmp/web
  avfs export dist dist.tar
  avfs export - --at v1 | tar t"
)]
pub struct ExportArgs {
    /// The path in the vault to copy
    #[arg(value_parser = path_arg(), default_value = "/")]
    path: PathArg,

    /// The directory or tar file to write; '-' is a tar archive on standard output
    #[arg(value_name = "DIR|TAR", required = true, value_hint = clap::ValueHint::AnyPath)]
    target: PathBuf,

    /// Write into a directory that is not empty, or replace a tar file
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
    let path = context.path(&args.path)?;
    check_target(context, args)?;
    let view = context.view(&args.at)?;
    let total = view.files_at(&path)?;
    let progress = Progress::start(context.out, "export", total);
    let report = match form(&args.target) {
        ExportForm::Stream => view.export_tar(&path, &mut context.out.stream(), &progress)?,
        ExportForm::Tar => write_whole(&args.target, EVERYONE, args.force, |out| {
            Ok(view.export_tar(&path, out, &progress)?)
        })?,
        ExportForm::Directory => {
            let options = DirectoryExport {
                merge: args.force,
                ..DirectoryExport::default()
            };
            view.export_directory(&path, &args.target, &options, &progress)?
        }
    };
    drop(progress);
    if context.out.is_json() {
        let target = TargetField::new(args.target.as_os_str().as_bytes());
        let body = ExportBody {
            path: (&path).into(),
            target,
            report: (&report).into(),
        };
        context.out.object("export", &body)?;
    }
    tell(context.out, "exported", &report);
    Ok(ExitStatus::Success)
}

enum ExportForm {
    Directory,
    Tar,
    /// An archive on standard output.
    Stream,
}

fn form(target: &Path) -> ExportForm {
    match target.as_os_str().as_bytes() {
        b"-" => ExportForm::Stream,
        name if name.ends_with(b".tar") => ExportForm::Tar,
        _ => ExportForm::Directory,
    }
}

fn check_target(context: &Context<'_>, args: &ExportArgs) -> Result<()> {
    let refuse = |message: &str, hint: &str| {
        Err(Failure::new("usage", ExitStatus::BadInput, message)
            .hint(Some(hint.to_owned()))
            .into())
    };
    let name = args.target.as_os_str().as_bytes();
    match form(&args.target) {
        ExportForm::Stream if context.out.is_json() => {
            refuse("standard output cannot take an archive and --json", "name a file")
        }
        ExportForm::Stream if context.out.is_terminal() => {
            refuse("an archive is not for a terminal", "name a file, or pipe it on")
        }
        ExportForm::Directory if name.ends_with(b".tar.gz") || name.ends_with(b".tgz") => refuse(
            "archives are written without compression",
            "avfs export - | gzip > FILE",
        ),
        _ => Ok(()),
    }
}
