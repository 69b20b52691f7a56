//! `avfs session exec`.

use std::ffi::OsString;
use std::io::Read;
use std::time::Duration;

use agentvfs::approvals::{ApprovalId, ApprovalState};
use agentvfs::exec::boundary::Event;
use agentvfs::exec::boundary::classify::Command;
use agentvfs::session::{SessionAnswer, SessionCommand};
use anyhow::Result;
use serde_json::Value;

use crate::commands::approvals::in_place;
use crate::commands::exec::{Manner, Telling, of_error};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::unreached::{self, Unreached};

/// Run a command in a session
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The shell of the session reads the line, or is given the program and its arguments: the \
directory, variables, functions, aliases and background jobs stay for the next command. `exit` ends the session. A \
command that takes too long is interrupted, and the session goes on.

The exit status is the command's own. If there is none: 3 there is no such session, 5 it is busy, 121 the command \
takes an approval, 122 the policy denies it, 124 it took too long.

Examples:
  avfs session exec s1f2e3d4c -c 'cd src && export CI=1'
  avfs session exec s1f2e3d4c -- cargo test
  avfs session exec s1f2e3d4c --timeout 60000 --json -c 'make -j4'
  avfs session exec s1f2e3d4c --stdin -- psql < schema.sql"
)]
pub struct ExecArgs {
    /// The session
    #[arg(value_name = "ID")]
    id: String,
    /// Stop it after so many milliseconds
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// Give standard input to the command
    #[arg(long)]
    stdin: bool,
    /// Wait while another command runs
    #[arg(long)]
    wait: bool,
    /// Print one JSON object for each piece of output, and the result at the end
    #[arg(long)]
    stream: bool,
    /// A line for the shell
    #[arg(short = 'c', value_name = "LINE", conflicts_with = "command", required_unless_present = "command")]
    line: Option<String>,
    /// A program and its arguments
    #[arg(value_name = "COMMAND", last = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

pub fn run(context: &mut Context<'_>, args: &ExecArgs) -> Result<ExitStatus> {
    let store = context.store()?;
    let session = store.session(&args.id)?;
    let command = args.command()?;
    let manner = match (args.stream, context.out.is_json()) {
        (true, _) => Manner::Events,
        (false, true) => Manner::Envelope,
        (false, false) => Manner::Through,
    };
    let asks_here = manner == Manner::Through && !args.stdin && in_place::is_possible(context.out);
    let undo = match store.vault(&session.record().vault) {
        Ok(vault) => context.undo_command(&vault)?,
        // It was deleted under the session.
        Err(_) => "avfs undo".to_owned(),
    };
    let mut telling = Telling::new(context.out, manner, undo.clone());
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

/// Passes output on. If nobody reads it any more, this process ends, as a program does that meets a closed pipe: the
/// session ends the command of a caller that is gone.
fn tell(telling: &mut Telling<'_>, event: Event<'_>) {
    telling.event(event);
    if telling.is_cut_off() {
        std::process::exit(ExitStatus::BrokenPipe.number().into());
    }
}

impl ExecArgs {
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
        let timeout = self.timeout.map(Duration::from_millis);
        Ok(SessionCommand { timeout, stdin, wait: self.wait, ..SessionCommand::new(command) })
    }
}

/// The approval that a command was not run for want of.
fn open_question(answer: &SessionAnswer) -> Option<ApprovalId> {
    let (error, result) = (&answer.envelope["error"], &answer.envelope["result"]);
    let is_asked = error["code"] == "approval_required";
    ApprovalId::parse(result["approval"].as_str().filter(|_| is_asked)?).ok()
}

/// What people are told beside the command's own output.
fn talk(answer: &SessionAnswer, undo: &str) -> Vec<String> {
    let (error, result) = (&answer.envelope["error"], &answer.envelope["result"]);
    let text = |value: &Value| value.as_str().map(printable);
    let mut talk = Vec::new();
    talk.extend(text(&error["message"]).map(|message| format!("warning: {message}")));
    talk.extend(text(&error["hint"]).map(|hint| format!("hint: {hint}")));
    if result["timed_out"] == true {
        talk.push("warning: it took too long and was stopped".to_owned());
    }
    let refusals: Vec<Unreached<'_>> =
        result["network_refusals"].as_array().into_iter().flatten().map(Unreached::from).collect();
    let vault = result["vault"].as_str().unwrap_or_default();
    talk.extend(unreached::lines(&refusals, |net| format!("avfs session start --vault {vault} --net {net}")));
    match result["changed_files"].as_array().map_or(0, Vec::len) {
        0 => {}
        1 => talk.push(format!("1 file changed; `{undo}` takes it back")),
        count => talk.push(format!("{count} files changed; `{undo}` takes it back")),
    }
    if result["session_ended"] == true {
        talk.push("the session has ended".to_owned());
    }
    talk
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
