//! Decides when a thread yields and when it does not, from observations of it.

use std::time::{Duration, Instant};

use crate::transport::scheduling::ThreadPolicy;

/// How often a thread is examined.
pub(super) const PERIOD: Duration = Duration::from_millis(5);

/// This many requests in a period count as frequent.
pub(super) const MANY: u64 = 20;
/// The mean time that a request may wait for the CPU. While a caller continues after a request for which it
/// does not wait, our thread waits as well, as intended: such waits are shorter.
const PATIENCE: Duration = Duration::from_micros(200);
/// How long a thread that had to wait stays ordinary, at least and at most; the time doubles each time.
const ORDINARY_FOR: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(800)];
/// The same for a thread that cannot be rescued while it waits: a request that it is serving may wait for
/// half a second.
const HELPLESS_ORDINARY_FOR: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

/// The observations of a thread in a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadLook {
    pub served: u64,
    /// How long it waited for the CPU.
    pub waited: Duration,
    /// How often a request had a different caller than the one before.
    pub callers: u64,
    /// Another process may wait for a request although its caller does not.
    pub must_be_prompt: bool,
    /// Another thread that serves callers on all CPUs is busy for a different caller.
    pub is_helped: bool,
}

pub(super) struct Backoff {
    policy: ThreadPolicy,
    /// A thread that serves callers on all CPUs yields only to a single one.
    follows: bool,
    /// Until when it stays ordinary, and for how long that was.
    ordinary_until: Option<Instant>,
    ordinary_for: Duration,
    /// The minimum and the maximum of that time.
    bounds: [Duration; 2],
}

impl Backoff {
    pub(super) fn new(follows: bool) -> Backoff {
        Backoff::within(follows, ORDINARY_FOR)
    }

    /// For a thread that serves callers on all CPUs and can never be made ordinary.
    pub(super) fn helpless() -> Backoff {
        Backoff::within(true, HELPLESS_ORDINARY_FOR)
    }

    fn within(follows: bool, bounds: [Duration; 2]) -> Backoff {
        Backoff {
            policy: ThreadPolicy::Ordinary,
            follows,
            ordinary_until: None,
            ordinary_for: bounds[0],
            bounds,
        }
    }

    pub(super) fn policy(&self) -> ThreadPolicy {
        self.policy
    }

    pub(super) fn next(&mut self, now: Instant, look: &ThreadLook) -> ThreadPolicy {
        let served = u32::try_from(look.served).unwrap_or(u32::MAX);
        let has_waited = look.waited > PATIENCE.saturating_mul(served.saturating_add(1));
        let has_one_caller = !self.follows || (!look.is_helped && look.callers < look.served / 8);
        if has_waited {
            self.stay_ordinary(now);
        }
        let may = !look.must_be_prompt && self.ordinary_until.is_none_or(|until| until <= now);
        self.policy = match self.policy {
            ThreadPolicy::Ordinary if may && look.served >= MANY && has_one_caller => ThreadPolicy::Last,
            ThreadPolicy::Last if may && look.served > 0 && has_one_caller => ThreadPolicy::Last,
            _ => ThreadPolicy::Ordinary,
        };
        self.policy
    }

    /// Makes it ordinary from now on, for a while.
    pub(super) fn stand_up(&mut self, now: Instant) {
        let [least, _] = self.bounds;
        self.policy = ThreadPolicy::Ordinary;
        self.ordinary_until = self.ordinary_until.max(Some(now + least));
    }

    /// It got no time, and a request waited for it.
    pub(super) fn starved(&mut self, now: Instant) {
        self.policy = ThreadPolicy::Ordinary;
        self.stay_ordinary(now);
    }

    /// A thread that has to wait soon after the last time waits longer until the next attempt.
    fn stay_ordinary(&mut self, now: Instant) {
        let [least, most] = self.bounds;
        let is_again = self
            .ordinary_until
            .is_some_and(|until| now < until + 4 * self.ordinary_for);
        self.ordinary_for = if is_again {
            (2 * self.ordinary_for).min(most)
        } else {
            least
        };
        self.ordinary_until = Some(now + self.ordinary_for);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: ThreadLook = ThreadLook {
        served: 200,
        waited: Duration::from_millis(1),
        callers: 0,
        must_be_prompt: false,
        is_helped: false,
    };
    const QUIET: ThreadLook = ThreadLook {
        served: 0,
        waited: Duration::ZERO,
        ..BUSY
    };
    /// It got no time at all, and then everything that it had missed.
    const STARVED: ThreadLook = ThreadLook {
        served: 3,
        waited: Duration::from_millis(5),
        ..BUSY
    };

    /// The policy after each of some periods.
    fn policies(backoff: &mut Backoff, from: Instant, looks: &[ThreadLook]) -> Vec<ThreadPolicy> {
        let times = (1..).map(|period| from + PERIOD * period);
        times
            .zip(looks)
            .map(|(now, look)| backoff.next(now, look))
            .collect()
    }

    #[test]
    fn a_thread_gives_way_while_requests_come_thick_and_fast() {
        use ThreadPolicy::{Last, Ordinary};
        let few = ThreadLook {
            served: MANY - 1,
            ..BUSY
        };
        let looks = [few, BUSY, few, QUIET, few, BUSY];
        let policies = policies(&mut Backoff::new(false), Instant::now(), &looks);
        assert_eq!(policies, [Ordinary, Last, Last, Ordinary, Ordinary, Last]);
    }

    #[test]
    fn a_thread_that_had_to_wait_is_left_alone_each_time_for_longer() {
        let mut backoff = Backoff::new(false);
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert_eq!(backoff.next(now, &STARVED), ThreadPolicy::Ordinary);
            let begin = now;
            while backoff.next(now, &BUSY) == ThreadPolicy::Ordinary {
                now += Duration::from_millis(1);
            }
            pauses.push((now - begin).as_millis());
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 800, 800]);
        now += Duration::from_secs(10);
        assert_eq!(backoff.next(now, &STARVED), ThreadPolicy::Ordinary);
        assert_eq!(
            backoff.next(now + Duration::from_millis(50), &BUSY),
            ThreadPolicy::Last
        );
    }

    #[test]
    fn a_thread_that_cannot_be_helped_is_tried_again_much_later() {
        let mut backoff = Backoff::helpless();
        let now = Instant::now();
        assert_eq!(backoff.next(now, &BUSY), ThreadPolicy::Last);
        backoff.starved(now);
        assert_eq!(backoff.policy(), ThreadPolicy::Ordinary);
        let [least, most] = HELPLESS_ORDINARY_FOR;
        assert_eq!(backoff.next(now + least / 2, &BUSY), ThreadPolicy::Ordinary);
        assert_eq!(backoff.next(now + least, &BUSY), ThreadPolicy::Last);
        (0..10).for_each(|_| backoff.starved(now + least));
        assert_eq!(backoff.next(now + most, &BUSY), ThreadPolicy::Ordinary);
        assert_eq!(backoff.next(now + least + most, &BUSY), ThreadPolicy::Last);
    }

    #[test]
    fn a_thread_that_waits_and_serves_nothing_gives_way_no_longer() {
        let waits = ThreadLook {
            waited: PERIOD,
            ..QUIET
        };
        let policies = policies(&mut Backoff::new(false), Instant::now(), &[BUSY, waits, BUSY]);
        assert_eq!(
            policies,
            [ThreadPolicy::Last, ThreadPolicy::Ordinary, ThreadPolicy::Ordinary]
        );
    }

    #[test]
    fn a_thread_is_ordinary_while_it_must_be_prompt_and_a_while_after_it_stood_up() {
        let mut backoff = Backoff::new(false);
        let prompt = ThreadLook {
            must_be_prompt: true,
            ..BUSY
        };
        let now = Instant::now();
        let policies = policies(&mut backoff, now, &[BUSY, prompt, BUSY]);
        assert_eq!(
            policies,
            [ThreadPolicy::Last, ThreadPolicy::Ordinary, ThreadPolicy::Last]
        );
        backoff.stand_up(now);
        assert_eq!(backoff.policy(), ThreadPolicy::Ordinary);
        let [least, _] = ORDINARY_FOR;
        assert_eq!(backoff.next(now + least / 2, &BUSY), ThreadPolicy::Ordinary);
        assert_eq!(backoff.next(now + least, &BUSY), ThreadPolicy::Last);
    }

    #[test]
    fn thread_that_follows_yields_to_one_caller_only() {
        let many = ThreadLook { callers: 25, ..BUSY };
        let helped = ThreadLook {
            is_helped: true,
            ..BUSY
        };
        let looks = [many, BUSY, many, BUSY, helped];
        let of = |follows| policies(&mut Backoff::new(follows), Instant::now(), &looks);
        use ThreadPolicy::{Last, Ordinary};
        assert_eq!(of(true), [Ordinary, Last, Ordinary, Last, Ordinary]);
        assert_eq!(of(false), [Last; 5]);
    }
}
