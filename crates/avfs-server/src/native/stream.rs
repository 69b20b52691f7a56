//! Streams of events (SSE).

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::unfold;
use serde_json::{Value, json};

use super::exec::ExecAnswer;
use crate::problem::Problem;
use crate::service::{Heard, OutputListener, OutputPiece, Process};

/// How often a stream on which nothing comes says that it is still there.
const STILL_THERE: Duration = Duration::from_secs(15);

/// How far a stream is.
enum At {
    Output(OutputListener, Arc<Process>),
    Over,
}

/// What a process writes after a piece, and how it ends: events `stdout`, `stderr`, `skipped` and `end`.
pub(super) fn events(process: Arc<Process>, after: u64) -> Response {
    let at = At::Output(process.listen(after), process);
    let stream = unfold(at, |at| async move {
        let At::Output(mut listener, process) = at else {
            return None;
        };
        let (event, at) = match listener.next().await {
            Some(heard) => (event_of(heard), At::Output(listener, process)),
            None => (end_of(&process), At::Over),
        };
        Some((Ok::<_, Infallible>(event), at))
    });
    let keeping = KeepAlive::new().interval(STILL_THERE);
    Sse::new(stream).keep_alive(keeping).into_response()
}

/// How far a command to its end is.
enum RunAt<F> {
    Output(OutputListener, F),
    Over,
}

/// What a command writes, and then `end` with its answer, or `error` with a problem. A client that goes away drops `ending`,
/// which ends the command.
pub(super) fn run_events<F>(output: OutputListener, ending: F) -> Response
where
    F: Future<Output = Result<ExecAnswer, Problem>> + Send + 'static,
{
    let at = RunAt::Output(output, Box::pin(ending));
    let stream = unfold(at, |at| async move {
        let RunAt::Output(mut output, ending) = at else {
            return None;
        };
        let (event, at) = match output.next().await {
            Some(heard) => (event_of(heard), RunAt::Output(output, ending)),
            None => (run_end(ending.await), RunAt::Over),
        };
        Some((Ok::<_, Infallible>(event), at))
    });
    let keeping = KeepAlive::new().interval(STILL_THERE);
    Sse::new(stream).keep_alive(keeping).into_response()
}

fn run_end(ended: Result<ExecAnswer, Problem>) -> Event {
    let (name, body) = match ended {
        Ok(answer) => ("end", serde_json::to_string(&answer)),
        Err(problem) => ("error", serde_json::to_string(&problem.body())),
    };
    // A struct of texts and numbers is always JSON.
    Event::default().event(name).data(body.unwrap_or_default())
}

fn event_of(heard: Heard) -> Event {
    let (name, id, body) = told(heard);
    let event = Event::default().event(name).data(body.to_string());
    match id {
        Some(id) => event.id(id.to_string()),
        None => event,
    }
}

/// The name of an event, its number, and what it says.
pub(super) fn told(heard: Heard) -> (&'static str, Option<u64>, Value) {
    match heard {
        Heard::Skipped(pieces) => ("skipped", None, json!({ "pieces": pieces })),
        Heard::Piece(id, piece) => {
            let name = match piece {
                OutputPiece::Stdout(_) => "stdout",
                OutputPiece::Stderr(_) => "stderr",
            };
            (name, Some(id), body_of(piece.bytes()))
        }
    }
}

/// Text as it is, and other bytes so that nothing is lost of them.
fn body_of(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

fn end_of(process: &Process) -> Event {
    Event::default().event("end").data(ended(process).to_string())
}

/// How a process ended.
pub(super) fn ended(process: &Process) -> Value {
    let ending = process.ending();
    json!({
        "exit_code": ending.and_then(|ending| ending.exit_code),
        "signal": ending.and_then(|ending| ending.signal),
        "timed_out": ending.is_some_and(|ending| ending.timed_out),
    })
}
