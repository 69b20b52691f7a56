//! What a request says, checked before anything is done. What cannot be read is told as a problem.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;

use crate::auth::Caller;
use crate::problem::Problem;
use crate::state::KeyUse;

/// The longest body that is read into memory.
pub(super) const JSON_MAX: usize = 16 << 20;
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const KEY_MAX: usize = 255;

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

/// A body of JSON, and the key under which the request is carried out once.
pub(super) struct Input<T> {
    pub value: T,
    pub key: Option<KeyUse>,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Input<T>, Problem> {
        let (parts, body) = request.into_parts();
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
        let caller = parts.extensions.get::<Caller>();
        let tenant = caller.map(|caller| Arc::clone(&caller.tenant));
        let _place = match &tenant {
            Some(tenant) => tenant.large_body(length(&parts.headers)).await,
            None => None,
        };
        let bytes = whole(body, JSON_MAX).await?;
        // Read alone, a list of values would pass for an object whose names are left out.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(Problem::bad_request("the body is an object of JSON"));
        }
        let value = serde_json::from_slice(&bytes);
        let value = value.map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
        let key = key_of(&parts, &bytes)?;
        Ok(Input { value, key })
    }
}

/// The key of a request whose body is no JSON: its words and its path make it the same request, with its length.
pub(super) struct Keyed(pub Option<KeyUse>);

impl<S: Sync> FromRequestParts<S> for Keyed {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Keyed, Problem> {
        let length = parts.headers.get(header::CONTENT_LENGTH);
        let length = Bytes::copy_from_slice(length.map_or(b"", |length| length.as_bytes()));
        key_of(parts, &length).map(Keyed)
    }
}

/// How long a body says to be.
fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn key_of(parts: &Parts, body: &Bytes) -> Result<Option<KeyUse>, Problem> {
    let Some(key) = parts.headers.get(KEY) else {
        return Ok(None);
    };
    let key = key.to_str().ok().filter(|key| (1..=KEY_MAX).contains(&key.len()));
    let key =
        key.ok_or_else(|| Problem::bad_request(format!("`Idempotency-Key` has 1 to {KEY_MAX} characters")))?;
    let caller = parts
        .extensions
        .get::<Caller>()
        .ok_or_else(Problem::unauthenticated)?;
    let mut hash = blake3::Hasher::new();
    hash.update(parts.method.as_str().as_bytes()).update(b" ");
    hash.update(parts.uri.to_string().as_bytes())
        .update(b"\n")
        .update(body);
    Ok(Some(KeyUse {
        principal: caller.principal.clone(),
        key: key.to_owned(),
        fingerprint: *hash.finalize().as_bytes(),
    }))
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
