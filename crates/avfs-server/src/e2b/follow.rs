//! What a process writes, as a stream to a client, and how it ended.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::unfold;
use http::HeaderMap;
use serde_json::{Value, json};

use super::access::Inside;
use super::connect::{CallError, Sent, answer};
use crate::service::{Heard, OutputListener, OutputPiece, Process, ServiceError};

/// How often a stream on which nothing comes says that it is still there, unless the client says it.
const STILL_THERE: Duration = Duration::from_secs(50);

/// How far a stream is.
enum At {
    Begin,
    Output(OutputListener),
    Over,
}

/// Everything that a process has written, as far as it is kept, and then what it writes. When the client goes away, the
/// process runs on.
pub(super) fn follow(inside: Inside, process: Arc<Process>, headers: &HeaderMap) -> Response {
    let rhythm = rhythm(headers);
    answer(unfold(At::Begin, move |at| {
        let (inside, process) = (inside.clone(), Arc::clone(&process));
        async move { step(&inside, &process, at, rhythm).await }
    }))
}

/// How often the client wants to hear something.
pub(super) fn rhythm(headers: &HeaderMap) -> Duration {
    let asked = headers
        .get("keepalive-ping-interval")
        .and_then(|value| value.to_str().ok());
    let seconds = asked
        .and_then(|text| text.parse().ok())
        .filter(|seconds| *seconds > 0);
    seconds.map_or(STILL_THERE, Duration::from_secs)
}

async fn step(inside: &Inside, process: &Arc<Process>, at: At, rhythm: Duration) -> Option<(Sent, At)> {
    match at {
        At::Begin => {
            let pid = process.pid().unwrap_or_default();
            let listener = process.listen(0);
            Some((Ok(event("start", json!({ "pid": pid }))), At::Output(listener)))
        }
        // A process that prints nothing for long looks like a dead connection to proxies on the way.
        At::Output(mut listener) => match tokio::time::timeout(rhythm, listener.next()).await {
            Err(_) => Some((Ok(event("keepalive", json!({}))), At::Output(listener))),
            Ok(Some(Heard::Piece(_, piece))) => Some((Ok(data(process, &piece)), At::Output(listener))),
            Ok(Some(Heard::Skipped(_))) => {
                let text = "the client takes the output in too slowly, and some of it is not kept any more";
                Some((Err(CallError::new("data_loss", text)), At::Over))
            }
            Ok(None) => Some((end(inside, process).await, At::Over)),
        },
        At::Over => None,
    }
}

fn event(name: &str, value: Value) -> Value {
    json!({ "event": { name: value } })
}

fn data(process: &Process, piece: &OutputPiece) -> Value {
    let name = match piece {
        _ if process.has_terminal => "pty",
        OutputPiece::Stdout(_) => "stdout",
        OutputPiece::Stderr(_) => "stderr",
    };
    event("data", json!({ name: STANDARD.encode(piece.bytes()) }))
}

async fn end(inside: &Inside, process: &Process) -> Sent {
    let finished = process.ended().await;
    if inside.tenant.sandbox(&inside.sandbox.id).is_err() {
        // It did not end by itself, and clients tell that from the end of a command.
        return Err(CallError::new("unavailable", "the sandbox has ended"));
    }
    let ending = process.ending();
    if ending.is_some_and(|ending| ending.timed_out) {
        return Err(CallError::new(
            "deadline_exceeded",
            "the command was ended: its time was over",
        ));
    }
    if let Some(error) = finished.as_deref().and_then(ServiceError::of_run) {
        return Err(error.into());
    }
    let (code, signal) = ending.map_or((None, None), |ending| (ending.exit_code, ending.signal));
    Ok(event("end", how(code, signal)))
}

/// An end, in the words of the program that clients expect inside.
fn how(code: Option<i32>, signal: Option<i32>) -> Value {
    let status = match (code, signal) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal: {signal}"),
        (None, None) => "unknown".to_owned(),
    };
    let mut end = json!({ "exitCode": code.unwrap_or(-1), "exited": code.is_some(), "status": &status });
    if code != Some(0) {
        end["error"] = status.into();
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_as_clients_know_them() {
        assert_eq!(
            how(Some(0), None),
            json!({ "exitCode": 0, "exited": true, "status": "exit status 0" })
        );
        let failed = how(Some(3), None);
        assert_eq!(
            (&failed["exitCode"], &failed["error"]),
            (&json!(3), &json!("exit status 3"))
        );
        let killed = how(None, Some(9));
        assert_eq!(
            (&killed["exitCode"], &killed["exited"]),
            (&json!(-1), &json!(false))
        );
        assert_eq!(killed["error"], "signal: 9");
    }
}
