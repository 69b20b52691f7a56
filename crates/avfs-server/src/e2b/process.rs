//! Commands and terminals: `process.Process`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentvfs::exec::sandbox::classify::Command;
use axum::response::Response;
use axum::routing::{any, post};
use axum::{Extension, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::Inside;
use super::connect::{Call, CallError, Messages, refuse};
use super::follow::follow;
use super::place;
use crate::connection::Unhurried;
use crate::server::Server;
use crate::service::{NewProcess, Process, ProcessStreams, Sandbox, Started};

/// How long a command may run whose client says nothing: longer than a sandbox exists.
const ENDLESS: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/process.Process/List", post(list))
        .route("/process.Process/Start", post(start))
        .route("/process.Process/Connect", post(connect))
        .route("/process.Process/SendInput", post(send_input))
        .route("/process.Process/StreamInput", post(stream_input))
        .route("/process.Process/CloseStdin", post(close_stdin))
        .route("/process.Process/SendSignal", post(send_signal))
        .route("/process.Process/Update", post(update))
        .route(
            "/process.Process/{call}",
            any(|| async { CallError::absent("such a call") }),
        )
}

#[derive(Deserialize)]
struct StartRequest {
    process: Config,
    pty: Option<Terminal>,
    tag: Option<String>,
    /// Clients of before there was a choice expect an input.
    stdin: Option<bool>,
}

#[derive(Deserialize)]
struct Config {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
    cwd: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
struct Terminal {
    size: Option<Size>,
}

#[derive(Clone, Copy, Deserialize)]
struct Size {
    #[serde(default)]
    cols: u16,
    #[serde(default)]
    rows: u16,
}

impl Terminal {
    /// A size that a terminal can have: some clients send none at first.
    fn rows_and_columns(self) -> (u16, u16) {
        let size = self.size.unwrap_or(Size { cols: 0, rows: 0 });
        let or = |given: u16, usual: u16| if given == 0 { usual } else { given };
        (or(size.rows, 24), or(size.cols, 80))
    }
}

/// Which process a call is about.
#[derive(Deserialize)]
pub(super) struct Selector {
    pid: Option<i32>,
    tag: Option<String>,
}

impl Selector {
    /// The process with this number: the one that runs, or else the last one that had it.
    fn find(&self, sandbox: &Sandbox) -> Result<Arc<Process>, CallError> {
        if self.tag.is_some() {
            return Err(CallError::absent("tags of processes"));
        }
        let pid = self
            .pid
            .ok_or_else(|| CallError::invalid("the process has no number"))?;
        let mut having = sandbox.processes();
        having.retain(|process| process.pid() == Some(pid));
        let running = having.iter().find(|process| process.finished().is_none());
        let found = running.or(having.last()).cloned();
        found.ok_or_else(|| CallError::new("not_found", format!("process with pid {pid} not found")))
    }

    fn find_running(&self, sandbox: &Sandbox) -> Result<Arc<Process>, CallError> {
        let found = self.find(sandbox)?;
        if found.finished().is_some() {
            let pid = self.pid.unwrap_or_default();
            return Err(CallError::new(
                "not_found",
                format!("process with pid {pid} has ended"),
            ));
        }
        Ok(found)
    }
}

#[derive(Deserialize)]
struct ConnectRequest {
    process: Selector,
}

async fn list(inside: Inside, Call(_): Call<Value>) -> Json<Value> {
    let mut running = inside.sandbox.processes();
    running.retain(|process| process.finished().is_none());
    let shown: Vec<Value> = running.iter().map(|process| shown(process)).collect();
    Json(json!({ "processes": shown }))
}

fn shown(process: &Process) -> Value {
    let mut words = process.command.iter();
    json!({
        "pid": process.pid().unwrap_or_default(),
        "config": {
            "cmd": words.next(),
            "args": words.collect::<Vec<_>>(),
        },
    })
}

async fn start(inside: Inside, headers: HeaderMap, messages: Messages) -> Response {
    match begin(&inside, &headers, messages).await {
        Ok(process) => follow(inside, process, &headers),
        Err(error) => refuse(error),
    }
}

async fn begin(inside: &Inside, headers: &HeaderMap, messages: Messages) -> Result<Arc<Process>, CallError> {
    let asked: StartRequest = messages.only().await?;
    if asked.tag.is_some() {
        return Err(CallError::absent("tags of processes"));
    }
    let words = std::iter::once(asked.process.cmd).chain(asked.process.args);
    let new = NewProcess {
        command: Command::Argv(words.map(OsString::from).collect()),
        cwd: asked.process.cwd.filter(|cwd| !cwd.is_empty()).map(directory),
        env: asked.process.envs,
        streams: match (asked.pty, asked.stdin) {
            (Some(terminal), _) => {
                let (rows, columns) = terminal.rows_and_columns();
                ProcessStreams::Terminal(rows, columns)
            }
            (None, None | Some(true)) => ProcessStreams::Pipes,
            (None, Some(false)) => ProcessStreams::NoInput,
        },
        // This is the only thing that ends a command: a client that is gone may come again.
        timeout: Some(time_limit(headers).unwrap_or(ENDLESS)),
    };
    match inside.tenant.commands().start(&inside.sandbox, new).await? {
        Started::Running(process) => Ok(process),
        Started::Over(_) => Err(CallError::invalid("there is no such program")),
    }
}

/// A directory as commands know it.
fn directory(path: String) -> PathBuf {
    match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", place::HOME).into(),
        _ => path.into(),
    }
}

fn time_limit(headers: &HeaderMap) -> Option<Duration> {
    let millis = headers.get("connect-timeout-ms")?.to_str().ok()?.parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis).min(ENDLESS))
}

async fn connect(inside: Inside, headers: HeaderMap, messages: Messages) -> Response {
    let found = messages
        .only::<ConnectRequest>()
        .await
        .and_then(|asked| asked.process.find(&inside.sandbox));
    match found {
        Ok(process) => follow(inside, process, &headers),
        Err(error) => refuse(error),
    }
}

/// Bytes for a process, in base64.
#[derive(Deserialize)]
struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

impl Input {
    fn bytes(&self) -> Result<Vec<u8>, CallError> {
        let text = self.stdin.as_deref().or(self.pty.as_deref()).unwrap_or_default();
        let bytes = STANDARD.decode(text);
        bytes.map_err(|_| CallError::invalid("the input is not base64"))
    }
}

#[derive(Deserialize)]
struct SendInputRequest {
    process: Selector,
    input: Input,
}

async fn send_input(inside: Inside, Call(asked): Call<SendInputRequest>) -> Result<Json<Value>, CallError> {
    let process = asked.process.find_running(&inside.sandbox)?;
    process.write_stdin(asked.input.bytes()?).await?;
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
struct StreamInputRequest {
    start: Option<StreamStart>,
    data: Option<StreamData>,
}

#[derive(Deserialize)]
struct StreamStart {
    process: Selector,
}

#[derive(Deserialize)]
struct StreamData {
    input: Input,
}

/// Takes input in as it comes. Its first message names the process.
async fn stream_input(
    inside: Inside,
    Extension(unhurried): Extension<Unhurried>,
    messages: Messages,
) -> Response {
    // Whoever types has nothing to say for hours.
    unhurried.take_time();
    let taken = take_input(&inside, messages).await.map(|()| json!({}));
    super::connect::answer(futures_util::stream::once(std::future::ready(taken)))
}

async fn take_input(inside: &Inside, mut messages: Messages) -> Result<(), CallError> {
    let mut to: Option<Arc<Process>> = None;
    while let Some(message) = messages.next::<StreamInputRequest>().await? {
        if let Some(start) = message.start {
            to = Some(start.process.find_running(&inside.sandbox)?);
        }
        if let Some(data) = message.data {
            let process = to
                .as_ref()
                .ok_or_else(|| CallError::invalid("the stream names no process"))?;
            process.write_stdin(data.input.bytes()?).await?;
        }
    }
    Ok(())
}

async fn close_stdin(inside: Inside, Call(asked): Call<ConnectRequest>) -> Result<Json<Value>, CallError> {
    asked.process.find_running(&inside.sandbox)?.close_stdin();
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
struct SignalRequest {
    process: Selector,
    signal: Value,
}

async fn send_signal(inside: Inside, Call(asked): Call<SignalRequest>) -> Result<Json<Value>, CallError> {
    let process = asked.process.find_running(&inside.sandbox)?;
    // Enumerations come by name or by number.
    let signal = match (asked.signal.as_str(), asked.signal.as_i64()) {
        (Some("SIGNAL_SIGKILL"), _) | (_, Some(9)) => SIGKILL,
        (Some("SIGNAL_SIGTERM"), _) | (_, Some(15)) => SIGTERM,
        _ => return Err(CallError::invalid("the signal is SIGTERM or SIGKILL")),
    };
    if signal == SIGKILL {
        process.kill();
    } else {
        process.signal(signal)?;
    }
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
struct UpdateRequest {
    process: Selector,
    pty: Option<Terminal>,
}

async fn update(inside: Inside, Call(asked): Call<UpdateRequest>) -> Result<Json<Value>, CallError> {
    let process = asked.process.find_running(&inside.sandbox)?;
    if let Some(terminal) = asked.pty {
        let (rows, columns) = terminal.rows_and_columns();
        process.resize(rows, columns)?;
    }
    Ok(Json(json!({})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_command_is_that_of_its_stream() {
        let limit = |text: &'static str| {
            let headers = HeaderMap::from_iter([(
                http::HeaderName::from_static("connect-timeout-ms"),
                http::HeaderValue::from_static(text),
            )]);
            time_limit(&headers)
        };
        assert_eq!(limit("1500"), Some(Duration::from_millis(1500)));
        assert_eq!(limit("99999999999999"), Some(ENDLESS));
        assert_eq!((limit("0"), limit("x")), (None, None));
    }

    #[test]
    fn a_terminal_has_a_size_always() {
        let size = |text: &str| serde_json::from_str::<Terminal>(text).unwrap().rows_and_columns();
        assert_eq!(size(r#"{"size":{"cols":100,"rows":30}}"#), (30, 100));
        assert_eq!(size("{}"), (24, 80));
        assert_eq!(size(r#"{"size":{"cols":100}}"#), (24, 100));
    }
}
