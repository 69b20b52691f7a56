//! How many requests a tenant may make. One that makes too many is told so, and others do not notice.

use std::sync::{Mutex, PoisonError};

use crate::clock::SteadyMillis;

/// Seconds of requests that a tenant may save up while it makes none.
const BURST_SECONDS: u64 = 2;

/// A bucket that fills by the second, and from which each request takes one.
pub(crate) struct RequestRate {
    /// Nothing: there is no limit.
    per_second: Option<u64>,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    /// Thousandths of requests, so that a millisecond adds a whole number.
    left: u64,
    filled: SteadyMillis,
}

impl RequestRate {
    pub fn new(per_second: Option<u64>, now: SteadyMillis) -> RequestRate {
        let left = per_second.unwrap_or(0).saturating_mul(BURST_SECONDS * 1000);
        RequestRate {
            per_second,
            bucket: Mutex::new(Bucket { left, filled: now }),
        }
    }

    /// Takes one request, if there is one left. A pause gives no more than a second away.
    pub fn take(&self, now: SteadyMillis) -> bool {
        let Some(per_second) = self.per_second else {
            return true;
        };
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.0.saturating_sub(bucket.filled.0).clamp(0, 1000);
        bucket.filled = now;
        let added = per_second.saturating_mul(passed.unsigned_abs());
        let most = per_second.saturating_mul(BURST_SECONDS * 1000);
        bucket.left = bucket.left.saturating_add(added).min(most);
        match bucket.left.checked_sub(1000) {
            Some(left) => {
                bucket.left = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_so_many_a_second() {
        let rate = RequestRate::new(Some(10), SteadyMillis(0));
        let taken = |at: i64| (0..100).take_while(|_| rate.take(SteadyMillis(at))).count();
        assert_eq!(taken(0), 20);
        assert_eq!(taken(100), 1);
        assert_eq!(taken(1100), 10);
        // A clock that went back, and a long pause.
        assert_eq!(taken(-5000), 0);
        assert_eq!(taken(1_000_000), 10);
        let free = RequestRate::new(None, SteadyMillis(0));
        assert!((0..100_000).all(|_| free.take(SteadyMillis(0))));
    }
}
