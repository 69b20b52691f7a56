//! `avfs vault create`: a new vault, empty or from a directory.

use std::path::{Path, PathBuf};

use agentvfs::transfer::Report;
use agentvfs::{Vault, VaultName};
use anyhow::Result;
use serde::Serialize;

use crate::commands::transferred::{ReportBody, tell};
use crate::commands::vault::body::VaultBody;
use crate::context::Context;
use crate::escape::printable_path;
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
    let vault = store.create_vault(&name)?;
    let report = match fill(context, &vault, args.from.as_deref()) {
        Ok(report) => report,
        Err(error) => {
            vault.delete(true)?;
            return Err(error);
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

/// Gives a new vault its limits and its files.
fn fill(context: &Context<'_>, vault: &Vault, from: Option<&Path>) -> Result<Option<Report>> {
    let quota = context.settings.quota();
    if quota.bytes.is_some() || quota.files.is_some() {
        vault.set_quota(quota.bytes, quota.files)?;
    }
    let Some(from) = from else { return Ok(None) };
    let progress = Progress::start(context.out, "import", None);
    let mut open = vault.begin()?;
    let report = open.fill_from_directory(from, &progress)?;
    open.commit("import", &printable_path(from))?;
    Ok(Some(report))
}
