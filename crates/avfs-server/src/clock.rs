//! The time of day, as records have it, and the time that passes.
//!
//! Somebody sets the first one, a person or a program, and it may be wrong by years until then. What is to happen after so
//! many seconds goes by the second one, and records follow when the first one jumps.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::ClockId;

/// Milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// The present moment.
    pub fn now() -> UnixMillis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// This much later.
    pub fn after_seconds(self, seconds: u64) -> UnixMillis {
        let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        UnixMillis(self.0.saturating_add(millis))
    }
}

/// Milliseconds since the machine was started, also those in which it slept. Nobody sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SteadyMillis(pub i64);

impl SteadyMillis {
    pub fn now() -> SteadyMillis {
        let now = rustix::time::clock_gettime(ClockId::Boottime);
        // It counts the time in which the machine sleeps, and it cannot be set.
        SteadyMillis(now.tv_sec.saturating_mul(1000) + now.tv_nsec / 1_000_000)
    }
}

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub day: UnixMillis,
    pub steady: SteadyMillis,
}

impl Moment {
    pub fn now() -> Moment {
        Moment {
            day: UnixMillis::now(),
            steady: SteadyMillis::now(),
        }
    }

    /// When the clock that nobody sets will show what the time of day is expected to be then.
    pub fn steady_at(self, day: i64) -> SteadyMillis {
        SteadyMillis(self.steady.0.saturating_add(day.saturating_sub(self.day.0)))
    }

    /// By how much the time of day was set since another moment of the same run of the machine. A clock that goes a little
    /// fast or slow is not set.
    pub fn jump_since(self, before: Moment) -> Option<i64> {
        /// More than a second goes wrong between two looks.
        const SET: i64 = 2000;
        let of_day = self.day.0.saturating_sub(before.day.0);
        let jump = of_day.saturating_sub(self.steady.0 - before.steady.0);
        (jump.saturating_abs() >= SET).then_some(jump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(day: i64, steady: i64) -> Moment {
        Moment {
            day: UnixMillis(day),
            steady: SteadyMillis(steady),
        }
    }

    #[test]
    fn a_clock_that_was_set_is_told_from_one_that_goes() {
        let before = moment(1_000_000, 500);
        for (after, jump) in [
            (moment(1_005_000, 5_500), None),
            (moment(1_006_000, 5_500), None),
            (moment(1_065_000, 5_500), Some(60_000)),
            (moment(5_000, 5_500), Some(-1_000_000)),
            (moment(i64::MAX, 5_500), Some(i64::MAX - 1_000_000 - 5_000)),
        ] {
            assert_eq!(after.jump_since(before), jump, "{after:?}");
        }
    }

    #[test]
    fn a_time_of_day_has_a_place_on_the_steady_clock() {
        assert_eq!(moment(10_000, 300).steady_at(12_000), SteadyMillis(2_300));
        assert_eq!(moment(10_000, 300).steady_at(9_000), SteadyMillis(-700));
        assert!(moment(10_000, 300).steady_at(i64::MAX) > SteadyMillis(1 << 60));
    }
}
