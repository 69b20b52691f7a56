//! Commands in a sandbox that go on by themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::exec::{CommandWords, timeout};
use super::input::{Headers, Input, JSON_MAX, Made, Millis, Words, made_body, part_of_path, whole};
use super::listing::PageWords;
use super::stream::events;
use super::subject::OneSandbox;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::service::{NewProcess, Process, ProcessStreams, Started};

const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

pub(super) fn routes(api: &mut Api) {
    let about = About::new(
        "startProcess",
        "Start a command that goes on by itself",
        Scope::Run,
    );
    api.route(
        Method::POST,
        "/sandboxes/{id}/processes",
        about.takes::<StartArgs>().gives::<ProcessBody>(201).made_as("id"),
        start,
    );
    let about = About::new(
        "listProcesses",
        "List processes, also those that have ended",
        Scope::Read,
    );
    api.route(
        Method::GET,
        "/sandboxes/{id}/processes",
        about.query::<PageWords>().gives::<ProcessList>(200),
        list,
    );
    const ONE: &str = "/sandboxes/{id}/processes/{process}";
    let about = About::new("getProcess", "Show a process", Scope::Read)
        .query::<Waiting>()
        .gives::<ProcessBody>(200);
    api.route(Method::GET, ONE, about, get);
    let about = About::new(
        "killProcess",
        "Kill a process and what it has started",
        Scope::Run,
    );
    api.route(Method::DELETE, ONE, about.again(), kill);
    let about = About::new(
        "followProcess",
        "Hear what a process writes, and how it ends",
        Scope::Read,
    )
    .gives_other("text/event-stream")
    .headers(&[(
        "Last-Event-ID",
        "The last piece that was heard: the stream goes on after it.",
    )]);
    api.route(Method::GET, &format!("{ONE}/output"), about, output);
    let about = About::new("writeStdin", "Give a process input", Scope::Run)
        .takes_bytes()
        .query::<StdinWords>();
    api.route(Method::POST, &format!("{ONE}/stdin"), about, stdin);
    let about = About::new(
        "signalProcess",
        "Send a signal to a process and its group",
        Scope::Run,
    );
    api.route(
        Method::POST,
        &format!("{ONE}/signal"),
        about.takes::<SignalArgs>(),
        signal,
    );
    let about = About::new(
        "resizeTerminal",
        "Change the size of the terminal of a process",
        Scope::Run,
    );
    api.route(
        Method::POST,
        &format!("{ONE}/resize"),
        about.takes::<TerminalArgs>(),
        resize,
    );
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartArgs {
    command: CommandWords,
    /// The directory that it starts in, from the root of the files.
    cwd: Option<PathBuf>,
    /// Variables in addition to those of the sandbox.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Input is written to it while it runs. Otherwise, its input is empty.
    #[serde(default)]
    stdin: bool,
    /// It gets a terminal of this size.
    terminal: Option<TerminalArgs>,
    /// Seconds after which it is ended.
    timeout_seconds: Option<u64>,
}

/// The size of a terminal.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TerminalArgs {
    rows: u16,
    columns: u16,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignalArgs {
    /// The number of the signal: 15 asks the process to end.
    #[schemars(range(min = 1, max = 64))]
    signal: i32,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StdinWords {
    /// No more input comes after this.
    #[serde(default)]
    close: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Waiting {
    /// Wait for its end for as many seconds; at most 300.
    wait_seconds: Option<u64>,
}

/// A process. Its id is that of its run, in the audit log and the history.
#[derive(Serialize, JsonSchema)]
struct ProcessBody {
    id: String,
    /// Its number, as programs in the sandbox see it.
    pid: Option<i32>,
    command: Vec<String>,
    /// Milliseconds since 1970.
    started_ms: Millis,
    running: bool,
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
}

#[derive(Serialize, JsonSchema)]
struct ProcessList {
    processes: Vec<ProcessBody>,
    /// The `cursor` with which the list goes on; nothing at its end.
    next: Option<String>,
}

fn body_of(process: &Process) -> ProcessBody {
    let ending = process.ending();
    ProcessBody {
        id: process.run.clone(),
        pid: process.pid().filter(|_| ending.is_none()),
        command: process.command.clone(),
        started_ms: process.started,
        running: ending.is_none(),
        exit_code: ending.and_then(|ending| ending.exit_code),
        signal: ending.and_then(|ending| ending.signal),
        timed_out: ending.is_some_and(|ending| ending.timed_out),
    }
}

async fn start(of: OneSandbox, Input(asked): Input<StartArgs>) -> Result<Made<ProcessBody>, Problem> {
    let new = NewProcess {
        command: asked.command.into(),
        cwd: asked.cwd,
        env: asked.env,
        streams: match (asked.terminal, asked.stdin) {
            (Some(size), _) => ProcessStreams::Terminal(size.rows, size.columns),
            (None, true) => ProcessStreams::Pipes,
            (None, false) => ProcessStreams::NoInput,
        },
        timeout: timeout(asked.timeout_seconds)?,
    };
    match of.caller.tenant.commands().start(&of.sandbox, new).await? {
        Started::Running(process) => Ok(made_body(body_of(&process))),
        Started::Over(finished) => {
            let is_missing = finished
                .outcome
                .process
                .as_ref()
                .is_some_and(|process| process.status() == 127);
            let text = if is_missing {
                "there is no such program"
            } else {
                "it is not executable"
            };
            Err(Problem::new(StatusCode::CONFLICT, "not-started", text))
        }
    }
}

/// The process that a path names.
pub(super) struct OneProcess {
    pub process: Arc<Process>,
    pub of: OneSandbox,
}

impl<S: Sync> FromRequestParts<S> for OneProcess {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<OneProcess, Problem> {
        let of = OneSandbox::from_request_parts(parts, state).await?;
        let run = part_of_path(parts, "process").await?;
        let process = of.sandbox.process(&run)?;
        Ok(OneProcess { process, of })
    }
}

async fn list(of: OneSandbox, Words(page): Words<PageWords>) -> Json<ProcessList> {
    let all = of.sandbox.processes();
    let all = all.iter().map(|process| body_of(process)).collect();
    let (processes, next) = page.of(all, |one: &ProcessBody| &one.id);
    Json(ProcessList { processes, next })
}

async fn get(of: OneProcess, Words(asked): Words<Waiting>) -> Json<ProcessBody> {
    let most = Duration::from_secs(asked.wait_seconds.unwrap_or(0).min(300));
    let _ = tokio::time::timeout(most, of.process.ended()).await;
    Json(body_of(&of.process))
}

async fn kill(of: OneProcess) -> StatusCode {
    of.process.kill();
    StatusCode::NO_CONTENT
}

async fn output(of: OneProcess, headers: Headers) -> Response {
    let after = headers
        .text(&LAST_EVENT)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    events(of.process, after)
}

async fn stdin(of: OneProcess, Words(asked): Words<StdinWords>, body: Body) -> Result<StatusCode, Problem> {
    of.of.sandbox.touch();
    let bytes = whole(body, JSON_MAX).await?;
    if !bytes.is_empty() {
        of.process.write_stdin(bytes.into()).await?;
    }
    if asked.close {
        of.process.close_stdin();
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn signal(of: OneProcess, Input(asked): Input<SignalArgs>) -> Result<StatusCode, Problem> {
    if of.process.signal(asked.signal)? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let text = "the process has ended";
    Err(Problem::new(StatusCode::CONFLICT, "process-ended", text))
}

async fn resize(of: OneProcess, Input(asked): Input<TerminalArgs>) -> Result<StatusCode, Problem> {
    of.process.resize(asked.rows, asked.columns)?;
    Ok(StatusCode::NO_CONTENT)
}
