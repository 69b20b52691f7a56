//! Code that is run piece by piece in a context that stays: `/execute` and `/contexts`, as E2B's code interpreter calls them.
//!
//! A context is a process of the sandbox with our own program in it (`interpreter.py`). The server reaches it at a port
//! inside, so a client that is slow slows the code down, and nothing piles up here. A client that goes away interrupts its
//! code. Contexts end with their processes: after a restart of the server, only the usual one is there, and empty.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::network::PortConnection;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::stream::unfold;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Mutex as TurnMutex, OwnedMutexGuard};

use super::access::Inside;
use super::control::Asked;
use super::failure::Failure;
use super::place;
use crate::random;
use crate::server::Server;
use crate::service::{
    Heard, NewProcess, OutputPiece, Process, ProcessStreams, ServiceError, Started, on_a_thread,
};

/// The program that runs the code.
const PROGRAM: &str = include_str!("interpreter.py");
/// How long that may take to start.
const STARTING: Duration = Duration::from_secs(60);
/// How long code may take to react to an interrupt, before its process is killed.
const INTERRUPTED: Duration = Duration::from_secs(10);
/// Longer than a sandbox exists.
const ENDLESS: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The most contexts of a sandbox.
const CONTEXTS_MAX: usize = 32;
/// The most bytes of one result, or piece of output.
const LINE_MAX: u64 = 64 << 20;
/// How many pieces a client may be behind.
const AHEAD: usize = 16;
/// What the program says when code has ended.
const END: &[u8] = b"{\"type\": \"end_of_execution\"}\n";
/// Names of the only language.
const PYTHON: [&str; 2] = ["python", "python3"];
const SIGINT: i32 = 2;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/execute", post(execute))
        .route("/contexts", post(create).get(list))
        .route("/contexts/{id}", get(show).delete(remove))
        .route("/contexts/{id}/restart", post(restart))
}

/// The contexts of all sandboxes.
#[derive(Default)]
pub(super) struct Interpreters(Mutex<HashMap<(String, String), Vec<Arc<Context>>>>);

struct Context {
    id: String,
    cwd: String,
    /// It is the one of code that names none.
    is_usual: bool,
    /// Held while code runs: the next one waits.
    runner: Arc<TurnMutex<Option<Runner>>>,
    /// The process, for whoever does not wait.
    process: Mutex<Option<Arc<Process>>>,
}

/// A process that runs code.
struct Runner {
    process: Arc<Process>,
    answers: BufReader<OwnedReadHalf>,
    requests: OwnedWriteHalf,
    _connection: PortConnection,
}

/// A process that is killed if nobody waits for it any more.
struct Starting(Option<Arc<Process>>);

impl Starting {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(process) = &self.0 {
            process.kill();
        }
    }
}

impl Interpreters {
    /// The contexts of a sandbox, with the usual one. Those of sandboxes that have ended go.
    fn of<T>(&self, inside: &Inside, work: impl FnOnce(&mut Vec<Arc<Context>>) -> T) -> Result<T, Failure> {
        let key = (inside.tenant.name.clone(), inside.sandbox.id.clone());
        let mut table = self.lock();
        if !table.contains_key(&key) {
            // The moment to forget those of sandboxes that are gone: nothing else looks at all of them.
            table.retain(|(tenant, id), _| *tenant != key.0 || inside.tenant.sandbox(id).is_ok());
        }
        let contexts = table.entry(key).or_default();
        if !contexts.iter().any(|context| context.is_usual) {
            contexts.insert(0, Arc::new(Context::new(place::HOME.to_owned(), true)?));
        }
        Ok(work(contexts))
    }

    fn find(&self, inside: &Inside, id: Option<&str>) -> Result<Arc<Context>, Failure> {
        let found = self.of(inside, |contexts| match id {
            None => contexts.iter().find(|context| context.is_usual).cloned(),
            Some(id) => contexts.iter().find(|context| context.id == id).cloned(),
        })?;
        found.ok_or_else(|| {
            let id = avfs_core::printable(id.unwrap_or_default().as_bytes());
            Failure::new(StatusCode::NOT_FOUND, format!("Context {id} not found"))
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Vec<Arc<Context>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    fn new(cwd: String, is_usual: bool) -> Result<Context, Failure> {
        let number =
            random::bytes::<16>().map_err(|error| ServiceError::host("asking for random bytes", &error))?;
        Ok(Context {
            id: random::hex(&number),
            cwd,
            is_usual,
            runner: Arc::default(),
            process: Mutex::default(),
        })
    }

    fn told(&self) -> Value {
        json!({ "id": self.id, "language": PYTHON[0], "cwd": self.cwd })
    }

    /// Waits for the code before, and starts the process if there is none.
    async fn turn(&self, inside: &Inside) -> Result<OwnedMutexGuard<Option<Runner>>, Failure> {
        let mut turn = Arc::clone(&self.runner).lock_owned().await;
        if turn
            .as_ref()
            .is_none_or(|runner| runner.process.finished().is_some())
        {
            let runner = Runner::start(inside, &self.cwd).await?;
            *self.process() = Some(Arc::clone(&runner.process));
            *turn = Some(runner);
        }
        Ok(turn)
    }

    /// Ends the process. The next code finds a new one.
    fn end(&self) {
        if let Some(process) = self.process().take() {
            process.kill();
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Arc<Process>>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.process.kill();
    }
}

impl Runner {
    async fn start(inside: &Inside, cwd: &str) -> Result<Runner, Failure> {
        let words = ["python3", "-c", PROGRAM].map(OsString::from);
        let new = NewProcess {
            command: Command::Argv(words.to_vec()),
            cwd: Some(PathBuf::from(cwd)),
            env: [("PYTHONUNBUFFERED".to_owned(), "1".to_owned())].into(),
            streams: ProcessStreams::NoInput,
            timeout: Some(ENDLESS),
        };
        let process = match inside.tenant.commands().start(&inside.sandbox, new).await? {
            Started::Running(process) => process,
            Started::Over(_) => return Err(Failure::absent("Python in this sandbox")),
        };
        let starting = Starting(Some(Arc::clone(&process)));
        let (stream, connection) = connect(inside, &process).await?;
        starting.keep();
        let (answers, requests) = stream.into_split();
        Ok(Runner {
            process,
            answers: BufReader::new(answers),
            requests,
            _connection: connection,
        })
    }

    /// The next line that it says; nothing once it has ended.
    async fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.answers).take(LINE_MAX);
        let count = limited.read_until(b'\n', &mut line).await.ok()?;
        (count > 0 && line.ends_with(b"\n")).then_some(line)
    }

    /// Interrupts the code, and waits for its end. Returns whether that came.
    async fn interrupt(&mut self) -> bool {
        if !self.process.signal(SIGINT).unwrap_or(false) {
            return false;
        }
        let ending = async {
            while let Some(line) = self.line().await {
                if line == END {
                    return true;
                }
            }
            false
        };
        tokio::time::timeout(INTERRUPTED, ending).await.unwrap_or(false)
    }
}

/// Connects to the port that the process names in its first line.
async fn connect(inside: &Inside, process: &Arc<Process>) -> Result<(TcpStream, PortConnection), Failure> {
    let failed = |text: String| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, text);
    let port = tokio::time::timeout(STARTING, first_line(process)).await;
    let port = port.map_err(|_| failed("Python does not start in time".to_owned()))?;
    let port = port.map_err(|said| failed(format!("Python does not start: {said}")))?;
    let sandbox = Arc::clone(&inside.sandbox);
    let connected = on_a_thread(move || {
        let connected = sandbox.connect_port(port);
        connected.map_err(|error| ServiceError::host("reaching Python in the sandbox", &error))
    });
    let (stream, connection) = connected.await?;
    let stream = stream
        .set_nonblocking(true)
        .and_then(|()| TcpStream::from_std(stream));
    let stream = stream.map_err(|error| failed(format!("reaching Python in the sandbox: {error}")))?;
    Ok((stream, connection))
}

/// The number in the first line of a process, or else what it says instead.
async fn first_line(process: &Arc<Process>) -> Result<u16, String> {
    let mut listener = process.listen(0);
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    while let Some(heard) = listener.next().await {
        match heard {
            Heard::Piece(_, OutputPiece::Stdout(bytes)) => said.extend_from_slice(&bytes),
            Heard::Piece(_, OutputPiece::Stderr(bytes)) => complained.extend_from_slice(&bytes),
            Heard::Skipped(_) => {}
        }
        if let Some(end) = said.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&said[..end]);
            return line
                .trim()
                .parse()
                .map_err(|_| avfs_core::printable(line.as_bytes()));
        }
    }
    let ended = process.ended().await;
    let error = ended.as_deref().and_then(ServiceError::of_run);
    Err(error.map_or_else(|| avfs_core::printable(&complained), |error| error.message))
}

#[derive(Deserialize)]
struct Execute {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<HashMap<String, String>>,
}

fn check_language(language: Option<&str>) -> Result<(), Failure> {
    match language {
        None => Ok(()),
        Some(language) if PYTHON.contains(&language.to_ascii_lowercase().as_str()) => Ok(()),
        Some(language) => {
            let language = avfs_core::printable(language.as_bytes());
            Err(Failure::absent(&format!("code in {language}: it runs Python")))
        }
    }
}

async fn execute(
    inside: Inside,
    State(server): State<Arc<Server>>,
    Asked(asked): Asked<Execute>,
) -> Result<Response, Failure> {
    check_language(asked.language.as_deref())?;
    let context = server
        .e2b
        .interpreters
        .find(&inside, asked.context_id.as_deref())?;
    let request = json!({ "code": asked.code, "envs": asked.env_vars });
    let mut turn = context.turn(&inside).await?;
    let (send, receive) = channel(AHEAD);
    let driven = Execution {
        inside,
        context,
        request,
        to: send,
    };
    tokio::spawn(async move { driven.run(&mut turn).await });
    let mut response = Body::from_stream(unfold(receive, next)).into_response();
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

type Piece = io::Result<Bytes>;

async fn next(mut receive: Receiver<Piece>) -> Option<(Piece, Receiver<Piece>)> {
    receive.recv().await.map(|piece| (piece, receive))
}

/// Code that runs, whether its client is there or not.
struct Execution {
    inside: Inside,
    context: Arc<Context>,
    request: Value,
    to: Sender<Piece>,
}

impl Execution {
    async fn run(self, turn: &mut Option<Runner>) {
        let Some(runner) = turn else { return };
        // The sandbox is in use as long as this takes.
        self.inside.sandbox.touch();
        let is_whole = self.follow(runner).await;
        self.inside.sandbox.touch();
        if !is_whole {
            self.context.end();
            *turn = None;
        }
    }

    /// Returns whether the process can run more code.
    async fn follow(&self, runner: &mut Runner) -> bool {
        let mut line = self.request.to_string().into_bytes();
        line.push(b'\n');
        if runner.requests.write_all(&line).await.is_err() {
            return self.broken(runner).await;
        }
        loop {
            let line = tokio::select! {
                line = runner.line() => line,
                () = self.to.closed() => return runner.interrupt().await,
            };
            match line {
                Some(line) if line == END => return true,
                Some(line) => {
                    if self.to.send(Ok(line.into())).await.is_err() {
                        return runner.interrupt().await;
                    }
                }
                None => return self.broken(runner).await,
            }
        }
    }

    /// The process has ended in the middle of code. Clients see whether the sandbox has, too: then the answer breaks off.
    async fn broken(&self, runner: &Runner) -> bool {
        runner.process.kill();
        let is_there = self.inside.tenant.sandbox(&self.inside.sandbox.id).is_ok();
        let last = if is_there {
            let text = "the process of the context has ended; the next code finds an empty one";
            let error = json!({ "type": "error", "name": "ContextEnded", "value": text, "traceback": text });
            Ok(format!("{error}\n").into())
        } else {
            Err(io::Error::other("the sandbox has ended"))
        };
        // A client that is gone does not need it.
        let _ = self.to.send(last).await;
        false
    }
}

#[derive(Deserialize)]
struct Create {
    cwd: Option<String>,
    language: Option<String>,
}

async fn create(
    inside: Inside,
    State(server): State<Arc<Server>>,
    Asked(asked): Asked<Create>,
) -> Result<Json<Value>, Failure> {
    check_language(asked.language.as_deref())?;
    let cwd = asked.cwd.filter(|cwd| !cwd.is_empty());
    let cwd = cwd.unwrap_or_else(|| place::HOME.to_owned());
    let context = Arc::new(Context::new(cwd, false)?);
    let interpreters = &server.e2b.interpreters;
    let is_room = interpreters.of(&inside, |contexts| {
        let is_room = contexts.len() < CONTEXTS_MAX;
        if is_room {
            contexts.push(Arc::clone(&context));
        }
        is_room
    });
    if !is_room? {
        let text = format!("a sandbox has at most {CONTEXTS_MAX} contexts");
        return Err(Failure::new(StatusCode::TOO_MANY_REQUESTS, text));
    }
    // Started now, so that what is wrong with its directory is told here.
    if let Err(failure) = context.turn(&inside).await {
        interpreters.of(&inside, |contexts| {
            // A context that failed to start must not be found by its id.
            contexts.retain(|known| !Arc::ptr_eq(known, &context))
        })?;
        return Err(failure);
    }
    Ok(Json(context.told()))
}

async fn list(inside: Inside, State(server): State<Arc<Server>>) -> Result<Json<Vec<Value>>, Failure> {
    let told = server.e2b.interpreters.of(&inside, |contexts| {
        let told = contexts.iter().map(|context| context.told());
        told.collect()
    });
    told.map(Json)
}

async fn show(
    inside: Inside,
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Failure> {
    Ok(Json(server.e2b.interpreters.find(&inside, Some(&id))?.told()))
}

async fn remove(
    inside: Inside,
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    let interpreters = &server.e2b.interpreters;
    let context = interpreters.find(&inside, Some(&id))?;
    interpreters.of(&inside, |contexts| {
        contexts.retain(|known| !Arc::ptr_eq(known, &context))
    })?;
    context.end();
    Ok(StatusCode::NO_CONTENT)
}

/// Ends the process of a context, with the code that runs. The next code finds it empty.
async fn restart(
    inside: Inside,
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    let context = server.e2b.interpreters.find(&inside, Some(&id))?;
    context.end();
    // Whoever comes next waits for the one that has just lost its process.
    *Arc::clone(&context.runner).lock_owned().await = None;
    Ok(StatusCode::OK)
}
