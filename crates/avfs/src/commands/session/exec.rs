//! `avfs session exec`.

use std::ffi::OsString;
use std::io::Read;
use std::time::Duration;

use agentvfs::Hint;
use agentvfs::approvals::{ApprovalId, ApprovalState};
use agentvfs::exec::sandbox::RunEvent;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::session::{SessionAnswer, SessionCommand};
use anyhow::Result;
use serde_json::Value;

use crate::commands::approvals::in_place;
use crate::commands::exec::{RunPrinter, RunReporter, of_error};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::hint::words;
use crate::time::span_or_milliseconds;
use crate::unreached::{self, Unreached};

/// Run a command in a session
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The shell of the session runs the line, or the program with its arguments. The working \
directory, variables, functions, aliases and background jobs are kept for the next command. `exit` ends the session. A \
command that takes too long is interrupted, and the session continues.

The exit status is the command's own, or else 3 if the session does not exist, 5 if it is busy, 121 if the command needs \
an approval, 122 if the policy denies it, and 124 if it took too long.

Examples:
  avfs session exec s1f2e3d4c -c 'cd src && export CI=1'
  avfs session exec s1f2e3d4c -- cargo test
  avfs session exec s1f2e3d4c --timeout 5m --json -c 'make -j4'
  avfs session exec s1f2e3d4c --stdin -- psql < schema.sql"
)]
pub struct SessionExecArgs {
    /// The id of the session
    #[arg(value_name = "ID")]
    id: String,
    /// End it after this long, such as 90s, 5m or 1h30m; a bare number is milliseconds [default: that of the session]
    #[arg(long, value_name = "DURATION", value_parser = span_or_milliseconds)]
    timeout: Option<Duration>,
    /// Pass standard input to the command
    #[arg(long)]
    stdin: bool,
    /// If another command is running in the session, wait for it
    #[arg(long)]
    wait: bool,
    /// Print one JSON object per piece of output, and the result at the end
    #[arg(long)]
    stream: bool,
    /// Run this line in the shell of the session
    #[arg(
        short = 'c',
        value_name = "LINE",
        conflicts_with = "command",
        required_unless_present = "command"
    )]
    line: Option<String>,
    /// A program and its arguments
    #[arg(value_name = "COMMAND", last = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

pub fn run(context: &mut Context<'_>, args: &SessionExecArgs) -> Result<ExitStatus> {
    let store = context.store()?;
    let session = store.sessions().get(&args.id)?;
    let command = args.command()?;
    let output = match (args.stream, context.out.is_json()) {
        (true, _) => RunPrinter::Events,
        (false, true) => RunPrinter::Envelope,
        (false, false) => RunPrinter::Through,
    };
    let asks_here = output == RunPrinter::Through && !args.stdin && in_place::is_possible(context.out);
    let undo = match store.vault(&session.record().vault) {
        Ok(vault) => context.undo_command(&vault)?,
        // It was deleted under the session.
        Err(_) => "avfs undo".to_owned(),
    };
    let mut telling = RunReporter::new(context.out, output, undo.clone());
    let mut answer = session.exec(&command, &mut |event| tell(&mut telling, event))?;
    if let Some(id) = open_question(&answer).filter(|_| asks_here) {
        in_place::ask(&store, &id, &|_| false)?;
        if store.approval(&id)?.state != ApprovalState::Pending {
            answer = session.exec(&command, &mut |event| tell(&mut telling, event))?;
        }
    }
    telling.end_of_other(&answer.line, &talk(&answer, &undo))?;
    Ok(status(&answer.envelope))
}

/// Passes output on. If its reader is gone, this process ends, like a program with a closed pipe: the session
/// ends the command of a caller that is gone.
fn tell(telling: &mut RunReporter<'_>, event: RunEvent<'_>) {
    telling.event(event);
    if telling.is_cut_off() {
        std::process::exit(ExitStatus::BrokenPipe.number().into());
    }
}

impl SessionExecArgs {
    fn command(&self) -> Result<SessionCommand> {
        let command = match &self.line {
            Some(line) => Command::Shell(line.clone()),
            None => Command::Argv(self.command.clone()),
        };
        let mut stdin = None;
        if self.stdin {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes)?;
            stdin = Some(bytes);
        }
        Ok(SessionCommand {
            timeout: self.timeout,
            stdin,
            wait: self.wait,
            ..SessionCommand::new(command)
        })
    }
}

/// The approval that a command was not run for want of.
fn open_question(answer: &SessionAnswer) -> Option<ApprovalId> {
    let (error, result) = (&answer.envelope["error"], &answer.envelope["result"]);
    let is_asked = error["code"] == "approval_required";
    ApprovalId::parse(result["approval"].as_str().filter(|_| is_asked)?).ok()
}

/// Messages for people beside the command's own output.
fn talk(answer: &SessionAnswer, undo: &str) -> Vec<String> {
    let (error, result) = (&answer.envelope["error"], &answer.envelope["result"]);
    let text = |value: &Value| value.as_str().map(printable);
    let mut talk = Vec::new();
    talk.extend(text(&error["message"]).map(|message| format!("warning: {message}")));
    talk.extend(hint(&error["hint"]).map(|hint| format!("hint: {}", printable(&hint))));
    if result["timed_out"] == true {
        talk.push("warning: it took too long and was stopped".to_owned());
    }
    let refusals: Vec<Unreached<'_>> = result["network_refusals"]
        .as_array()
        .into_iter()
        .flatten()
        .map(Unreached::from)
        .collect();
    let vault = result["vault"].as_str().unwrap_or_default();
    talk.extend(unreached::lines(&refusals, |net| {
        format!("avfs session start --vault {vault} --net {net}")
    }));
    match result["changed_files"].as_array().map_or(0, Vec::len) {
        0 => {}
        1 => talk.push(format!("1 file changed; `{undo}` undoes it")),
        count => talk.push(format!("{count} files changed; `{undo}` undoes it")),
    }
    if result["session_ended"] == true {
        talk.push("the session has ended".to_owned());
    }
    talk
}

/// The hint of an envelope in words: it comes as data.
fn hint(value: &Value) -> Option<String> {
    let known = serde_json::from_value::<Hint>(value.clone()).ok();
    known
        .as_ref()
        .map(words)
        .or_else(|| value.as_str().map(str::to_owned))
}

fn printable(text: &str) -> String {
    agentvfs::printable(text.as_bytes())
}

/// The exit status: the command's own, or why it has none.
fn status(envelope: &Value) -> ExitStatus {
    let result = &envelope["result"];
    match envelope["error"]["code"].as_str() {
        Some("session_busy") => ExitStatus::Busy,
        Some(code) => of_error(code),
        None if result["timed_out"] == true => ExitStatus::TimedOut,
        None => {
            let signaled = result["signal"].as_u64().map(|signal| 128 + signal);
            let code = result["exit_code"].as_u64().or(signaled).unwrap_or(0);
            ExitStatus::OfCommand(u8::try_from(code).unwrap_or(u8::MAX))
        }
    }
}
