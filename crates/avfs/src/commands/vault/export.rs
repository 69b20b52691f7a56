//! `avfs vault export`: a whole vault in one file.

use std::path::{Path, PathBuf};

use agentvfs::Carried;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::entry::TargetField;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::host_file::{OWNER, write_whole};
use crate::progress::Progress;
use crate::size::HumanSize;
use crate::versions::count;

/// Write a whole vault, with its checkpoints and history, to one file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault export web web.avfs
  avfs vault export web - | ssh host avfs vault import -")]
pub struct VaultExportArgs {
    /// The vault to export
    name: String,

    /// The file to write; '-' is standard output
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct VaultExportBody<'a> {
    vault: &'a str,
    #[serde(flatten)]
    target: TargetField,
    objects: u64,
    bytes: u64,
    snapshots: u64,
}

pub fn run(context: &mut Context<'_>, args: &VaultExportArgs) -> Result<ExitStatus> {
    let vault = context.vault_named(&args.name)?;
    if args.file == Path::new("-") {
        check_stream(context)?;
        vault.export_bundle(&mut context.out.stream(), "standard output", &mut |_| {})?;
        return Ok(ExitStatus::Success);
    }
    let progress = Progress::spin(context.out, "export");
    // It holds everything that was ever in the vault: other users must not read it.
    let carried = write_whole(&args.file, OWNER, args.force, |out| {
        Ok(
            vault.export_bundle(out, &printable_path(&args.file), &mut |carried| {
                progress.say(|| {
                    format!(
                        "{}, {}",
                        count(carried.objects, "object"),
                        HumanSize(carried.bytes)
                    )
                });
            })?,
        )
    })?;
    drop(progress);
    let Carried {
        objects,
        bytes,
        snapshots,
    } = carried;
    if context.out.is_json() {
        let target = TargetField::new(args.file.as_os_str().as_encoded_bytes());
        context.out.object(
            "vault-export",
            &VaultExportBody {
                vault: &args.name,
                target,
                objects,
                bytes,
                snapshots,
            },
        )?;
    } else {
        let (objects, bytes) = (count(objects, "object"), HumanSize(bytes));
        context.out.talk(format_args!(
            "wrote {objects}, {bytes}, {}",
            count(snapshots, "snapshot")
        ));
    }
    Ok(ExitStatus::Success)
}

fn check_stream(context: &Context<'_>) -> Result<()> {
    if !context.out.is_json() && !context.out.is_terminal() {
        return Ok(());
    }
    let message = "a vault's file is neither for a terminal nor for --json";
    let failure = Failure::new("usage", ExitStatus::BadInput, message);
    Err(failure.hint(Some("name a file, or pipe it on".to_owned())).into())
}
