//! `avfs token list`: the tokens, and when each was last used.

use agentvfs::Timestamp;
use anyhow::Result;
use avfs_server::auth::TokenInfo;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{failure, open};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::time;

/// List tokens: id, state, tenant, scopes, last use and note
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs token list
  avfs token list --json")]
pub struct TokenListArgs {}

#[derive(Serialize)]
struct TokenListBody {
    tokens: Vec<TokenInfo>,
}

pub fn run(context: &mut Context<'_>, _: &TokenListArgs) -> Result<ExitStatus> {
    let tokens = open(context)?.list().map_err(failure)?;
    let out = &mut *context.out;
    if out.is_json() {
        out.object("tokens", &TokenListBody { tokens })?;
        return Ok(ExitStatus::Success);
    }
    let now = time::now();
    for token in &tokens {
        let used = match token.last_used {
            Some(used) => format!("used {}", shown(used)),
            None => "never used".to_owned(),
        };
        let is_over = token.expires.is_some_and(|expires| expires / 1000 <= now.seconds);
        let state = match (token.revoked, is_over) {
            (Some(_), _) => "revoked",
            (None, true) => "expired",
            (None, false) => "valid",
        };
        out.line(format_args!(
            "{}  {state:<7}  {}  {}  {used}  {}",
            token.id,
            token.tenant,
            token.scopes.to_string().replace(' ', ","),
            avfs_core::printable(token.note.as_bytes())
        ))?;
    }
    if tokens.is_empty() {
        out.talk(format_args!(
            "there are no tokens; `avfs token create --scope run` makes one"
        ));
    }
    Ok(ExitStatus::Success)
}

fn shown(millis: i64) -> String {
    let time = Timestamp {
        seconds: millis.div_euclid(1000),
        nanos: 0,
    };
    time::show_local(time, &TimeZone::system())
}
