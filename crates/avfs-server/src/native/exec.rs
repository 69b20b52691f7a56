//! A command to its end: `/sandboxes/ID/exec`.
//!
//! Its answer comes in one piece, or, for clients that accept events, after its output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::{ChangedFile, FinishedRun};
use axum::Json;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::api::{About, Api, EVENTS};
use super::input::{Headers, Input};
use super::once::wants_events;
use super::stream::run_events;
use super::subject::OneSandbox;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::service::{NewProcess, ProcessStreams};

/// The most seconds that a command may take.
const TIMEOUT_MAX: u64 = 30 * 24 * 60 * 60;

pub(super) fn routes(api: &mut Api) {
    let about = About::new(
        "exec",
        "Run a command to its end; with `Accept: text/event-stream`, its output comes as events, and then `end` with the answer",
        Scope::Run,
    );
    let about = about
        .takes::<ExecArgs>()
        .gives::<ExecAnswer>(200)
        .also_gives(EVENTS);
    api.route(Method::POST, "/sandboxes/{id}/exec", about, exec);
}

/// A line for `bash`, or a program and its arguments.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum CommandWords {
    Line(String),
    Words(Vec<String>),
}

impl From<CommandWords> for Command {
    fn from(words: CommandWords) -> Command {
        match words {
            CommandWords::Line(line) => Command::Shell(line),
            CommandWords::Words(words) => Command::Argv(words.into_iter().map(OsString::from).collect()),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExecArgs {
    command: CommandWords,
    /// The directory that it starts in, from the root of the files.
    cwd: Option<PathBuf>,
    /// Variables in addition to those of the sandbox.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// What it reads from standard input; nothing, if not said.
    stdin: Option<String>,
    /// Seconds after which it is ended.
    timeout_seconds: Option<u64>,
}

/// What became of a command. The fields have the names and meanings that the answer of `avfs exec --json` has.
#[derive(Serialize, JsonSchema)]
pub(super) struct ExecAnswer {
    /// The id of the run, in the audit log and the history.
    run: String,
    /// It ran, was not ended before its time, and exited with 0.
    success: bool,
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    #[serde(flatten)]
    output: OutputBody,
    changed_files: Vec<ChangedBody>,
    /// The states before and after the command.
    snapshot_before: Option<String>,
    snapshot_after: Option<String>,
    duration_ms: u64,
    /// Hosts that it could not reach.
    network_refusals: Vec<String>,
}

/// What a command wrote, as far as it is kept.
#[derive(Serialize, JsonSchema)]
struct OutputBody {
    /// Bytes that are no text are replaced here.
    stdout: String,
    stderr: String,
    /// The same bytes, if they are no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    /// Not everything is kept.
    stdout_truncated: bool,
    stderr_truncated: bool,
    /// How many bytes were written, also those that are not kept.
    stdout_bytes: u64,
    stderr_bytes: u64,
}

/// A file that differs.
#[derive(Serialize, JsonSchema)]
pub(super) struct ChangedBody {
    path: String,
    /// `added`, `modified`, `deleted`, `renamed` or `metadata`.
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

impl From<&ChangedFile> for ChangedBody {
    fn from(file: &ChangedFile) -> ChangedBody {
        // The words of the JSON of the command line, so that both say the same.
        let kind = serde_json::to_value(file.kind).ok();
        ChangedBody {
            path: file.path.path.clone(),
            kind: kind
                .as_ref()
                .and_then(|kind| kind.as_str())
                .unwrap_or_default()
                .to_owned(),
            from: file.from.clone(),
        }
    }
}

pub(super) fn timeout(seconds: Option<u64>) -> Result<Option<Duration>, Problem> {
    if seconds.is_some_and(|seconds| seconds == 0 || seconds > TIMEOUT_MAX) {
        let text = format!("`timeout_seconds` is from 1 to {TIMEOUT_MAX}");
        return Err(Problem::bad_request(text));
    }
    Ok(seconds.map(Duration::from_secs))
}

async fn exec(of: OneSandbox, headers: Headers, Input(asked): Input<ExecArgs>) -> Result<Response, Problem> {
    let new = NewProcess {
        command: asked.command.into(),
        cwd: asked.cwd,
        env: asked.env,
        streams: match asked.stdin {
            Some(text) => ProcessStreams::Given(text.into_bytes()),
            None => ProcessStreams::NoInput,
        },
        timeout: timeout(asked.timeout_seconds)?,
    };
    if wants_events(&headers.0) {
        let (output, end) = of.caller.tenant.commands().follow(&of.sandbox, new).await?;
        return Ok(run_events(output, async move { Ok(answer_of(&*end.await?)) }));
    }
    let finished = of.caller.tenant.commands().exec(&of.sandbox, new).await?;
    Ok(Json(answer_of(&finished)).into_response())
}

fn answer_of(finished: &FinishedRun) -> ExecAnswer {
    let envelope = finished.envelope();
    let result = envelope.result.unwrap_or_default();
    let process = finished.outcome.process.as_ref();
    let bytes = |is_text: bool, bytes: Option<Vec<u8>>| {
        bytes.filter(|_| !is_text).map(|bytes| STANDARD.encode(bytes))
    };
    let is_text = |hex: &Option<String>| hex.is_none();
    ExecAnswer {
        run: result.run,
        success: envelope.success,
        exit_code: result.exit_code,
        signal: result.signal,
        timed_out: result.timed_out,
        output: OutputBody {
            stdout_base64: bytes(
                is_text(&result.stdout.stdout_bytes_hex),
                process.map(|process| process.stdout.bytes()),
            ),
            stderr_base64: bytes(
                is_text(&result.stderr.stderr_bytes_hex),
                process.map(|process| process.stderr.bytes()),
            ),
            stdout: result.stdout.stdout,
            stderr: result.stderr.stderr,
            stdout_truncated: result.stdout.stdout_truncated,
            stderr_truncated: result.stderr.stderr_truncated,
            stdout_bytes: result.stdout.stdout_bytes,
            stderr_bytes: result.stderr.stderr_bytes,
        },
        changed_files: result.changed_files.iter().map(ChangedBody::from).collect(),
        snapshot_before: result.snapshot_before,
        snapshot_after: result.snapshot_after,
        duration_ms: result.duration_ms,
        network_refusals: result
            .network_refusals
            .into_iter()
            .map(|refusal| refusal.target)
            .collect(),
    }
}

/// The same of the envelope that a session answers with.
pub(super) fn answer_of_envelope(envelope: &Value) -> ExecAnswer {
    let result = &envelope["result"];
    let text = |name: &str| result[name].as_str().map(str::to_owned);
    let number = |name: &str| {
        result[name]
            .as_i64()
            .and_then(|number| i32::try_from(number).ok())
    };
    let flag = |name: &str| result[name].as_bool().unwrap_or(false);
    let count = |name: &str| result[name].as_u64().unwrap_or(0);
    let bytes = |name: &str| {
        let hex = result[name].as_str()?;
        let digits = hex.as_bytes().chunks_exact(2);
        let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        bytes
            .collect::<Option<Vec<u8>>>()
            .map(|bytes| STANDARD.encode(bytes))
    };
    let listed = |name: &str| result[name].as_array().cloned().unwrap_or_default();
    let changed = listed("changed_files").into_iter().map(|file| ChangedBody {
        path: file["path"].as_str().unwrap_or_default().to_owned(),
        kind: file["kind"].as_str().unwrap_or_default().to_owned(),
        from: file["from"].as_str().map(str::to_owned),
    });
    let refused = listed("network_refusals").into_iter();
    ExecAnswer {
        run: text("run").unwrap_or_default(),
        success: envelope["success"].as_bool().unwrap_or(false),
        exit_code: number("exit_code"),
        signal: number("signal"),
        timed_out: flag("timed_out"),
        output: OutputBody {
            stdout: text("stdout").unwrap_or_default(),
            stderr: text("stderr").unwrap_or_default(),
            stdout_base64: bytes("stdout_bytes_hex"),
            stderr_base64: bytes("stderr_bytes_hex"),
            stdout_truncated: flag("stdout_truncated"),
            stderr_truncated: flag("stderr_truncated"),
            stdout_bytes: count("stdout_bytes"),
            stderr_bytes: count("stderr_bytes"),
        },
        changed_files: changed.collect(),
        snapshot_before: text("snapshot_before"),
        snapshot_after: text("snapshot_after"),
        duration_ms: count("duration_ms"),
        network_refusals: refused
            .filter_map(|refusal| refusal["target"].as_str().map(str::to_owned))
            .collect(),
    }
}
