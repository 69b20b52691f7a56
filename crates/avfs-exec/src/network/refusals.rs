//! What a run did not reach.

use std::sync::{Mutex, PoisonError};

/// Different refusals that are listed; the rest is only counted with the last one of its kind.
pub(super) const MOST_REFUSALS: usize = 100;

/// Something that was not reached, and how often it was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `HOST:PORT`, or nothing if the request did not name one.
    pub target: String,
    pub because: RefusedBecause,
    pub count: u64,
    /// What to add to the list of hosts, if that is all that it takes: `+HOST`.
    pub allow: Option<String>,
}

/// Why something was not reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedBecause {
    HostNotListed,
    /// The name is listed, but leads to this machine or its neighbours; or the address is such a one itself.
    PrivateAddress,
    BadRequest,
    ResolveFailed,
    ConnectFailed,
    /// The proxy that the user's programs go through did not open the connection.
    UpstreamRefused,
    TooManyConnections,
}

impl RefusedBecause {
    /// A word for programs, which stays as it is.
    pub fn code(self) -> &'static str {
        match self {
            Self::HostNotListed => "host_not_listed",
            Self::PrivateAddress => "private_address",
            Self::BadRequest => "bad_request",
            Self::ResolveFailed => "resolve_failed",
            Self::ConnectFailed => "connect_failed",
            Self::UpstreamRefused => "upstream_refused",
            Self::TooManyConnections => "too_many_connections",
        }
    }

    /// The answer of a proxy.
    pub(super) fn status(self) -> &'static str {
        match self {
            Self::HostNotListed | Self::PrivateAddress => "403 Forbidden",
            Self::BadRequest => "400 Bad Request",
            Self::ResolveFailed | Self::ConnectFailed | Self::UpstreamRefused => "502 Bad Gateway",
            Self::TooManyConnections => "503 Service Unavailable",
        }
    }
}

/// The refusals of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Vec<Refusal>>);

impl Refusals {
    /// Those since the last time that they were taken.
    pub(crate) fn take(&self) -> Vec<Refusal> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn note(&self, target: &str, because: RefusedBecause, allow: Option<String>) {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = refusals.len() >= MOST_REFUSALS;
        let same = |known: &&mut Refusal| known.because == because && (known.target == target || full);
        match refusals.iter_mut().rev().find(same) {
            Some(known) => known.count += 1,
            None if full => {}
            None => refusals.push(Refusal { target: target.to_owned(), because, count: 1, allow }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_does_not_grow_without_end() {
        let refusals = Refusals::default();
        for number in 0..MOST_REFUSALS + 20 {
            refusals.note(&format!("{number}.example:80"), RefusedBecause::HostNotListed, None);
        }
        let all = refusals.take();
        assert_eq!(all.len(), MOST_REFUSALS);
        assert_eq!(all.last().unwrap().count, 21);
        assert_eq!(refusals.take(), []);
    }
}
