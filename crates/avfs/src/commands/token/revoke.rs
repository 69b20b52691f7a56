//! `avfs token revoke`: ends a token.

use anyhow::Result;

use super::{failure, open};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Revoke a token; a running server refuses it from the next request on
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs token revoke 488cbc875eac")]
pub struct TokenRevokeArgs {
    /// The id of the token, as `avfs token list` shows it
    #[arg(value_name = "ID")]
    id: String,
}

pub fn run(context: &mut Context<'_>, args: &TokenRevokeArgs) -> Result<ExitStatus> {
    let info = open(context)?.revoke(&args.id).map_err(failure)?;
    let out = &mut *context.out;
    if out.is_json() {
        out.object("token", &info)?;
        return Ok(ExitStatus::Success);
    }
    out.talk(format_args!(
        "revoked token {} of tenant {}",
        info.id, info.tenant
    ));
    Ok(ExitStatus::Success)
}
