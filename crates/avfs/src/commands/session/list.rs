//! `avfs session list`.

use std::time::Duration;

use agentvfs::Timestamp;
use agentvfs::session::SessionState;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::table;
use crate::time::{Age, now, show_rfc3339, show_span};

/// List the sessions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints a table of the sessions: the id, the vault, whether it is idle or running, how long it has \
been idle, how many commands it has run, when it was started, and the principal that uses it.

Examples:
  avfs session list
  avfs session list --json"
)]
pub struct SessionListArgs {}

#[derive(Serialize)]
struct SessionListBody {
    sessions: Vec<SessionLine>,
}

#[derive(Serialize)]
struct SessionLine {
    id: String,
    vault: String,
    since: String,
    #[serde(skip)]
    started: Timestamp,
    idle_ms: u64,
    idle_limit_ms: u64,
    state: &'static str,
    principal: Option<String>,
    commands: u64,
    pid: u32,
}

impl From<SessionState> for SessionLine {
    fn from(session: SessionState) -> SessionLine {
        let SessionState {
            record,
            activity,
            idle_ms,
            commands,
        } = session;
        SessionLine {
            id: record.id,
            vault: record.vault,
            since: show_rfc3339(record.since),
            started: record.since,
            idle_ms,
            idle_limit_ms: record.idle_limit_ms,
            state: activity.as_str(),
            principal: record.principal,
            commands,
            pid: record.pid,
        }
    }
}

pub fn run(context: &mut Context<'_>, _args: &SessionListArgs) -> Result<ExitStatus> {
    let sessions: Vec<SessionLine> = context
        .store()?
        .sessions()
        .list()?
        .into_iter()
        .map(SessionLine::from)
        .collect();
    if context.out.is_json() {
        context.out.object("sessions", &SessionListBody { sessions })?;
        return Ok(ExitStatus::Success);
    }
    if sessions.is_empty() {
        context
            .out
            .talk("there is no session; `avfs session start` starts one");
        return Ok(ExitStatus::Success);
    }
    let rows: Vec<[String; 7]> = sessions.into_iter().map(row).collect();
    let heading = ["ID", "VAULT", "STATE", "IDLE", "COMMANDS", "STARTED", "PRINCIPAL"];
    table::print(context.out, heading, &rows)?;
    Ok(ExitStatus::Success)
}

fn row(line: SessionLine) -> [String; 7] {
    let idle = match line.state {
        "running" => "-".to_owned(),
        _ => show_span(Duration::from_secs(line.idle_ms / 1000)),
    };
    let age = Age {
        then: line.started,
        now: now(),
    }
    .to_string();
    let who = line
        .principal
        .map_or_else(|| "-".to_owned(), |who| agentvfs::printable(who.as_bytes()));
    [
        line.id,
        line.vault,
        line.state.to_owned(),
        idle,
        line.commands.to_string(),
        age,
        who,
    ]
}
