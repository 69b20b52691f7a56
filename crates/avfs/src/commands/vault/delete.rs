//! `avfs vault delete`: removes a vault, unless something still needs it.

use agentvfs::ErrorCode;
use anyhow::Result;
use serde::Serialize;

use avfs_core::shell_word;

use crate::confirm::confirm;
use crate::context::Context;
use crate::escape::{printable, printable_path};
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Delete a vault with its checkpoints and history
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Refused while unmerged forks or a running process need the vault.

Examples:
  avfs vault delete web-fix
  avfs vault delete web-fix --yes
  avfs vault delete web --force web       even if it has unmerged forks"
)]
pub struct VaultDeleteArgs {
    /// The vault to delete
    name: String,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,

    /// Delete it even if something still needs it; repeat the vault's name
    #[arg(long, value_name = "NAME")]
    force: Option<String>,
}

#[derive(Serialize)]
struct DeleteBody<'a> {
    name: &'a str,
}

pub fn run(context: &mut Context<'_>, args: &VaultDeleteArgs) -> Result<ExitStatus> {
    let name = args.name.as_str();
    if let Some(repeated) = args.force.as_deref().filter(|repeated| *repeated != name) {
        let (repeated, name) = (printable(repeated.as_bytes()), printable(name.as_bytes()));
        let message = format!("--force names '{repeated}', and the vault to delete is '{name}'");
        return Err(Failure::new("usage", ExitStatus::BadInput, message).into());
    }
    let vault = context.vault_named(name)?;
    let question = format!("Delete vault '{name}' with its checkpoints and history?");
    if !confirm(context.out, question, args.yes || args.force.is_some())? {
        return Ok(ExitStatus::No);
    }
    let mounted = vault.mounts().list()?.into_iter().next();
    vault
        .delete(args.force.is_some())
        .map_err(|error| match mounted {
            Some(mount) if error.code() == ErrorCode::VaultBusy => {
                let dir = shell_word(&printable_path(&mount.dir));
                let hint = format!("it is mounted: `avfs unmount {dir}` first");
                Failure::of(&error.into()).hint(Some(hint)).into()
            }
            _ => anyhow::Error::from(error),
        })?;
    if context.out.is_json() {
        context.out.object("vault-delete", &DeleteBody { name })?;
    }
    context.out.talk(format_args!("deleted vault '{name}'"));
    Ok(ExitStatus::Success)
}
