//! `avfs token`: who may use `avfs serve` over TCP.

mod create;
mod list;
mod revoke;

use anyhow::Result;
use avfs_server::auth::{TokenError, Tokens};

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Create, list or revoke the tokens of `avfs serve`
#[derive(Debug, clap::Subcommand)]
pub enum TokenCommand {
    Create(create::TokenCreateArgs),
    List(list::TokenListArgs),
    Revoke(revoke::TokenRevokeArgs),
}

pub fn run(context: &mut Context<'_>, command: &TokenCommand) -> Result<ExitStatus> {
    if std::env::var_os("AVFS_SERVER").is_some_and(|server| !server.is_empty()) {
        let store = avfs_core::printable(context.home()?.as_os_str().as_encoded_bytes());
        context.out.warn(format_args!(
            "tokens are those of the store {store} on this machine: AVFS_SERVER does not count here"
        ));
    }
    match command {
        TokenCommand::Create(args) => create::run(context, args),
        TokenCommand::List(args) => list::run(context, args),
        TokenCommand::Revoke(args) => revoke::run(context, args),
    }
}

fn open(context: &Context<'_>) -> Result<Tokens> {
    Ok(Tokens::open(context.home()?).map_err(failure)?)
}

fn failure(error: TokenError) -> Failure {
    let (code, status) = match &error {
        TokenError::Unknown(_) => ("unknown-token", ExitStatus::NotFound),
        TokenError::BadTenant(_) => ("bad-name", ExitStatus::BadInput),
        TokenError::Database(_) | TokenError::Host(_) => ("server-database", ExitStatus::Internal),
    };
    let hint =
        matches!(error, TokenError::Unknown(_)).then(|| "`avfs token list` shows the tokens".to_owned());
    Failure::new(code, status, avfs_core::with_causes(&error)).hint(hint)
}
