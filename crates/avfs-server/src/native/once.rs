//! Requests with an `Idempotency-Key`: carried out once, however often they are sent.

use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;

use super::api::ROOT;
use crate::auth::Caller;
use crate::problem::Problem;
use crate::random;
use crate::service::{ServiceResult, Tenant, on_a_thread};
use crate::state::{KeptReply, KeyUse, Reservation};

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The answer to a request that is carried out once.
#[derive(Clone, Debug)]
pub(super) struct OnceReply {
    status: StatusCode,
    again: Again,
    /// The path of the collection that what was made is in, and the field of the body that names it there.
    place: Option<(String, &'static str)>,
}

impl OnceReply {
    /// Something was done.
    pub fn done(again: Again) -> OnceReply {
        OnceReply {
            status: StatusCode::OK,
            again,
            place: None,
        }
    }

    /// Several things were made.
    pub fn made(again: Again) -> OnceReply {
        OnceReply {
            status: StatusCode::CREATED,
            ..OnceReply::done(again)
        }
    }

    /// Something was made below a path, where a field of the body names it.
    pub fn made_at(again: Again, collection: String, field: &'static str) -> OnceReply {
        OnceReply {
            place: Some((collection, field)),
            ..OnceReply::made(again)
        }
    }

    fn with_body(&self, status: StatusCode, body: Vec<u8>) -> Response {
        let place = self.place.as_ref().and_then(|(collection, field)| {
            let made: serde_json::Value = serde_json::from_slice(&body).ok()?;
            let place = format!("{ROOT}{collection}/{}", in_path(made[*field].as_str()?));
            HeaderValue::from_str(&place).ok()
        });
        let mut response = (status, Body::from(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(place.map(|place| (header::LOCATION, place)));
        response
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

/// What a request of which nobody knows the end may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Be carried out again: what it made is found again.
    Possible,
    /// Nothing: the command may have run.
    Impossible,
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

/// Does the work of a request, or answers as the first time. What fails was not done: it may be tried again.
pub(super) async fn once<T: Serialize>(
    caller: &Caller,
    key: Option<KeyUse>,
    reply: OnceReply,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<Response, Problem> {
    let text = |value: &T| serde_json::to_vec(value).map_err(|error| Problem::bad_request(error.to_string()));
    let Some(used) = key else {
        return Ok(reply.with_body(reply.status, text(&work.await?)?));
    };
    let conflict = |code: &str, text: &str| Err(Problem::new(StatusCode::CONFLICT, code, text));
    let Some(_mark) = UnderWay::mark(&caller.tenant, &used) else {
        return conflict(
            "request-under-way",
            "the request with this key is being carried out",
        );
    };
    let reserved = with_state(caller, &used, |tenant, used| Ok(tenant.state().reserve(used)?)).await?;
    match reserved {
        Reservation::Answered(kept) => return Ok(replayed(&reply, kept)),
        Reservation::OfAnother => {
            let text = "the key was used for another request";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", text));
        }
        Reservation::Unanswered if reply.again == Again::Impossible => {
            return conflict(
                "outcome-unknown",
                "the request was made before, and how it ended is not known",
            );
        }
        Reservation::Made | Reservation::Unanswered => {}
    }
    let value = match work.await {
        Ok(value) => value,
        Err(problem) => {
            with_state(caller, &used, |tenant, used| Ok(tenant.state().release(used)?)).await?;
            return Err(problem);
        }
    };
    let body = text(&value)?;
    let kept = KeptReply {
        status: reply.status.as_u16(),
        body: body.clone(),
    };
    with_state(caller, &used, move |tenant, used| {
        Ok(tenant.state().keep_reply(used, &kept)?)
    })
    .await?;
    Ok(reply.with_body(reply.status, body))
}

async fn with_state<T: Send + 'static>(
    caller: &Caller,
    used: &KeyUse,
    act: impl FnOnce(&Tenant, &KeyUse) -> ServiceResult<T> + Send + 'static,
) -> Result<T, Problem> {
    let (tenant, used) = (Arc::clone(&caller.tenant), used.clone());
    Ok(on_a_thread(move || act(&tenant, &used)).await?)
}

fn replayed(reply: &OnceReply, kept: KeptReply) -> Response {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    let mut response = reply.with_body(status, kept.body);
    response
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    response
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
