//! `avfs session list`.

use std::time::Duration;

use agentvfs::session::SessionState;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::time::{show_rfc3339, show_span};

/// List the sessions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Of each: its id, its vault, whether it is idle or running, for how long it has been idle, \
since when it is there, and who uses it.

Examples:
  avfs session list
  avfs session list --json"
)]
pub struct ListArgs {}

#[derive(Serialize)]
struct ListBody {
    sessions: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    id: String,
    vault: String,
    since: String,
    idle_ms: u64,
    idle_limit_ms: u64,
    state: &'static str,
    principal: Option<String>,
    commands: u64,
    pid: u32,
}

impl From<SessionState> for Line {
    fn from(session: SessionState) -> Line {
        let SessionState { record, activity, idle_ms, commands } = session;
        Line {
            id: record.id,
            vault: record.vault,
            since: show_rfc3339(record.since),
            idle_ms,
            idle_limit_ms: record.idle_limit_ms,
            state: activity.as_str(),
            principal: record.principal,
            commands,
            pid: record.pid,
        }
    }
}

pub fn run(context: &mut Context<'_>, _args: &ListArgs) -> Result<ExitStatus> {
    let sessions: Vec<Line> = context.store()?.sessions()?.into_iter().map(Line::from).collect();
    if context.out.is_json() {
        context.out.object("sessions", &ListBody { sessions })?;
        return Ok(ExitStatus::Success);
    }
    for line in sessions {
        let idle = show_span(Duration::from_secs(line.idle_ms / 1000));
        let who =
            line.principal.as_deref().map(|who| agentvfs::printable(who.as_bytes())).unwrap_or_default();
        let Line { id, vault, state, since, .. } = line;
        context.out.line(format_args!("{id}\t{vault}\t{state}\t{idle}\t{since}\t{who}"))?;
    }
    Ok(ExitStatus::Success)
}
