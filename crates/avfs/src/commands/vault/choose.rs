//! `avfs vault use`: choose the vault for the commands that follow.

use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::settings::{Key, Origin};

/// Choose the vault that commands work on
#[derive(Debug, clap::Args)]
#[command(after_help = "A --vault flag, AVFS_VAULT or `vault` in avfs.toml still beats this choice.

Examples:
  avfs vault use web")]
pub struct UseArgs {
    name: String,
}

#[derive(Serialize)]
struct UseBody<'a> {
    name: &'a str,
}

pub fn run(context: &mut Context<'_>, args: &UseArgs) -> Result<ExitStatus> {
    let name = context.vault_named(&args.name)?.name()?;
    let name = name.as_str();
    context.store()?.use_vault(name)?;
    if context.out.is_json() {
        context.out.object("vault-use", &UseBody { name })?;
    }
    if let Some(stronger) = stronger_choice(context, name) {
        context.out.warn(format_args!("{stronger} names another vault, and beats this choice"));
    }
    Ok(ExitStatus::Success)
}

/// Who has chosen another vault with more weight, for good.
fn stronger_choice(context: &Context<'_>, name: &str) -> Option<String> {
    if context.settings.vault().is_none_or(|other| other == name) {
        return None;
    }
    match &context.settings.get(Key::Vault).origin {
        Origin::Default | Origin::Flag => None,
        Origin::UserFile { file, .. } | Origin::ProjectFile { file, .. } => {
            Some(crate::escape::printable_path(file))
        }
        Origin::Environment { variable } => Some(variable.clone()),
    }
}
