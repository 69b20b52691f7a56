//! `avfs vault import`: a vault from a file that `vault export` wrote.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use agentvfs::{Carried, VaultName};
use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::size::HumanSize;
use crate::versions::count;

/// Read a vault from a file that `vault export` wrote
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault import web.avfs
  avfs vault import web.avfs --name web-copy")]
pub struct VaultImportArgs {
    /// The file to read; '-' is standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    /// Name of the vault [default: the name it had]
    #[arg(long)]
    name: Option<String>,
}

#[derive(Serialize)]
struct VaultImportBody<'a> {
    vault: &'a str,
    objects: u64,
    bytes: u64,
    snapshots: u64,
}

pub fn run(context: &mut Context<'_>, args: &VaultImportArgs) -> Result<ExitStatus> {
    let name = args.name.as_deref().map(VaultName::new).transpose()?;
    let store = context.store()?;
    let (mut input, shown): (Box<dyn Read>, String) = if args.file == Path::new("-") {
        (Box::new(io::stdin().lock()), "standard input".to_owned())
    } else {
        let shown = printable_path(&args.file);
        let file = File::open(&args.file).with_context(|| format!("opening {shown}"))?;
        (Box::new(BufReader::with_capacity(1 << 20, file)), shown)
    };
    let progress = Progress::spin(context.out, "import");
    let imported = store.import_bundle(&mut input, &shown, name.as_ref(), &mut |carried| {
        progress.say(|| {
            format!(
                "{}, {}",
                count(carried.objects, "object"),
                HumanSize(carried.bytes)
            )
        });
    });
    let hint = "`--name NAME` gives it another name";
    let (vault, carried) = imported.map_err(|error| Failure::hinted(error.into(), "vault-exists", hint))?;
    drop(progress);
    let name = vault.name()?;
    if context.out.is_json() {
        let Carried {
            objects,
            bytes,
            snapshots,
        } = carried;
        let body = VaultImportBody {
            vault: name.as_str(),
            objects,
            bytes,
            snapshots,
        };
        context.out.object("vault-import", &body)?;
    } else {
        let (objects, bytes) = (count(carried.objects, "object"), HumanSize(carried.bytes));
        context
            .out
            .talk(format_args!("vault '{name}': read {objects}, {bytes}"));
    }
    Ok(ExitStatus::Success)
}
