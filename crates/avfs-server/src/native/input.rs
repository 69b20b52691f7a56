//! What a request says, checked before anything is done. What cannot be read is told as a problem.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use crate::auth::Caller;
use crate::problem::Problem;

/// The longest body that is read into memory.
pub(super) const JSON_MAX: usize = 16 << 20;

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Problem> {
        // The entrance has put it there.
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(Problem::unauthenticated)
    }
}

/// The part of a path that stands for a name.
pub(super) async fn part_of_path(parts: &mut Parts, name: &str) -> Result<String, Problem> {
    let found = RawPathParams::from_request_parts(parts, &()).await;
    let found = found.map_err(|error| Problem::bad_request(error.body_text()))?;
    let value = found.iter().find(|(known, _)| *known == name);
    let value = value.map(|(_, value)| value.to_owned());
    value.ok_or_else(|| Problem::bad_request(format!("the path has no `{name}`")))
}

/// The words after `?`.
pub(super) struct Words<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Words<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Words<T>, Problem> {
        let read: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        let Query(words) = read.map_err(|error| Problem::bad_request(error.body_text()))?;
        Ok(Words(words))
    }
}

/// A body of JSON.
pub(super) struct Input<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Input<T>, Problem> {
        let (mut parts, body) = request.into_parts();
        // A page cannot send this type without asking first, which is refused.
        let kind = parts
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let kind = kind
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let text = "the body is JSON: `Content-Type: application/json`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", text));
        }
        // Its place is given up when it has been read.
        let (bytes, _place) = match parts.extensions.remove::<LargeBody>() {
            Some(LargeBody(place)) => (whole(body, JSON_MAX).await?, Some(place)),
            None => body_bytes(&parts, body).await?,
        };
        // Read alone, a list of values would pass for an object whose names are left out.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(Problem::bad_request("the body is an object of JSON"));
        }
        let value = serde_json::from_slice(&bytes);
        let value = value.map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
        Ok(Input(value))
    }
}

/// The place that a long body in memory takes up, once it has one.
#[derive(Clone)]
pub(super) struct LargeBody(pub Arc<OwnedSemaphorePermit>);

/// A whole body, which waits for a place in memory if it is long.
pub(super) async fn body_bytes(
    parts: &Parts,
    body: Body,
) -> Result<(Bytes, Option<Arc<OwnedSemaphorePermit>>), Problem> {
    let place = match parts.extensions.get::<Caller>() {
        Some(caller) => caller.tenant.large_body(length(&parts.headers)).await,
        None => None,
    };
    Ok((whole(body, JSON_MAX).await?, place.map(Arc::new)))
}

/// How long a body says to be.
fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A whole body of at most so many bytes.
pub(super) async fn whole(body: Body, most: usize) -> Result<Bytes, Problem> {
    match Limited::new(body, most).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let text = format!("the body has more than {most} bytes");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", text))
        }
        Err(error) => Err(Problem::of_body(&*error)),
    }
}

/// An answer about something that was made.
pub(super) type Made<T> = (StatusCode, Json<T>);

pub(super) fn made_body<T>(body: T) -> Made<T> {
    (StatusCode::CREATED, Json(body))
}

/// The headers of a request.
pub(super) struct Headers(pub HeaderMap);

impl<S: Sync> FromRequestParts<S> for Headers {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Headers, Infallible> {
        Ok(Headers(parts.headers.clone()))
    }
}

impl Headers {
    pub fn text(&self, name: &HeaderName) -> Option<&str> {
        self.0.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A time, for clients.
pub(super) type Millis = i64;
