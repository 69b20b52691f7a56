//! `avfs vault create`: a new vault, empty or from a directory.

use std::path::PathBuf;

use agentvfs::{Limits, VaultName};
use anyhow::Result;
use serde::Serialize;

use crate::commands::transferred::{ReportBody, tell};
use crate::commands::vault::body::VaultBody;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::progress::Progress;

/// Make a new vault
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault create web
  avfs vault create web --from ~/src/web --use")]
pub struct CreateArgs {
    /// Name of the vault: letters, digits, '-', '_' and '.'
    name: String,

    /// Fill it with a copy of this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    from: Option<PathBuf>,

    /// Choose it for the commands that follow
    #[arg(long = "use")]
    choose: bool,
}

#[derive(Serialize)]
struct CreateBody {
    #[serde(flatten)]
    vault: VaultBody,
    /// Of `--from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<ReportBody>,
}

pub fn run(context: &mut Context<'_>, args: &CreateArgs) -> Result<ExitStatus> {
    let name = VaultName::new(&args.name)?;
    let store = context.store()?;
    let quota = context.settings.quota();
    let limits = Limits { bytes: quota.bytes, files: quota.files };
    let (vault, report) = match &args.from {
        None => (store.create_limited_vault(&name, limits)?, None),
        Some(from) => {
            let progress = Progress::start(context.out, "import", None);
            let (vault, report) = store.create_vault_from(&name, from, limits, &progress)?;
            (vault, Some(report))
        }
    };
    if args.choose {
        store.use_vault(name.as_str())?;
    }
    if context.out.is_json() {
        let current = context.chosen_vault(&store)?;
        let vault = VaultBody::new(&vault.info()?, current.as_deref());
        let report = report.as_ref().map(ReportBody::from);
        context.out.object("vault-create", &CreateBody { vault, report })?;
    }
    context.out.talk(format_args!("made vault '{name}'"));
    if let Some(report) = &report {
        tell(context.out, "imported", report);
    }
    Ok(ExitStatus::Success)
}
