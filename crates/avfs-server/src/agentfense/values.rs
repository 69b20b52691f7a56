//! Times, pages and callers of requests.

use std::time::Duration;

use tonic::{Request, Status};

use crate::auth::{Caller, Scope};

/// The most entries of a page, and how many it has if a client does not say.
const PAGE: usize = 1000;

/// Who a request is from, if they may do what it asks for.
pub(super) fn caller<T>(request: &Request<T>, needed: Scope) -> Result<Caller, Status> {
    // The entrance has put it there.
    let caller = request.extensions().get::<Caller>().cloned();
    let caller = caller.ok_or_else(|| Status::unauthenticated("the request needs a token"))?;
    if caller.scopes.allow(needed) {
        return Ok(caller);
    }
    let text = format!("the token has no scope `{}`", needed.as_str());
    Err(Status::permission_denied(text))
}

/// A field without which a request means nothing.
pub(super) fn required<'a>(name: &str, value: &'a str) -> Result<&'a str, Status> {
    if value.is_empty() {
        return Err(Status::invalid_argument(format!("{name} is required")));
    }
    Ok(value)
}

/// Milliseconds since 1970 as a message has them.
pub(super) fn moment(millis: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: millis.div_euclid(1000),
        // Below a second.
        nanos: i32::try_from(millis.rem_euclid(1000)).unwrap_or_default() * 1_000_000,
    }
}

pub(super) fn length(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default(),
    }
}

/// A time that a request gives; nothing, if it gives none or 0.
pub(super) fn duration(name: &str, given: Option<prost_types::Duration>) -> Result<Option<Duration>, Status> {
    let Some(given) = given else { return Ok(None) };
    let read = u64::try_from(given.seconds).ok().zip(
        u32::try_from(given.nanos)
            .ok()
            .filter(|nanos| *nanos < 1_000_000_000),
    );
    let (seconds, nanos) =
        read.ok_or_else(|| Status::invalid_argument(format!("{name} is a time from 0 on")))?;
    Ok(Some(Duration::new(seconds, nanos)).filter(|duration| !duration.is_zero()))
}

/// How many entries a page has at most.
pub(super) fn page_size(asked: i32) -> Result<usize, Status> {
    match usize::try_from(asked) {
        Ok(0) => Ok(PAGE),
        Ok(asked) => Ok(asked.min(PAGE)),
        Err(_) => Err(Status::invalid_argument("page_size is a number from 0 on")),
    }
}

/// A text that is left out when it is empty.
pub(super) fn given(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_they_were() {
        let given = |seconds, nanos| duration("t", Some(prost_types::Duration { seconds, nanos }));
        assert_eq!(given(1, 500_000_000).unwrap(), Some(Duration::from_millis(1500)));
        assert_eq!(given(0, 0).unwrap(), None);
        assert!(given(-1, 0).is_err() && given(0, -1).is_err() && given(0, 1_000_000_000).is_err());
        let at = moment(-1);
        assert_eq!((at.seconds, at.nanos), (-1, 999_000_000));
    }
}
