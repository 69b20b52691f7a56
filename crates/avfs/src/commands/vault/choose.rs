//! `avfs vault use`: choose the vault for the commands that follow.

use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::here::VaultReason;

/// Choose the vault that commands work on
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The --vault flag, AVFS_VAULT, `vault` in avfs.toml and, in the directory of a project,
its only task take precedence over this choice. If a project has several tasks, the
chosen one is used there; in other projects it is not.

Examples:
  avfs vault use web
  avfs vault use --none"
)]
pub struct UseArgs {
    /// The vault or task to choose
    #[arg(required_unless_present = "none")]
    name: Option<String>,

    /// Choose no vault
    #[arg(long, conflicts_with = "name")]
    none: bool,
}

#[derive(Serialize)]
struct UseBody<'a> {
    name: Option<&'a str>,
}

pub fn run(context: &mut Context<'_>, args: &UseArgs) -> Result<ExitStatus> {
    let Some(name) = &args.name else {
        context.store()?.use_no_vault()?;
        if context.out.is_json() {
            context.out.object("vault-use", &UseBody { name: None })?;
        }
        return Ok(ExitStatus::Success);
    };
    let name = context.vault_named(name)?.name()?;
    let name = name.as_str();
    context.store()?.use_vault(name)?;
    if context.out.is_json() {
        context.out.object("vault-use", &UseBody { name: Some(name) })?;
    }
    if let Some(stronger) = stronger_choice(context, name)? {
        context
            .out
            .warn(format_args!("{stronger}, which beats this choice"));
    }
    Ok(ExitStatus::Success)
}

/// A permanent choice of another vault that takes precedence.
fn stronger_choice(context: &Context<'_>, name: &str) -> Result<Option<String>> {
    let Some(decided) = context.decided_already(&context.store()?)? else {
        return Ok(None);
    };
    if decided.vault.name()?.as_str() == name {
        return Ok(None);
    }
    Ok(match decided.reason {
        VaultReason::Flag | VaultReason::Chosen => None,
        VaultReason::Environment(variable) => Some(format!("{variable} names another vault")),
        VaultReason::ProjectFile(file) | VaultReason::UserFile(file) => Some(format!(
            "{} names another vault",
            crate::escape::printable_path(&file)
        )),
        VaultReason::Mount(_) | VaultReason::OnlyTask(_) | VaultReason::ChosenTask(_) => Some(format!(
            "in this directory, commands work on vault '{}'",
            decided.vault.name()?
        )),
    })
}
