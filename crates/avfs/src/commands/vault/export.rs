//! `avfs vault export`: a whole vault in one file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use agentvfs::{Carried, Vault};
use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::context::Context;
use crate::entry::TargetField;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::size::HumanSize;
use crate::versions::count;

/// Write a whole vault, with its checkpoints and history, to one file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault export web web.avfs
  avfs vault export web - | ssh host avfs vault import -")]
pub struct ExportArgs {
    name: String,

    /// File to write; '-' is standard output
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct ExportBody<'a> {
    vault: &'a str,
    #[serde(flatten)]
    target: TargetField,
    objects: u64,
    bytes: u64,
    snapshots: u64,
}

pub fn run(context: &mut Context<'_>, args: &ExportArgs) -> Result<ExitStatus> {
    let vault = context.store()?.vault(&args.name)?;
    if args.file == Path::new("-") {
        let mut out = BufWriter::new(io::stdout().lock());
        vault.export_bundle(&mut out, "standard output", &mut |_| {})?;
        return Ok(ExitStatus::Success);
    }
    let progress = Progress::spin(context.out, "export");
    let carried = write_file(&vault, args, &progress)?;
    drop(progress);
    let Carried { objects, bytes, snapshots } = carried;
    if context.out.is_json() {
        let target = TargetField::new(args.file.as_os_str().as_encoded_bytes());
        context
            .out
            .object("vault-export", &ExportBody { vault: &args.name, target, objects, bytes, snapshots })?;
    } else {
        let (objects, bytes) = (count(objects, "object"), HumanSize(bytes));
        context.out.talk(format_args!("wrote {objects}, {bytes}, {}", count(snapshots, "snapshot")));
    }
    Ok(ExitStatus::Success)
}

/// Writes beside the file and moves it into place when it is whole, so that a failure leaves nothing behind.
fn write_file(vault: &Vault, args: &ExportArgs, progress: &Progress) -> Result<Carried> {
    let shown = printable_path(&args.file);
    if !args.force && args.file.symlink_metadata().is_ok() {
        let failure =
            Failure::new("host-exists", ExitStatus::Conflict, format_args!("{shown} exists already"));
        return Err(failure.hint(Some("use --force to replace it".to_owned())).into());
    }
    let mut draft = args.file.clone().into_os_string();
    draft.push(".part");
    let draft = PathBuf::from(draft);
    let written = write_draft(vault, &draft, &shown, progress).and_then(|carried| {
        std::fs::rename(&draft, &args.file).map(|()| carried).with_context(|| format!("writing {shown}"))
    });
    if written.is_err() {
        // What is left of a failed export is of no use; the failure itself is what is told.
        let _ = std::fs::remove_file(&draft);
    }
    written
}

fn write_draft(vault: &Vault, draft: &Path, shown: &str, progress: &Progress) -> Result<Carried> {
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(draft);
    let mut out = BufWriter::new(file.with_context(|| format!("writing {shown}"))?);
    let carried = vault.export_bundle(&mut out, shown, &mut |carried| {
        progress.say(|| format!("{}, {}", count(carried.objects, "object"), HumanSize(carried.bytes)));
    })?;
    out.flush().with_context(|| format!("writing {shown}"))?;
    out.get_ref().sync_all().with_context(|| format!("writing {shown}"))?;
    Ok(carried)
}
