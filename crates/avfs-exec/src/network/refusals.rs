//! What a run did not reach.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

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

/// How often the same is refused at once. Programs that ask again without end are kept from using up a processor.
pub(super) const AT_ONCE: u64 = 20;
/// How much longer each one after those waits, and how long the longest.
const STEP: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// How long the answer to a refusal of the same kind is put off.
pub(super) fn pause(count: u64) -> Duration {
    let steps = u32::try_from(count.saturating_sub(AT_ONCE)).unwrap_or(u32::MAX);
    STEP.saturating_mul(steps).min(LONGEST)
}

/// The refusals of a run so far.
#[derive(Debug)]
pub(crate) struct Refusals {
    all: Mutex<Vec<Refusal>>,
    /// Those that have come so often that somebody should hear of them now.
    frequent: Mutex<Vec<Refusal>>,
    /// Readable while there are some. Without it, they are heard of when something else happens.
    wake: Option<OwnedFd>,
}

impl Default for Refusals {
    fn default() -> Refusals {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        Refusals { all: Mutex::default(), frequent: Mutex::default(), wake }
    }
}

impl Refusals {
    /// Those since the last time that they were taken.
    pub(crate) fn take(&self) -> Vec<Refusal> {
        std::mem::take(&mut *lock(&self.all))
    }

    /// What is refused again and again, each once.
    pub(crate) fn take_frequent(&self) -> Vec<Refusal> {
        let mut frequent = lock(&self.frequent);
        if let Some(wake) = self.wake.as_ref().filter(|_| !frequent.is_empty()) {
            rustix::io::read(wake, &mut [0_u8; 8]).ok();
        }
        std::mem::take(&mut *frequent)
    }

    pub(crate) fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_ref().map(AsFd::as_fd)
    }

    /// Answers how often it was refused by now.
    pub(super) fn note(&self, target: &str, because: RefusedBecause, allow: Option<String>) -> u64 {
        let mut refusals = lock(&self.all);
        let full = refusals.len() >= MOST_REFUSALS;
        let same = |known: &&mut Refusal| known.because == because && (known.target == target || full);
        match refusals.iter_mut().rev().find(same) {
            Some(known) => {
                known.count += 1;
                if known.count == AT_ONCE {
                    self.is_frequent(known.clone());
                }
                known.count
            }
            None if full => AT_ONCE,
            None => {
                refusals.push(Refusal { target: target.to_owned(), because, count: 1, allow });
                1
            }
        }
    }

    fn is_frequent(&self, refusal: Refusal) {
        lock(&self.frequent).push(refusal);
        if let Some(wake) = &self.wake {
            rustix::io::write(wake, &1_u64.to_ne_bytes()).ok();
        }
    }
}

/// What a panicking thread left is still a list.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
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
    #[test]
    fn what_is_refused_again_and_again_is_told_once_and_waits_longer_each_time() {
        let refusals = Refusals::default();
        let refuse = || refusals.note("npm.example:443", RefusedBecause::HostNotListed, None);
        (1..AT_ONCE).for_each(|count| assert_eq!(pause(refuse()), Duration::ZERO, "{count}"));
        assert_eq!(refusals.take_frequent(), []);
        assert_eq!(pause(refuse()), Duration::ZERO);
        let told = refusals.take_frequent();
        assert_eq!((told.len(), &*told[0].target, told[0].count), (1, "npm.example:443", AT_ONCE));
        assert_eq!(pause(refuse()), STEP);
        assert_eq!(pause(refuse()), STEP * 2);
        assert_eq!((pause(1000), pause(u64::MAX)), (LONGEST, LONGEST));
        assert_eq!(refusals.take_frequent(), []);
    }
}
