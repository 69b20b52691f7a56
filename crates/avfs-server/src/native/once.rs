//! Requests with an `Idempotency-Key`: carried out once, however often they are sent.
//!
//! Every route that changes something has this around its handler, unless its description says why it has not. What a
//! request is about need not exist any more when it is repeated: the first answer is looked for before anything else.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::api::EVENTS;
use super::input::{LargeBody, body_bytes};
use crate::auth::Caller;
use crate::problem::Problem;
use crate::random;
use crate::service::{ServiceResult, Tenant, on_a_thread};
use crate::state::{KeptReply, KeyUse, Reservation};

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const KEY_MAX: usize = 255;

/// What a request of which nobody knows the end may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Be carried out again: it finds what it made, or that what it was to end has ended.
    Possible,
    /// Nothing: the command may have run.
    Impossible,
}

/// How a route carries its requests out once.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnceRules {
    pub again: Again,
    /// The field of the answer that names what was made, below the path of the request.
    pub made: Option<&'static str>,
    /// The field of the answer that is the version of a file.
    pub version: Option<&'static str>,
    /// The body is read as a whole, and is part of what makes two requests the same. Of another one, only its length is.
    pub reads_body: bool,
    /// It gives its output as events if the client accepts them.
    pub streams: bool,
}

impl OnceRules {
    /// The headers that tell of what the answer has in its body.
    fn add_headers(self, path: &str, response: &mut Response, body: &[u8]) {
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else {
            return;
        };
        let headers = response.headers_mut();
        if let Some(name) = self.made.and_then(|field| value[field].as_str()) {
            let place = HeaderValue::from_str(&format!("{path}/{}", in_path(name)));
            headers.extend(place.ok().map(|place| (header::LOCATION, place)));
        }
        if let Some(version) = self.version.and_then(|field| value[field].as_str()) {
            let tag = HeaderValue::from_str(&format!("\"{version}\""));
            headers.extend(tag.ok().map(|tag| (header::ETAG, tag)));
        }
    }
}

/// A name as one part of a path.
pub(super) fn in_path(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push_str(&random::hex(&[byte]).to_uppercase());
        }
    }
    text
}

/// The keys of requests that are carried out at this moment.
static UNDER_WAY: LazyLock<Mutex<HashSet<[String; 3]>>> = LazyLock::new(Mutex::default);

/// Marks a key for as long as its request is carried out.
struct UnderWay([String; 3]);

impl UnderWay {
    fn mark(tenant: &Tenant, used: &KeyUse) -> Option<UnderWay> {
        let mark = [tenant.name.clone(), used.principal.clone(), used.key.clone()];
        let mut marks = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        marks.insert(mark.clone()).then_some(UnderWay(mark))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut marks = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        marks.remove(&self.0);
    }
}

/// The key of the request, for what is made with it.
pub(super) struct OnceKey(pub Option<KeyUse>);

impl<S: Sync> FromRequestParts<S> for OnceKey {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<OnceKey, Self::Rejection> {
        Ok(OnceKey(parts.extensions.get::<KeyUse>().cloned()))
    }
}

/// Has a request carried out, or answers as the first time. What fails was not done: it may be tried again.
pub(super) async fn once(rules: OnceRules, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let answered = match request.headers().contains_key(&KEY) {
        true => carry_out(rules, request, next).await,
        false if rules.made.is_none() => return next.run(request).await,
        false => in_one_piece(next.run(request).await).await,
    };
    let (mut response, body) = match answered {
        Ok(answered) => answered,
        Err(problem) => return problem.into_response(),
    };
    if response.status().is_success() {
        rules.add_headers(&path, &mut response, &body);
    }
    response
}

async fn carry_out(rules: OnceRules, request: Request, next: Next) -> Result<(Response, Bytes), Problem> {
    let (mut request, used, caller) = keyed(rules, request).await?;
    let conflict = |code: &str, text: &str| Err(Problem::new(StatusCode::CONFLICT, code, text));
    let Some(_mark) = UnderWay::mark(&caller.tenant, &used) else {
        return conflict(
            "request-under-way",
            "the request with this key is being carried out",
        );
    };
    let reserved = with_state(&caller, &used, |tenant, used| {
        Ok(tenant.state().replies().reserve(used)?)
    })
    .await?;
    match reserved {
        Reservation::Answered(kept) => return Ok(replayed(kept)),
        Reservation::OfAnother => {
            let text = "the key was used for another request";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", text));
        }
        Reservation::Unanswered if rules.again == Again::Impossible => {
            return conflict(
                "outcome-unknown",
                "the request was made before, and how it ended is not known",
            );
        }
        Reservation::Made | Reservation::Unanswered => {}
    }
    request.extensions_mut().insert(used.clone());
    let (response, body) = in_one_piece(next.run(request).await).await?;
    if !response.status().is_success() {
        with_state(&caller, &used, |tenant, used| {
            Ok(tenant.state().replies().release(used)?)
        })
        .await?;
        return Ok((response, body));
    }
    let kept = KeptReply {
        status: response.status().as_u16(),
        body: body.to_vec(),
    };
    with_state(&caller, &used, move |tenant, used| {
        Ok(tenant.state().replies().keep(used, &kept)?)
    })
    .await?;
    Ok((response, body))
}

/// Whether the client wants output as it comes.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT);
    accepts.is_some_and(|kinds| kinds.to_str().is_ok_and(|kinds| kinds.contains(EVENTS)))
}

/// A request with its key, and whose it is.
async fn keyed(rules: OnceRules, request: Request) -> Result<(Request, KeyUse, Caller), Problem> {
    let (mut parts, mut body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned();
    let caller = caller.ok_or_else(Problem::unauthenticated)?;
    let key = parts.headers.get(&KEY).and_then(|key| key.to_str().ok());
    let key = key.filter(|key| (1..=KEY_MAX).contains(&key.len()));
    let key =
        key.ok_or_else(|| Problem::bad_request(format!("`Idempotency-Key` has 1 to {KEY_MAX} characters")))?;
    let key = key.to_owned();
    if rules.streams && wants_events(&parts.headers) {
        // Output that has gone by cannot be given again.
        let text = "`Idempotency-Key` is for answers in one piece, and not for events";
        return Err(Problem::bad_request(text));
    }
    let mut hash = blake3::Hasher::new();
    hash.update(parts.method.as_str().as_bytes()).update(b" ");
    hash.update(parts.uri.to_string().as_bytes()).update(b"\n");
    if rules.reads_body {
        let (bytes, place) = body_bytes(&parts, body).await?;
        hash.update(&bytes);
        if let Some(place) = place {
            parts.extensions.insert(LargeBody(place));
        }
        body = Body::from(bytes);
    } else if let Some(length) = parts.headers.get(header::CONTENT_LENGTH) {
        hash.update(length.as_bytes());
    }
    for condition in [header::IF_MATCH, header::IF_NONE_MATCH] {
        if let Some(versions) = parts.headers.get(condition) {
            hash.update(b"\n").update(versions.as_bytes());
        }
    }
    let used = KeyUse {
        principal: caller.principal.clone(),
        key,
        fingerprint: *hash.finalize().as_bytes(),
    };
    Ok((Request::from_parts(parts, body), used, caller))
}

async fn with_state<T: Send + 'static>(
    caller: &Caller,
    used: &KeyUse,
    act: impl FnOnce(&Tenant, &KeyUse) -> ServiceResult<T> + Send + 'static,
) -> Result<T, Problem> {
    let (tenant, used) = (Arc::clone(&caller.tenant), used.clone());
    Ok(on_a_thread(move || act(&tenant, &used)).await?)
}

/// An answer with its body, which is in memory as a whole already.
async fn in_one_piece(response: Response) -> Result<(Response, Bytes), Problem> {
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await;
    let body = body.map_err(|error| Problem::of_body(&error))?;
    Ok((Response::from_parts(parts, Body::from(body.clone())), body))
}

fn replayed(kept: KeptReply) -> (Response, Bytes) {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    let body = Bytes::from(kept.body);
    let mut response = (status, Body::from(body.clone())).into_response();
    let headers = response.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    if !body.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    (response, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert_eq!(in_path("before-1.0"), "before-1.0");
        assert_eq!(in_path("a/b c%é"), "a%2Fb%20c%25%C3%A9");
    }
}
