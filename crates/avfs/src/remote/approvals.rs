//! Requests of commands on a server that a person has to allow.

use anyhow::Result;
use serde_json::{Value, json};

use super::client::part;
use super::sandboxes::moment;
use super::{Session, text};
use crate::escape::printable_text;
use crate::exit::ExitStatus;

#[derive(Debug, clap::Subcommand)]
pub enum ApprovalsVerb {
    List(ListVerb),
    Show(ShowVerb),
    Allow(AllowVerb),
    Deny(DenyVerb),
}

#[derive(Debug, clap::Args)]
pub struct ListVerb {
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, clap::Args)]
pub struct ShowVerb {
    #[arg(value_name = "ID")]
    id: String,
    #[arg(long)]
    diff: bool,
}

#[derive(Debug, clap::Args)]
pub struct AllowVerb {
    #[arg(value_name = "ID")]
    id: String,
    #[arg(long, group = "scope")]
    once: bool,
    #[arg(long, group = "scope")]
    session: bool,
    #[arg(long, group = "scope")]
    always: bool,
}

#[derive(Debug, clap::Args)]
pub struct DenyVerb {
    #[arg(value_name = "ID")]
    id: String,
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub fn run(session: &mut Session<'_>, verb: &ApprovalsVerb) -> Result<ExitStatus> {
    match verb {
        ApprovalsVerb::List(verb) => list(session, verb.all),
        ApprovalsVerb::Show(verb) => show(session, &verb.id, verb.diff),
        ApprovalsVerb::Allow(verb) => {
            let answer = match (verb.session, verb.always) {
                (true, _) => "session",
                (_, true) => "always",
                _ => "once",
            };
            answer_to(session, &verb.id, &json!({ "answer": answer }))
        }
        ApprovalsVerb::Deny(verb) => answer_to(
            session,
            &verb.id,
            &json!({ "answer": "deny", "reason": verb.reason }),
        ),
    }
}

fn list(session: &mut Session<'_>, all: bool) -> Result<ExitStatus> {
    let mut found = session.client.list("/approvals", "", "approvals")?;
    found.retain(|one| all || one["state"] == "pending");
    if session.out.is_json() {
        return session.object("approvals", &json!({ "approvals": found }));
    }
    for one in &found {
        session.out.line(format_args!(
            "{}  {}  {}  {}",
            text(&one["id"]),
            text(&one["state"]),
            moment(&one["created_ms"]),
            text(&one["command"])
        ))?;
    }
    Ok(ExitStatus::Success)
}

fn show(session: &mut Session<'_>, id: &str, with_changes: bool) -> Result<ExitStatus> {
    let place = format!("/approvals/{}", part(id));
    let mut found = session.client.get(&place)?;
    if with_changes {
        found["preview"] = session.client.json("POST", &format!("{place}/preview"), None)?;
    }
    if session.out.is_json() {
        return session.object("approval", &found);
    }
    for name in ["id", "state", "command", "reason", "run"] {
        session.out.line(format_args!("{name}: {}", text(&found[name])))?;
    }
    for name in ["created", "expires"] {
        session
            .out
            .line(format_args!("{name}: {}", moment(&found[format!("{name}_ms")])))?;
    }
    if with_changes {
        let patch = found["preview"]["patch"].as_str().unwrap_or_default();
        session.out.line("")?;
        session.out.line(printable_text(patch.as_bytes()))?;
    }
    Ok(ExitStatus::Success)
}

fn answer_to(session: &mut Session<'_>, id: &str, body: &Value) -> Result<ExitStatus> {
    let place = format!("/approvals/{}/answer", part(id));
    let answered = session.client.json("POST", &place, Some(body))?;
    let state = text(&answered["state"]);
    session
        .out
        .talk(format_args!("{state}: {}", text(&answered["command"])));
    session.done("approval", &answered)
}
