//! States of a sandbox or vault of a server.

use std::io::Read;

use anyhow::Result;
use serde_json::json;

use super::client::part;
use super::http::Body;
use super::sandboxes::moment;
use super::{Session, text};
use crate::exit::ExitStatus;

#[derive(Debug, clap::Subcommand)]
pub enum CheckpointVerb {
    Save(SaveVerb),
    List(ListVerb),
    Restore(RestoreVerb),
    Delete(DeleteVerb),
}

#[derive(Debug, clap::Args)]
pub struct SaveVerb {
    name: String,
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct ListVerb {
    #[arg(long)]
    auto: bool,
}

#[derive(Debug, clap::Args)]
pub struct RestoreVerb {
    name: String,
}

#[derive(Debug, clap::Args)]
pub struct DeleteVerb {
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct LogVerb {
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Debug, clap::Args)]
pub struct DiffVerb {
    #[arg(value_name = "REV", num_args = 0..=2)]
    revisions: Vec<String>,
    #[arg(short, long)]
    patch: bool,
    #[arg(long, conflicts_with = "patch")]
    name_only: bool,
    #[arg(long)]
    exit_code: bool,
}

#[derive(Debug, clap::Args)]
pub struct AuditVerb {}

pub fn checkpoint(session: &mut Session<'_>, verb: &CheckpointVerb) -> Result<ExitStatus> {
    let place = format!("{}/checkpoints", session.subject()?);
    match verb {
        CheckpointVerb::Save(verb) => {
            let body = json!({ "name": verb.name, "message": verb.message });
            let saved = session.client.json("POST", &place, Some(&body))?;
            session.done("checkpoint", &saved)
        }
        CheckpointVerb::List(verb) => {
            let mut all = session.client.list(&place, "", "checkpoints")?;
            all.retain(|one| verb.auto || one["automatic"] != true);
            if session.out.is_json() {
                return session.object("checkpoints", &json!({ "checkpoints": all }));
            }
            for one in &all {
                let message = text(&one["message"]);
                session.out.line(format_args!(
                    "{}  {}  {message}",
                    text(&one["name"]),
                    moment(&one["time_ms"])
                ))?;
            }
            Ok(ExitStatus::Success)
        }
        CheckpointVerb::Restore(verb) => {
            let place = format!("{}/restore", session.subject()?);
            let restored = session
                .client
                .json("POST", &place, Some(&json!({ "revision": verb.name })))?;
            session.done("restore", &restored)
        }
        CheckpointVerb::Delete(verb) => {
            for name in &verb.names {
                session
                    .client
                    .json("DELETE", &format!("{place}/{}", part(name)), None)?;
            }
            session.done("checkpoint-delete", &json!({ "names": verb.names }))
        }
    }
}

pub fn log(session: &mut Session<'_>, verb: &LogVerb) -> Result<ExitStatus> {
    let place = format!("{}/history", session.subject()?);
    let entries = match verb.limit {
        Some(limit) => {
            let page = session.client.get(&format!("{place}?limit={limit}"))?;
            page["history"].as_array().cloned().unwrap_or_default()
        }
        None => session.client.list(&place, "", "history")?,
    };
    if session.out.is_json() {
        return session.object("log", &json!({ "history": entries }));
    }
    for one in &entries {
        let snapshot = text(&one["snapshot"]);
        session.out.line(format_args!(
            "{}  {}  {}  {}",
            snapshot.get(..12).unwrap_or(&snapshot),
            moment(&one["time_ms"]),
            text(&one["actor"]),
            text(&one["action"])
        ))?;
    }
    Ok(ExitStatus::Success)
}

pub fn diff(session: &mut Session<'_>, verb: &DiffVerb) -> Result<ExitStatus> {
    let subject = session.subject()?;
    let names = ["from", "to"].into_iter().zip(&verb.revisions);
    let words: Vec<String> = names
        .map(|(name, revision)| format!("{name}={}", part(revision)))
        .collect();
    let query = if words.is_empty() {
        String::new()
    } else {
        format!("?{}", words.join("&"))
    };
    let found = session.client.get(&format!("{subject}/diff{query}"))?;
    let changes = found["changes"].as_array().cloned().unwrap_or_default();
    if session.out.is_json() {
        session.out.object("diff", &found)?;
    } else if verb.patch {
        let mut answer = session
            .client
            .ask("GET", &format!("{subject}/patch{query}"), &[], Body::Nothing)?;
        let mut patch = Vec::new();
        answer
            .body
            .read_to_end(&mut patch)
            .map_err(|error| session.client.failed(&error))?;
        session.out.content(&patch)?;
    } else {
        for change in &changes {
            let path = text(&change["path"]);
            if verb.name_only {
                session.out.line(path)?;
            } else {
                session
                    .out
                    .line(format_args!("{:<8}  {path}", text(&change["kind"])))?;
            }
        }
    }
    let differs = verb.exit_code && !changes.is_empty();
    Ok(if differs {
        ExitStatus::No
    } else {
        ExitStatus::Success
    })
}

pub fn audit(session: &mut Session<'_>, _: &AuditVerb) -> Result<ExitStatus> {
    let entries = session
        .client
        .list(&format!("{}/audit", session.subject()?), "", "audit")?;
    if session.out.is_json() {
        return session.object("audit", &json!({ "audit": entries }));
    }
    for one in &entries {
        session.out.line(format_args!(
            "{}  {}  {}  {}  {}",
            one["seq"],
            moment(&one["time_ms"]),
            text(&one["actor"]),
            text(&one["action"]),
            text(&one["detail"])
        ))?;
    }
    Ok(ExitStatus::Success)
}
