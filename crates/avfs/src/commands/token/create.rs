//! `avfs token create`: lets a program use the server.

use std::time::Duration;

use anyhow::Result;
use avfs_server::auth::{NewToken, Scope, TokenInfo};
use serde::Serialize;

use super::{failure, open};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::time::{BadSpan, parse_span};

/// Create a token; it is printed this once and cannot be shown again
#[derive(Debug, clap::Args)]
#[command(after_help = "Scopes:
  read     look at files, states, sandboxes and logs
  run      make sandboxes, run commands in them, and change files
  approve  answer approvals
  admin    merge, delete vaults, see what rules hide, and everything above
Each includes `read`.

Examples:
  avfs token create --scope run
  avfs token create --tenant acme --scope run --scope approve --expires 30d --note 'build server'")]
pub struct TokenCreateArgs {
    /// The kinds of requests that it allows
    #[arg(
        long,
        value_name = "read|run|approve|admin",
        required = true,
        value_delimiter = ','
    )]
    scope: Vec<Scope>,

    /// Whose sandboxes and vaults it is for; `default` is your own store
    #[arg(long, value_name = "NAME", default_value = "default")]
    tenant: String,

    /// After how long it stops working, such as 12h or 30d [default: never]
    #[arg(long, value_name = "TIME", value_parser = span)]
    expires: Option<Duration>,

    /// Its purpose, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
}

fn span(text: &str) -> Result<Duration, BadSpan> {
    parse_span(text)
}

#[derive(Serialize)]
struct TokenCreatedBody<'a> {
    token: &'a str,
    #[serde(flatten)]
    info: &'a TokenInfo,
}

pub fn run(context: &mut Context<'_>, args: &TokenCreateArgs) -> Result<ExitStatus> {
    let new = NewToken {
        tenant: args.tenant.clone(),
        scopes: args.scope.iter().copied().collect(),
        expires: args.expires.map(|expires| expires.as_secs()),
        note: args.note.clone(),
    };
    let (text, info) = open(context)?.create(&new).map_err(failure)?;
    let out = &mut *context.out;
    if out.is_json() {
        let body = TokenCreatedBody {
            token: &text,
            info: &info,
        };
        out.object("token", &body)?;
        return Ok(ExitStatus::Success);
    }
    out.line(format_args!("{text}"))?;
    out.talk(format_args!(
        "created token {} for tenant {}; it is not shown again",
        info.id, info.tenant
    ));
    Ok(ExitStatus::Success)
}
