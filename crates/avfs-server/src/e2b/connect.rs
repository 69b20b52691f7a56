//! Calls and streams as the Connect protocol has them, in JSON.
//!
//! A call is one JSON object each way. In a stream, each message is a byte of flags, four bytes of length and an object; the
//! last one has the flag `LAST` and says how the stream ended.

use agentvfs::ErrorKind;
use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::service::ServiceError;

/// The most bytes of a message: input of a process comes in pieces.
const MESSAGE_MAX: usize = 4 << 20;
const LAST: u8 = 2;
const COMPRESSED: u8 = 1;

/// Why a call or stream failed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CallError {
    code: &'static str,
    message: String,
}

impl CallError {
    pub fn new(code: &'static str, message: impl Into<String>) -> CallError {
        CallError {
            code,
            message: message.into(),
        }
    }

    pub fn invalid(message: impl Into<String>) -> CallError {
        CallError::new("invalid_argument", message)
    }

    /// It is part of the interface, but not of this server.
    pub fn absent(what: &str) -> CallError {
        CallError::new(
            "unimplemented",
            format!("this server has no {what}; see docs/e2b.md"),
        )
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn status(&self) -> StatusCode {
        match self.code {
            "invalid_argument" | "failed_precondition" | "out_of_range" => StatusCode::BAD_REQUEST,
            "unauthenticated" => StatusCode::UNAUTHORIZED,
            "permission_denied" => StatusCode::FORBIDDEN,
            "not_found" => StatusCode::NOT_FOUND,
            "already_exists" => StatusCode::CONFLICT,
            "resource_exhausted" => StatusCode::TOO_MANY_REQUESTS,
            "unimplemented" => StatusCode::NOT_IMPLEMENTED,
            "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
            "deadline_exceeded" => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<ServiceError> for CallError {
    fn from(error: ServiceError) -> CallError {
        let code = match (error.code.as_str(), error.kind) {
            ("too-many-commands", _) | (_, ErrorKind::Full) => "resource_exhausted",
            (_, ErrorKind::BadInput) => "invalid_argument",
            (_, ErrorKind::NotFound) => "not_found",
            (_, ErrorKind::Conflict) => "failed_precondition",
            (_, ErrorKind::Busy) => "unavailable",
            (_, ErrorKind::Denied) => "permission_denied",
            (_, ErrorKind::Corrupt | ErrorKind::Internal) => "internal",
        };
        let asked = error
            .approval
            .map(|id| format!(" (approval {id})"))
            .unwrap_or_default();
        CallError::new(code, format!("{}{asked}", error.message))
    }
}

impl IntoResponse for CallError {
    fn into_response(self) -> Response {
        (self.status(), Json(self)).into_response()
    }
}

/// The message of a call.
pub(super) struct Call<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Call<T> {
    type Rejection = CallError;

    async fn from_request(request: Request, _: &S) -> Result<Call<T>, CallError> {
        check_type(request.headers(), "application/json")?;
        let body = Limited::new(request.into_body(), MESSAGE_MAX).collect().await;
        let bytes = body.map_err(|error| CallError::invalid(format!("the message: {error}")))?;
        read(&bytes.to_bytes()).map(Call)
    }
}

/// The messages of a stream from the client.
pub(super) struct Messages {
    body: Body,
    so_far: BytesMut,
}

impl<S: Send + Sync> FromRequest<S> for Messages {
    type Rejection = CallError;

    async fn from_request(request: Request, _: &S) -> Result<Messages, CallError> {
        check_type(request.headers(), "application/connect+json")?;
        Ok(Messages {
            body: request.into_body(),
            so_far: BytesMut::new(),
        })
    }
}

impl Messages {
    /// The next message; nothing at the end.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CallError> {
        loop {
            if let Some(bytes) = take_message(&mut self.so_far)? {
                return read(&bytes).map(Some);
            }
            let Some(frame) = self.body.frame().await else {
                if self.so_far.is_empty() {
                    return Ok(None);
                }
                return Err(CallError::invalid("the stream ends in the middle of a message"));
            };
            let frame = frame.map_err(|error| CallError::invalid(format!("the stream: {error}")))?;
            if let Ok(bytes) = frame.into_data() {
                self.so_far.extend_from_slice(&bytes);
            }
        }
    }

    /// The only message of a stream.
    pub async fn only<T: DeserializeOwned>(mut self) -> Result<T, CallError> {
        let message = self.next().await?;
        message.ok_or_else(|| CallError::invalid("the stream has no message"))
    }
}

/// Takes a whole message from the bytes that have come.
fn take_message(so_far: &mut BytesMut) -> Result<Option<Bytes>, CallError> {
    let Some(head) = so_far.first_chunk::<5>() else {
        return Ok(None);
    };
    let [flags, length @ ..] = *head;
    if flags & COMPRESSED != 0 {
        return Err(CallError::absent("compressed messages"));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_MAX {
        let text = format!("a message has at most {MESSAGE_MAX} bytes");
        return Err(CallError::new("resource_exhausted", text));
    }
    if so_far.len() < 5 + length {
        return Ok(None);
    }
    so_far.advance(5);
    Ok(Some(so_far.split_to(length).freeze()))
}

fn check_type(headers: &HeaderMap, expected: &str) -> Result<(), CallError> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if kind.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(CallError::absent(&format!(
        "messages of this type: it takes `{expected}`"
    )))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CallError> {
    let bytes = if bytes.is_empty() { &b"{}"[..] } else { bytes };
    serde_json::from_slice(bytes).map_err(|error| CallError::invalid(format!("the message: {error}")))
}

/// A message of a stream to the client.
pub(super) type Sent = Result<Value, CallError>;

/// A stream to the client: it ends well after its last message, or with the first error.
pub(super) fn answer(messages: impl Stream<Item = Sent> + Send + 'static) -> Response {
    // An error is the last message, whatever would come after it.
    let ended = messages.scan(false, |is_over, message| {
        let was_over = std::mem::replace(is_over, message.is_err());
        std::future::ready((!was_over).then_some(message))
    });
    let last = futures_util::stream::once(std::future::ready(None));
    let frames = ended.map(Some).chain(last).scan(false, |is_told, message| {
        let frame = match message {
            Some(Ok(value)) => Some(frame(0, &value)),
            Some(Err(error)) => {
                *is_told = true;
                Some(frame(LAST, &json!({ "error": error })))
            }
            None => (!*is_told).then(|| frame(LAST, &json!({}))),
        };
        std::future::ready(frame.map(Ok::<_, std::convert::Infallible>))
    });
    let mut response = Body::from_stream(frames).into_response();
    let kind = HeaderValue::from_static("application/connect+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A stream that could not begin.
pub(super) fn refuse(error: CallError) -> Response {
    answer(futures_util::stream::once(std::future::ready(Err(error))))
}

fn frame(flags: u8, value: &Value) -> Bytes {
    let text = value.to_string();
    let mut frame = BytesMut::with_capacity(5 + text.len());
    frame.put_u8(flags);
    // No message of this server is nearly so long.
    frame.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
    frame.put_slice(text.as_bytes());
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sent(messages: Vec<Sent>) -> Vec<(u8, Value)> {
        let response = answer(futures_util::stream::iter(messages));
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let mut rest = BytesMut::from(&bytes[..]);
        let mut found = Vec::new();
        while let Some(flags) = rest.first().copied() {
            let message = take_message(&mut rest).unwrap().unwrap();
            found.push((flags, serde_json::from_slice(&message).unwrap()));
        }
        found
    }

    #[tokio::test]
    async fn a_stream_says_how_it_ended() {
        assert_eq!(
            sent(vec![Ok(json!({ "a": 1 }))]).await,
            [(0, json!({ "a": 1 })), (LAST, json!({}))]
        );
        let error = CallError::new("not_found", "gone");
        assert_eq!(
            sent(vec![Ok(json!(1)), Err(error), Ok(json!(2))]).await,
            [
                (0, json!(1)),
                (
                    LAST,
                    json!({ "error": { "code": "not_found", "message": "gone" } })
                )
            ]
        );
    }

    #[tokio::test]
    async fn messages_are_read_however_they_are_cut() {
        let whole = [frame(0, &json!([1])), frame(0, &json!([2, 3]))].concat();
        for cut in 0..whole.len() {
            let pieces = [whole[..cut].to_vec(), whole[cut..].to_vec()];
            let pieces = pieces.map(Ok::<_, std::convert::Infallible>);
            let mut messages = Messages {
                body: Body::from_stream(futures_util::stream::iter(pieces)),
                so_far: BytesMut::new(),
            };
            assert_eq!(messages.next::<Value>().await.unwrap(), Some(json!([1])));
            assert_eq!(messages.next::<Value>().await.unwrap(), Some(json!([2, 3])));
            assert_eq!(messages.next::<Value>().await.unwrap(), None);
        }
    }

    #[test]
    fn messages_that_are_too_long_are_refused_before_they_come() {
        let mut head = BytesMut::from(&[0, 0xff, 0xff, 0xff, 0xff][..]);
        assert_eq!(take_message(&mut head).unwrap_err().code, "resource_exhausted");
    }

    /// Messages that were made up: each is one of those that were sent, or a refusal, and the rest stays.
    #[test]
    fn damaged_messages() {
        let seeds = [
            [
                frame(0, &json!({ "process": { "cmd": "a" } })),
                frame(LAST, &json!({})),
            ]
            .concat(),
            frame(COMPRESSED, &json!([])).to_vec(),
            [&[0, 0, 0x3f, 0xff, 0xff][..], &[b' '; 100]].concat(),
            [&[0, 0, 0x40, 0, 1][..], b"{}"].concat(),
        ];
        avfs_testkit::fuzz(&seeds, |bytes| {
            let mut rest = BytesMut::from(bytes);
            loop {
                let before = rest.len();
                match take_message(&mut rest) {
                    Ok(Some(message)) => {
                        assert_eq!(message.len() + 5 + rest.len(), before);
                        let _ = read::<Value>(&message);
                    }
                    Ok(None) => {
                        assert!(rest.len() < 5 + MESSAGE_MAX);
                        break;
                    }
                    Err(_) => break,
                }
            }
        });
    }
}
