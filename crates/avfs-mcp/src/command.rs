//! `exec`: a command in the sandbox of a workspace.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use agentvfs::approvals::ApprovalId;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::network::NetworkChoice;
use agentvfs::exec::sandbox::{Cancel, Network};
use agentvfs::exec::{ChangedFile, FinishedRun, ResultBody, RunContext, RunError, RunSpec};
use agentvfs::session::SessionStartError;
use agentvfs::{Error, Hint, SandboxCommand};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use crate::outputs::RunText;
use crate::paths::path_in;
use crate::progress::OutputTail;
use crate::reply::{Reply, TEXT_MAX, ends, shown};
use crate::tool_error::ToolError;
use crate::tools::Call;
use crate::workspaces::Workspace;

/// How much of a stream an answer has.
const STREAM_MAX: usize = TEXT_MAX / 2;
/// The longest command: the kernel takes no longer argument.
const COMMAND_MAX: usize = 100_000;
/// The most seconds that a command may take.
const TIMEOUT_MAX: u64 = 24 * 60 * 60;
/// How many changed files an answer lists.
const CHANGES_MAX: usize = 200;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    /// A line for `bash`. Each command has a shell of its own; files, `/tmp` and background processes stay.
    command: String,
    /// The directory that it starts in, from the root of the workspace.
    cwd: Option<String>,
    /// End it after this long; 600 if not said.
    #[schemars(range(min = 1, max = 86400))]
    timeout_seconds: Option<u64>,
    /// What it reads from standard input; nothing if not said.
    stdin: Option<String>,
    /// Variables in addition to those of the sandbox.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Hosts to reach, such as `registry.npmjs.org` or a group such as `+npm`. Without it, what the policy gives, which is
    /// usually nothing. More than that takes the user's approval.
    #[serde(default)]
    network: Vec<String>,
    /// Run it in a sandbox that cannot change anything.
    #[serde(default)]
    read_only: bool,
}

/// What became of a command. The fields have the names and meanings that `exec` envelopes have.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExecAnswer {
    workspace: String,
    /// The id of the run, in the audit log and the history.
    run: String,
    /// It ran, was not ended before its time, and exited with 0.
    success: bool,
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    stdout: String,
    stderr: String,
    /// Not all of an output is in this answer.
    cut: bool,
    /// How many bytes were written, also those that were not kept.
    stdout_bytes: u64,
    stderr_bytes: u64,
    changed_files: Vec<ExecChange>,
    /// How many files changed, also those that are not listed.
    changed_count: u64,
    /// The state of the workspace before and after the command.
    snapshot_before: Option<String>,
    snapshot_after: Option<String>,
    duration_ms: u64,
    /// Hosts that it could not reach.
    network_refusals: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExecChange {
    path: String,
    /// `added`, `modified`, `deleted`, `renamed` or `metadata`.
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

/// How far a command came.
pub(crate) enum Ran {
    Done(Box<Reply>),
    /// A person has to allow it first.
    NeedsApproval(ApprovalId, ToolError),
}

/// Runs a command to its end, on a thread that may wait.
pub(crate) fn run(
    call: &Call<'_>,
    args: &ExecArgs,
    cancel: &Cancel,
    tail: &OutputTail,
) -> Result<Ran, ToolError> {
    check(args)?;
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    // The open sandbox has one network and one set of rights, which cannot change while it is open.
    let finished = if args.network.is_empty() && !args.read_only {
        in_open_sandbox(call, &workspace, args, cancel, tail)?
    } else {
        Started::Finished(Box::new(on_its_own(call, &workspace, args, cancel, tail)?))
    };
    let finished = match finished {
        Started::Finished(finished) => finished,
        Started::NeedsApproval(id, error) => return Ok(Ran::NeedsApproval(id, error)),
    };
    if let Some(error) = &finished.error {
        let body = error.body();
        // A denied run names its approval as well, but there is nothing to ask a person about.
        let waits = body.code == "approval_required";
        let error = ToolError::of_run(&body);
        return match finished.outcome.approval.clone().filter(|_| waits) {
            Some(id) => Ok(Ran::NeedsApproval(id, error)),
            None => Err(error),
        };
    }
    let envelope = finished.envelope();
    let result = envelope.result.unwrap_or_default();
    answer(call, &workspace, result, envelope.success).map(|reply| Ran::Done(Box::new(reply)))
}

/// What no program could be started with is refused before anybody is asked about it.
fn check(args: &ExecArgs) -> Result<(), ToolError> {
    let env: usize = args
        .env
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if args.command.len() > COMMAND_MAX || env > COMMAND_MAX {
        let text = format!("a command and its variables have at most {COMMAND_MAX} bytes");
        return Err(
            ToolError::argument(text).help("`write` it into a file and run that, or give it as `stdin`")
        );
    }
    let is_variable = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
    let has_nul = args.command.contains('\0') || args.env.values().any(|value| value.contains('\0'));
    if has_nul || !args.env.keys().all(is_variable) {
        return Err(ToolError::argument(
            "a command and its variables have no NUL byte, and names of variables no '='",
        ));
    }
    if args
        .timeout_seconds
        .is_some_and(|seconds| seconds == 0 || seconds > TIMEOUT_MAX)
    {
        return Err(ToolError::argument(format!(
            "`timeout_seconds` is from 1 to {TIMEOUT_MAX}"
        )));
    }
    Ok(())
}

enum Started {
    Finished(Box<FinishedRun>),
    /// Not even the sandbox can be opened without an approval.
    NeedsApproval(ApprovalId, ToolError),
}

fn in_open_sandbox(
    call: &Call<'_>,
    workspace: &Workspace,
    args: &ExecArgs,
    cancel: &Cancel,
    tail: &OutputTail,
) -> Result<Started, ToolError> {
    let command = SandboxCommand {
        cwd: cwd(workspace, args)?,
        env: env(args),
        stdin: args.stdin.as_ref().map(|text| text.clone().into_bytes()),
        timeout: args.timeout_seconds.map(Duration::from_secs),
        ..SandboxCommand::new(Command::Shell(args.command.clone()))
    };
    let mut is_second = false;
    loop {
        let sandbox = match call.workspaces.sandbox(workspace, call.client) {
            Ok(sandbox) => sandbox,
            Err(error) => return not_opened(error),
        };
        let finished = sandbox.exec(command.clone(), cancel, &mut tail.clone());
        let is_over = matches!(
            finished.error,
            Some(RunError::Library(Error::Session(_) | Error::Owner(_)))
        );
        // Once: a sandbox that ends right after it was opened would be opened without end.
        if is_second || !is_over {
            return Ok(Started::Finished(finished));
        }
        // Another process ended it, or its mount's owner is gone: the command has not run.
        drop(sandbox);
        call.workspaces.close_sandbox(workspace);
        is_second = true;
    }
}

fn not_opened(error: SessionStartError) -> Result<Started, ToolError> {
    match error {
        SessionStartError::Library(error) => Err(error.into()),
        SessionStartError::Launch(error) => Err(ToolError::of_run(&(&error).into())),
        SessionStartError::Refused(body) => {
            let approval = match &body.hint {
                Some(Hint::AnswerApproval { id }) => ApprovalId::parse(id).ok(),
                _ => None,
            };
            let error = ToolError::of_run(&body);
            match approval {
                Some(id) => Ok(Started::NeedsApproval(id, error)),
                None => Err(error),
            }
        }
    }
}

/// A command that has another network or fewer rights than the open sandbox gets one of its own.
fn on_its_own(
    call: &Call<'_>,
    workspace: &Workspace,
    args: &ExecArgs,
    cancel: &Cancel,
    tail: &OutputTail,
) -> Result<FinishedRun, ToolError> {
    let usual = call
        .workspaces
        .command(workspace, Command::Shell(args.command.clone()), call.client);
    let mut spec = RunSpec {
        cwd: cwd(workspace, args)?,
        stdin: args.stdin.as_ref().map(|text| text.clone().into_bytes()),
        // An argument can only take rights away.
        read_only: usual.read_only || args.read_only,
        network: network(args, usual.network.clone())?,
        ..usual
    };
    spec.env.extend(env(args));
    if let Some(seconds) = args.timeout_seconds {
        spec.limits.timeout = Some(Duration::from_secs(seconds));
    }
    let front_end = &call.workspaces.options().front_end;
    let door = front_end.inner_door(&workspace.whole, spec.rules.clone());
    let mut tail = tail.clone();
    let context = RunContext {
        door: door.as_ref().map(|door| &**door as _),
        ..RunContext::new(call.workspaces.options().inside.clone(), cancel, &mut tail)
    };
    Ok(workspace.whole.exec(&spec, context))
}

fn network(args: &ExecArgs, usual: Network) -> Result<Network, ToolError> {
    if args.network.is_empty() {
        return Ok(usual);
    }
    let choices = args.network.iter().map(|host| {
        host.parse::<NetworkChoice>().map_err(|error| {
            ToolError::argument(format!("'{}': {error}", avfs_core::printable(host.as_bytes())))
        })
    });
    Ok(NetworkChoice::all(
        &choices.collect::<Result<Vec<_>, _>>()?,
        usual,
    ))
}

fn cwd(workspace: &Workspace, args: &ExecArgs) -> Result<Option<PathBuf>, ToolError> {
    let Some(cwd) = &args.cwd else { return Ok(None) };
    let path = path_in(&workspace.vault, cwd)?;
    Ok(Some(PathBuf::from(crate::paths::show(&path))))
}

fn env(args: &ExecArgs) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    args.env
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn answer(
    call: &Call<'_>,
    workspace: &Workspace,
    result: ResultBody,
    success: bool,
) -> Result<Reply, ToolError> {
    let [stdout, stderr] = [&result.stdout.stdout, &result.stderr.stderr];
    let (cut_stdout, cut_stderr) = (
        cut(stdout, &result.run, "stdout"),
        cut(stderr, &result.run, "stderr"),
    );
    let notes: Vec<String> = [&cut_stdout, &cut_stderr]
        .iter()
        .filter_map(|cut| cut.note.clone())
        .collect();
    if !notes.is_empty() {
        let text = RunText {
            stdout: stdout.clone(),
            stderr: stderr.clone(),
        };
        // Only what was cut is kept: everything else is in the answer.
        call.workspaces.outputs.keep(&result.run, text);
    }
    let answer = ExecAnswer {
        workspace: workspace.name.clone(),
        run: result.run,
        success,
        exit_code: result.exit_code,
        signal: result.signal,
        timed_out: result.timed_out,
        cut: !notes.is_empty(),
        stdout: cut_stdout.text,
        stderr: cut_stderr.text,
        stdout_bytes: result.stdout.stdout_bytes,
        stderr_bytes: result.stderr.stderr_bytes,
        changed_count: result.changed_files.len() as u64,
        changed_files: result
            .changed_files
            .iter()
            .take(CHANGES_MAX)
            .map(change)
            .collect(),
        snapshot_before: result.snapshot_before,
        snapshot_after: result.snapshot_after,
        duration_ms: result.duration_ms,
        network_refusals: result
            .network_refusals
            .into_iter()
            .map(|refusal| refusal.target)
            .collect(),
    };
    let mut reply = Reply::new(&answer, text(&answer))?.note(ended(&answer));
    for note in notes {
        reply = reply.note(note);
    }
    Ok(reply.note_if(changed(&answer)).note_if(unreached(&answer)))
}

/// One stream, as far as an answer has it.
struct Cut {
    text: String,
    note: Option<String>,
}

fn cut(text: &str, run: &str, stream: &str) -> Cut {
    match ends(text, STREAM_MAX) {
        None => Cut {
            text: text.to_owned(),
            note: None,
        },
        Some((head, tail)) => {
            // The beginning shows what the command did, and the end how it ended, so the middle goes.
            let left_out = text.len() - head.len() - tail.len();
            let next = head.len();
            Cut {
                text: format!("{head}\n[… {left_out} bytes are left out here …]\n{tail}"),
                note: Some(format!(
                    "{stream} is cut: `read` with `path: \"run:{run}/{stream}\"` and `start_byte: {next}` reads on"
                )),
            }
        }
    }
}

fn change(file: &ChangedFile) -> ExecChange {
    let relative = |path: &str| path.strip_prefix('/').unwrap_or(path).to_owned();
    ExecChange {
        path: relative(&file.path.path),
        kind: serde_json::to_value(file.kind)
            .ok()
            .and_then(|kind| kind.as_str().map(str::to_owned))
            .unwrap_or_default(),
        from: file.from.as_deref().map(relative),
    }
}

/// What the command wrote, and nothing else.
fn text(answer: &ExecAnswer) -> String {
    let mut text = shown(&answer.stdout);
    if !answer.stderr.is_empty() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str("--- stderr\n");
        text.push_str(&shown(&answer.stderr));
    }
    if text.is_empty() {
        "(no output)".to_owned()
    } else {
        text
    }
}

fn ended(answer: &ExecAnswer) -> String {
    match (answer.timed_out, answer.exit_code, answer.signal) {
        (true, ..) => "it was ended because its time was over; `timeout_seconds` gives it more".to_owned(),
        (false, Some(code), _) => format!("exit status {code}"),
        (false, None, Some(signal)) => format!("ended by signal {signal}"),
        (false, None, None) => "it has no exit status".to_owned(),
    }
}

fn changed(answer: &ExecAnswer) -> Option<String> {
    const NAMED: usize = 10;
    // The note costs the agent tokens with every call, so it appears only if there is something to undo.
    if answer.changed_count == 0 {
        return None;
    }
    let named: Vec<String> = answer
        .changed_files
        .iter()
        .take(NAMED)
        .map(|file| format!("{} {}", file.kind, avfs_core::printable(file.path.as_bytes())))
        .collect();
    let more = answer.changed_count.saturating_sub(NAMED as u64);
    let more = if more == 0 {
        String::new()
    } else {
        format!(", and {more} more")
    };
    Some(format!(
        "changed: {}{more}; `restore` to `@~1` undoes it",
        named.join(", ")
    ))
}

fn unreached(answer: &ExecAnswer) -> Option<String> {
    if answer.network_refusals.is_empty() {
        return None;
    }
    let hosts = answer.network_refusals.join(", ");
    let hosts = avfs_core::printable(hosts.as_bytes());
    Some(format!(
        "it could not reach {hosts}; `network` asks the user for hosts"
    ))
}
