//! `avfs sandbox`, and `avfs tasks` of a server.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Session, client, text};
use crate::env_args::variable_pair;
use crate::exit::ExitStatus;
use crate::size::parse_size;
use crate::time::{show_local, span_or_seconds};

/// Make, list, fork, close and delete the sandboxes of a server
#[derive(Debug, clap::Subcommand)]
pub enum SandboxCommand {
    Create(SandboxCreateArgs),
    List(SandboxListArgs),
    Show(SandboxShowArgs),
    Fork(SandboxForkArgs),
    Close(SandboxCloseArgs),
    Delete(SandboxDeleteArgs),
}

/// Make a sandbox, and print its id; `avfs exec --vault ID` runs commands in it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs sandbox create --from web --expires 2h
  avfs --server https://box.example:8443 sandbox create --network registry.npmjs.org")]
pub struct SandboxCreateArgs {
    /// Start with the files of this vault, which does not change [default: no files]
    #[arg(long, value_name = "VAULT")]
    from: Option<String>,
    /// The state of the vault: a checkpoint, or the id of a snapshot [default: the present one]
    #[arg(long, value_name = "REV", requires = "from")]
    revision: Option<String>,
    /// Delete it by itself after this long, such as 30m or 2h [default: never]
    #[arg(long, value_name = "TIME", value_parser = span_or_seconds)]
    expires: Option<Duration>,
    /// Let its commands reach this host; can be repeated
    #[arg(long, value_name = "HOST")]
    network: Vec<String>,
    /// Set a variable of all its commands; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable_pair)]
    env: Vec<(String, String)>,
    /// Limit the memory of all its processes together, such as 512M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Do not allow changes
    #[arg(long)]
    read_only: bool,
}

/// List sandboxes: id, state, the vault that each is a fork of, and its age
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs sandbox list
  avfs --server unix:/run/avfs.sock sandbox list --json")]
pub struct SandboxListArgs {}

/// Show a sandbox
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs sandbox show sb5d0c7be0f2a94b1c3d77")]
pub struct SandboxShowArgs {
    /// The id of the sandbox
    #[arg(value_name = "ID")]
    id: String,
}

/// Make copies of a sandbox with its present files, and print their ids
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs sandbox fork sb5d0c7be0f2a94b1c3d77 --count 5")]
pub struct SandboxForkArgs {
    /// The id of the sandbox
    #[arg(value_name = "ID")]
    id: String,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u32,
}

/// End everything that runs in a sandbox; its files stay
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs sandbox close sb5d0c7be0f2a94b1c3d77")]
pub struct SandboxCloseArgs {
    /// The id of the sandbox
    #[arg(value_name = "ID")]
    id: String,
}

/// End sandboxes and delete their files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs sandbox delete sb5d0c7be0f2a94b1c3d77")]
pub struct SandboxDeleteArgs {
    /// The ids of the sandboxes
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// On a server, tasks are its sandboxes.
#[derive(Debug, clap::Args)]
pub struct SandboxTasksArgs {}

pub fn run(session: &mut Session<'_>, command: &SandboxCommand) -> Result<ExitStatus> {
    let place = |id: &str| format!("/sandboxes/{}", client::part(id));
    match command {
        SandboxCommand::Create(args) => create(session, args),
        SandboxCommand::List(_) => list(session),
        SandboxCommand::Show(args) => show(session, &place(&args.id)),
        SandboxCommand::Fork(args) => fork(session, &place(&args.id), args.count),
        SandboxCommand::Close(args) => {
            session
                .client
                .json("POST", &format!("{}/close", place(&args.id)), None)?;
            session.done("sandbox-close", &json!({ "id": args.id }))
        }
        SandboxCommand::Delete(args) => {
            for id in &args.ids {
                session.client.json("DELETE", &place(id), None)?;
            }
            session.done("sandbox-delete", &json!({ "ids": args.ids }))
        }
    }
}

fn create(session: &mut Session<'_>, args: &SandboxCreateArgs) -> Result<ExitStatus> {
    let body = json!({
        "vault": args.from,
        "revision": args.revision,
        "expires_seconds": args.expires.map(|expires| expires.as_secs()),
        "network": args.network,
        "env": args.env.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "memory": args.memory,
        "read_only": args.read_only,
    });
    let made = session.client.json("POST", "/sandboxes", Some(&body))?;
    if session.out.is_json() {
        return session.object("sandbox", &made);
    }
    session.out.line(text(&made["id"]))?;
    Ok(ExitStatus::Success)
}

pub fn list(session: &mut Session<'_>) -> Result<ExitStatus> {
    let all = session.client.list("/sandboxes", "", "sandboxes")?;
    if session.out.is_json() {
        return session.object("sandboxes", &json!({ "sandboxes": all }));
    }
    for one in &all {
        session.out.line(row(one))?;
    }
    if all.is_empty() {
        session
            .out
            .talk("there are no sandboxes; `avfs sandbox create` makes one");
    }
    Ok(ExitStatus::Success)
}

fn row(one: &Value) -> String {
    let parent = match one["parent"].as_str() {
        Some(_) => text(&one["parent"]),
        None => "-".to_owned(),
    };
    let running = one["running"].as_u64().unwrap_or(0);
    format!(
        "{}  {:<4}  {parent}  {}  {running} running",
        text(&one["id"]),
        text(&one["state"]),
        moment(&one["created_ms"])
    )
}

/// A time of an answer, as people read it.
pub fn moment(millis: &Value) -> String {
    let time = agentvfs::Timestamp {
        seconds: millis.as_i64().unwrap_or(0).div_euclid(1000),
        nanos: 0,
    };
    show_local(time, &jiff::tz::TimeZone::system())
}

fn show(session: &mut Session<'_>, place: &str) -> Result<ExitStatus> {
    let one = session.client.get(place)?;
    if session.out.is_json() {
        return session.object("sandbox", &one);
    }
    for (name, value) in one.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Null => continue,
            Value::Number(_) if name.ends_with("_ms") => moment(value),
            Value::String(_) => text(value),
            other => crate::escape::printable(other.to_string().as_bytes()),
        };
        session
            .out
            .line(format_args!("{}: {shown}", name.trim_end_matches("_ms")))?;
    }
    Ok(ExitStatus::Success)
}

fn fork(session: &mut Session<'_>, place: &str, count: u32) -> Result<ExitStatus> {
    let body = json!({ "count": count });
    let made = session
        .client
        .json("POST", &format!("{place}/forks"), Some(&body))?;
    if session.out.is_json() {
        return session.object("sandboxes", &json!({ "sandboxes": made["sandboxes"] }));
    }
    for one in made["sandboxes"].as_array().into_iter().flatten() {
        session.out.line(text(&one["id"]))?;
    }
    Ok(ExitStatus::Success)
}
