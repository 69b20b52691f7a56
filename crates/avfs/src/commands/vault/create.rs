//! `avfs vault create`: a new vault, empty or from a directory.

use std::path::PathBuf;

use agentvfs::VaultName;
use anyhow::Result;

use crate::commands::vault::body::VaultBody;
use crate::context::Context;
use crate::exit::ExitStatus;

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

pub fn run(context: &mut Context<'_>, args: &CreateArgs) -> Result<ExitStatus> {
    let name = VaultName::new(&args.name)?;
    let store = context.store()?;
    let vault = store.create_vault(&name)?;
    let quota = context.settings.quota();
    if quota.bytes.is_some() || quota.files.is_some() {
        vault.set_quota(quota.bytes, quota.files)?;
    }
    if args.choose {
        store.use_vault(name.as_str())?;
    }
    if context.out.is_json() {
        let current = context.chosen_vault(&store)?;
        context.out.object("vault-create", &VaultBody::new(&vault.info()?, current.as_deref()))?;
    }
    context.out.talk(format_args!("made vault '{name}'"));
    Ok(ExitStatus::Success)
}
