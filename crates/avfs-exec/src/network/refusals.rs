//! Requests that a run was refused.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

/// The number of different refusals that are listed; further ones only increase the count of the last one of
/// their kind.
pub(super) const MOST_REFUSALS: usize = 100;

/// A refused request, and how often it was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `HOST:PORT`, or empty if the request did not name one.
    pub target: String,
    /// Why it was refused.
    pub because: RefusedBecause,
    /// How often it was tried.
    pub count: u64,
    /// The entry to add to the list of hosts, if that is sufficient: `+HOST`.
    pub allow: Option<String>,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedBecause {
    /// The run was not granted this host.
    HostNotListed,
    /// The name is listed, but leads to this machine or its neighbours; or the address itself does.
    PrivateAddress,
    /// It is not a request that the proxy understands.
    BadRequest,
    /// The name has no address.
    ResolveFailed,
    /// No connection came about.
    ConnectFailed,
    /// The proxy of the user's programs did not open the connection.
    UpstreamRefused,
    /// The run has as many connections open as it may.
    TooManyConnections,
}

impl RefusedBecause {
    /// A stable code for programs.
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

    /// The status of the proxy's answer.
    pub(super) fn status(self) -> &'static str {
        match self {
            Self::HostNotListed | Self::PrivateAddress => "403 Forbidden",
            Self::BadRequest => "400 Bad Request",
            Self::ResolveFailed | Self::ConnectFailed | Self::UpstreamRefused => "502 Bad Gateway",
            Self::TooManyConnections => "503 Service Unavailable",
        }
    }
}

/// How often the same request is refused without delay. Programs that retry endlessly are kept from using up
/// a processor.
pub(super) const AT_ONCE: u64 = 20;
/// How much longer each later refusal is delayed, and the maximum.
const STEP: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// The delay of the answer to a refusal of the same kind.
pub(super) fn pause(count: u64) -> Duration {
    let steps = u32::try_from(count.saturating_sub(AT_ONCE)).unwrap_or(u32::MAX);
    STEP.saturating_mul(steps).min(LONGEST)
}

/// The refusals of a run so far.
#[derive(Debug)]
pub(crate) struct Refusals {
    all: Mutex<Vec<Refusal>>,
    /// Refusals that are so frequent that they should be reported immediately.
    frequent: Mutex<Vec<Refusal>>,
    /// Readable while there are some. Without it, they are reported with the next event.
    wake: Option<OwnedFd>,
}

impl Default for Refusals {
    fn default() -> Refusals {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        Refusals {
            all: Mutex::default(),
            frequent: Mutex::default(),
            wake,
        }
    }
}

impl Refusals {
    /// The refusals since the last call.
    pub(crate) fn take(&self) -> Vec<Refusal> {
        std::mem::take(&mut *lock(&self.all))
    }

    /// Frequent refusals, each reported once.
    pub(crate) fn take_frequent(&self) -> Vec<Refusal> {
        let mut frequent = lock(&self.frequent);
        // Also if there is none: a refusal may have been taken before its wake-up came, and a counter that stays
        // set would wake the reader again and again.
        if let Some(wake) = &self.wake {
            rustix::io::read(wake, &mut [0_u8; 8]).ok();
        }
        std::mem::take(&mut *frequent)
    }

    pub(crate) fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_ref().map(AsFd::as_fd)
    }

    /// Returns how often it has been refused.
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
                refusals.push(Refusal {
                    target: target.to_owned(),
                    because,
                    count: 1,
                    allow,
                });
                1
            }
        }
    }

    fn is_frequent(&self, refusal: Refusal) {
        lock(&self.frequent).push(refusal);
        if let Some(wake) = &self.wake {
            // A counter that is full has woken the reader already.
            rustix::io::write(wake, &1_u64.to_ne_bytes()).ok();
        }
    }
}

/// A list that a panicking thread left is still usable.
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
            refusals.note(
                &format!("{number}.example:80"),
                RefusedBecause::HostNotListed,
                None,
            );
        }
        let all = refusals.take();
        assert_eq!(all.len(), MOST_REFUSALS);
        assert_eq!(all.last().unwrap().count, 21);
        assert_eq!(refusals.take(), []);
    }
    #[test]
    fn repeated_refusals_are_reported_once_and_delayed_longer_each_time() {
        let refusals = Refusals::default();
        let refuse = || refusals.note("npm.example:443", RefusedBecause::HostNotListed, None);
        (1..AT_ONCE).for_each(|count| assert_eq!(pause(refuse()), Duration::ZERO, "{count}"));
        assert_eq!(refusals.take_frequent(), []);
        assert_eq!(pause(refuse()), Duration::ZERO);
        let told = refusals.take_frequent();
        assert_eq!(
            (told.len(), &*told[0].target, told[0].count),
            (1, "npm.example:443", AT_ONCE)
        );
        assert_eq!(pause(refuse()), STEP);
        assert_eq!(pause(refuse()), STEP * 2);
        assert_eq!((pause(1000), pause(u64::MAX)), (LONGEST, LONGEST));
        assert_eq!(refusals.take_frequent(), []);
    }
}
