//! `avfs vault info`: the properties of one vault.

use agentvfs::{Checkpoint, Vault, VaultInfo, VaultName};
use anyhow::Result;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::commands::vault::body::VaultInfoBody;
use crate::conflicts::warn_of;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::size::HumanSize;
use crate::time::show_local;

/// Show a vault: its state, parent, forks, checkpoints, size and quota
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault info
  avfs vault info web")]
pub struct InfoArgs {
    /// The vault [default: the one that commands work on]
    name: Option<String>,
}

#[derive(Serialize)]
struct InfoBody {
    #[serde(flatten)]
    vault: VaultInfoBody,
    forks: Vec<String>,
    checkpoints: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &InfoArgs) -> Result<ExitStatus> {
    let vault = match &args.name {
        Some(name) => context.vault_named(name)?,
        None => context.vault()?,
    };
    let info = vault.info()?;
    let (forks, checkpoints) = (forks(&vault, &info.name)?, vault.checkpoints()?);
    if context.out.is_json() {
        let current = context.chosen_vault(vault.store())?;
        let body = InfoBody {
            vault: VaultInfoBody::new(&info, current.as_deref()),
            forks,
            checkpoints: checkpoints
                .iter()
                .map(|checkpoint| checkpoint.name.to_string())
                .collect(),
        };
        context.out.object("vault-info", &body)?;
    } else {
        print(context.out, &info, &forks, &checkpoints)?;
        warn_of(context.out, info.name.as_str(), info.conflicts);
    }
    Ok(ExitStatus::Success)
}

/// The vaults that were forked from this one.
fn forks(vault: &Vault, name: &VaultName) -> Result<Vec<String>> {
    let vaults = vault.store().vaults()?.vaults;
    let forks = vaults
        .into_iter()
        .filter(|other| other.parent.as_ref() == Some(name));
    Ok(forks.map(|fork| fork.name.to_string()).collect())
}

fn print(out: &mut Printer, info: &VaultInfo, forks: &[String], checkpoints: &[Checkpoint]) -> Result<()> {
    let mut row = |label: &str, value: String| out.line(format_args!("{label:<13}{value}"));
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let limit = |limit: Option<String>| limit.unwrap_or_else(|| "unlimited".to_owned());
    let names: Vec<&str> = checkpoints
        .iter()
        .map(|checkpoint| checkpoint.name.as_str())
        .collect();
    row("name", info.name.to_string())?;
    row("head", info.head.to_string())?;
    row("entries", info.files.to_string())?;
    row("size", HumanSize(info.bytes).to_string())?;
    row("created", show_local(info.created, &TimeZone::system()))?;
    row(
        "forked from",
        or_none(info.parent.as_ref().map(ToString::to_string).unwrap_or_default()),
    )?;
    row("forks", or_none(forks.join(", ")))?;
    row("checkpoints", or_none(names.join(", ")))?;
    row("snapshots", info.snapshots.to_string())?;
    row(
        "max bytes",
        limit(info.max_bytes.map(|bytes| HumanSize(bytes).to_string())),
    )?;
    row(
        "max entries",
        limit(info.max_files.map(|files| files.to_string())),
    )?;
    Ok(())
}
