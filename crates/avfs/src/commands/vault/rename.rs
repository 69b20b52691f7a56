//! `avfs vault rename`: another name for the same vault.

use agentvfs::VaultName;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Rename a vault
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault rename web website")]
pub struct RenameArgs {
    /// The vault to rename
    name: String,

    /// Its new name
    #[arg(value_name = "NEW_NAME")]
    new_name: String,
}

#[derive(Serialize)]
struct RenameBody<'a> {
    from: &'a str,
    to: &'a str,
}

pub fn run(context: &mut Context<'_>, args: &RenameArgs) -> Result<ExitStatus> {
    let to = VaultName::new(&args.new_name)?;
    context.vault_named(&args.name)?.rename(&to)?;
    if context.out.is_json() {
        context.out.object(
            "vault-rename",
            &RenameBody {
                from: &args.name,
                to: to.as_str(),
            },
        )?;
    }
    Ok(ExitStatus::Success)
}
