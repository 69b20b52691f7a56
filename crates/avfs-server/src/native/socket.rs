//! A process over a WebSocket: what it writes, and what it is given, on one connection.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{About, Api};
use super::input::Words;
use super::processes::OneProcess;
use super::stream::{ended, told};
use crate::auth::Scope;
use crate::problem::Problem;
use crate::service::{Process, Sandbox, ServiceError, ServiceResult};

/// The longest message that a client may send.
const MESSAGE_MAX: usize = 1 << 20;
/// How often a client is asked whether it is still there.
const STILL_THERE: Duration = Duration::from_secs(15);

pub(super) fn routes(api: &mut Api) {
    let about = About::new(
        "attachProcess",
        "Hear a process and give it input over a WebSocket",
        Scope::Run,
    );
    api.route(
        Method::GET,
        "/sandboxes/{id}/processes/{process}/socket",
        about.query::<AttachWords>().gives_nothing(101),
        attach,
    );
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AttachWords {
    /// The last piece of output that was heard: the connection goes on after it.
    #[serde(default)]
    after: u64,
}

/// What a client says in one message.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Said {
    /// Input, as text.
    Stdin(String),
    /// Input of any bytes.
    StdinBase64(String),
    /// No more input comes.
    CloseStdin,
    /// A signal, by its number.
    Signal(i32),
    /// The size of its terminal.
    Resize { rows: u16, columns: u16 },
}

async fn attach(
    of: OneProcess,
    Words(asked): Words<AttachWords>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|_| {
        let text = "this is for WebSockets; `/output` has the same as events";
        Problem::new(StatusCode::UPGRADE_REQUIRED, "not-a-socket", text)
    })?;
    let upgrade = upgrade.max_message_size(MESSAGE_MAX);
    Ok(upgrade.on_upgrade(move |socket| async move {
        // How a connection ended is of no interest to anybody else.
        let _ = serve(socket, &of.process, &of.of.sandbox, asked.after).await;
    }))
}

async fn serve(
    mut socket: WebSocket,
    process: &Arc<Process>,
    sandbox: &Sandbox,
    after: u64,
) -> Result<(), axum::Error> {
    let mut output = process.listen(after);
    loop {
        tokio::select! {
            heard = output.next() => {
                let Some(heard) = heard else { break };
                let (name, id, mut body) = told(heard);
                body["event"] = json!(name);
                body["id"] = json!(id);
                socket.send(Message::Text(body.to_string().into())).await?;
            }
            said = socket.recv() => {
                sandbox.touch();
                let done = match said {
                    None => return Ok(()),
                    Some(Err(error)) => return Err(error),
                    Some(Ok(Message::Close(_))) => return Ok(()),
                    Some(Ok(Message::Text(text))) => hear(process, text.as_bytes()).await,
                    Some(Ok(Message::Binary(bytes))) => process.write_stdin(bytes.to_vec()).await,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                };
                if let Err(error) = done {
                    let body = json!({ "event": "error", "code": error.code, "detail": error.message });
                    socket.send(Message::Text(body.to_string().into())).await?;
                }
            }
            () = tokio::time::sleep(STILL_THERE) => socket.send(Message::Ping(Vec::new().into())).await?,
        }
    }
    let mut body: Value = ended(process);
    body["event"] = json!("end");
    socket.send(Message::Text(body.to_string().into())).await?;
    socket.send(Message::Close(None)).await
}

async fn hear(process: &Process, text: &[u8]) -> ServiceResult<()> {
    let said: Said = serde_json::from_slice(text)
        .map_err(|error| ServiceError::invalid(format!("the message: {error}")))?;
    match said {
        Said::Stdin(text) => process.write_stdin(text.into_bytes()).await,
        Said::StdinBase64(text) => {
            let bytes = STANDARD.decode(text);
            let bytes = bytes.map_err(|error| ServiceError::invalid(format!("the message: {error}")))?;
            process.write_stdin(bytes).await
        }
        Said::CloseStdin => {
            process.close_stdin();
            Ok(())
        }
        Said::Signal(number) => process.signal(number).map(drop),
        Said::Resize { rows, columns } => process.resize(rows, columns),
    }
}
