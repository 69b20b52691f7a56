//! When a thread gives way and when it does not, from what was seen of it.

use std::time::{Duration, Instant};

use crate::transport::scheduling::Policy;

/// How often a thread is looked at.
pub const PERIOD: Duration = Duration::from_millis(5);

/// So many requests in a period come thick and fast.
pub const MANY: u64 = 20;
/// Longer than this a request should not wait for the CPU in the mean. While a caller goes on after a request that it
/// does not wait for, our thread waits as well, which is as it should be: such waits are shorter.
const PATIENCE: Duration = Duration::from_micros(200);
/// How long a thread that had to wait stays as it is, at least and at most; each time twice as long.
const ORDINARY_FOR: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(800)];
/// The same where a thread that waits cannot be helped: what it serves at that moment may wait for half a second.
const HELPLESS_ORDINARY_FOR: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

/// What was seen of a thread in a period.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    pub served: u64,
    /// How long it waited for the CPU.
    pub waited: Duration,
    /// How often a request was not of the same caller as the one before.
    pub callers: u64,
    /// Somebody may wait for what a caller does not wait for.
    pub must_be_prompt: bool,
    /// Another thread that serves callers on all CPUs is busy for another one.
    pub is_helped: bool,
}

pub struct Pace {
    policy: Policy,
    /// A thread that serves callers on all CPUs gives way only to one of them.
    follows: bool,
    /// Until when it stays ordinary, and for how long that was.
    ordinary_until: Option<Instant>,
    ordinary_for: Duration,
    /// The least and the most of that.
    bounds: [Duration; 2],
}

impl Pace {
    pub fn new(follows: bool) -> Pace {
        Pace::within(follows, ORDINARY_FOR)
    }

    /// Of a thread that serves callers on all CPUs and can never be made ordinary.
    pub fn helpless() -> Pace {
        Pace::within(true, HELPLESS_ORDINARY_FOR)
    }

    fn within(follows: bool, bounds: [Duration; 2]) -> Pace {
        Pace { policy: Policy::Ordinary, follows, ordinary_until: None, ordinary_for: bounds[0], bounds }
    }

    pub fn policy(&self) -> Policy {
        self.policy
    }

    pub fn next(&mut self, now: Instant, look: &Look) -> Policy {
        let served = u32::try_from(look.served).unwrap_or(u32::MAX);
        let has_waited = look.waited > PATIENCE.saturating_mul(served.saturating_add(1));
        let has_one_caller = !self.follows || (!look.is_helped && look.callers < look.served / 8);
        if has_waited {
            self.stay_ordinary(now);
        }
        let may = !look.must_be_prompt && self.ordinary_until.is_none_or(|until| until <= now);
        self.policy = match self.policy {
            Policy::Ordinary if may && look.served >= MANY && has_one_caller => Policy::Last,
            Policy::Last if may && look.served > 0 && has_one_caller => Policy::Last,
            _ => Policy::Ordinary,
        };
        self.policy
    }

    /// It is ordinary from now on, and for a while.
    pub fn stand_up(&mut self, now: Instant) {
        let [least, _] = self.bounds;
        self.policy = Policy::Ordinary;
        self.ordinary_until = self.ordinary_until.max(Some(now + least));
    }

    /// It got no time, and a request waited for it.
    pub fn starved(&mut self, now: Instant) {
        self.policy = Policy::Ordinary;
        self.stay_ordinary(now);
    }

    /// Who has to wait soon after the last time waits longer for the next try.
    fn stay_ordinary(&mut self, now: Instant) {
        let [least, most] = self.bounds;
        let is_again = self.ordinary_until.is_some_and(|until| now < until + 4 * self.ordinary_for);
        self.ordinary_for = if is_again { (2 * self.ordinary_for).min(most) } else { least };
        self.ordinary_until = Some(now + self.ordinary_for);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Look = Look {
        served: 200,
        waited: Duration::from_millis(1),
        callers: 0,
        must_be_prompt: false,
        is_helped: false,
    };
    const QUIET: Look = Look { served: 0, waited: Duration::ZERO, ..BUSY };
    /// It got no time at all, and then all that it had missed.
    const STARVED: Look = Look { served: 3, waited: Duration::from_millis(5), ..BUSY };

    /// The policy after each of some periods.
    fn policies(pace: &mut Pace, from: Instant, looks: &[Look]) -> Vec<Policy> {
        let times = (1..).map(|period| from + PERIOD * period);
        times.zip(looks).map(|(now, look)| pace.next(now, look)).collect()
    }

    #[test]
    fn a_thread_gives_way_while_requests_come_thick_and_fast() {
        use Policy::{Last, Ordinary};
        let few = Look { served: MANY - 1, ..BUSY };
        let looks = [few, BUSY, few, QUIET, few, BUSY];
        let policies = policies(&mut Pace::new(false), Instant::now(), &looks);
        assert_eq!(policies, [Ordinary, Last, Last, Ordinary, Ordinary, Last]);
    }

    #[test]
    fn a_thread_that_had_to_wait_is_left_alone_each_time_for_longer() {
        let (mut pace, mut now) = (Pace::new(false), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert_eq!(pace.next(now, &STARVED), Policy::Ordinary);
            let begin = now;
            while pace.next(now, &BUSY) == Policy::Ordinary {
                now += Duration::from_millis(1);
            }
            pauses.push((now - begin).as_millis());
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 800, 800]);
        now += Duration::from_secs(10);
        assert_eq!(pace.next(now, &STARVED), Policy::Ordinary);
        assert_eq!(pace.next(now + Duration::from_millis(50), &BUSY), Policy::Last);
    }

    #[test]
    fn a_thread_that_cannot_be_helped_is_tried_again_much_later() {
        let (mut pace, now) = (Pace::helpless(), Instant::now());
        assert_eq!(pace.next(now, &BUSY), Policy::Last);
        pace.starved(now);
        assert_eq!(pace.policy(), Policy::Ordinary);
        let [least, most] = HELPLESS_ORDINARY_FOR;
        assert_eq!(pace.next(now + least / 2, &BUSY), Policy::Ordinary);
        assert_eq!(pace.next(now + least, &BUSY), Policy::Last);
        (0..10).for_each(|_| pace.starved(now + least));
        assert_eq!(pace.next(now + most, &BUSY), Policy::Ordinary);
        assert_eq!(pace.next(now + least + most, &BUSY), Policy::Last);
    }

    #[test]
    fn a_thread_that_waits_and_serves_nothing_gives_way_no_longer() {
        let waits = Look { waited: PERIOD, ..QUIET };
        let policies = policies(&mut Pace::new(false), Instant::now(), &[BUSY, waits, BUSY]);
        assert_eq!(policies, [Policy::Last, Policy::Ordinary, Policy::Ordinary]);
    }

    #[test]
    fn a_thread_is_ordinary_while_it_must_be_prompt_and_a_while_after_it_stood_up() {
        let (mut pace, prompt) = (Pace::new(false), Look { must_be_prompt: true, ..BUSY });
        let now = Instant::now();
        let policies = policies(&mut pace, now, &[BUSY, prompt, BUSY]);
        assert_eq!(policies, [Policy::Last, Policy::Ordinary, Policy::Last]);
        pace.stand_up(now);
        assert_eq!(pace.policy(), Policy::Ordinary);
        let [least, _] = ORDINARY_FOR;
        assert_eq!(pace.next(now + least / 2, &BUSY), Policy::Ordinary);
        assert_eq!(pace.next(now + least, &BUSY), Policy::Last);
    }

    #[test]
    fn who_follows_gives_way_to_one_caller_only() {
        let (many, helped) = (Look { callers: 25, ..BUSY }, Look { is_helped: true, ..BUSY });
        let looks = [many, BUSY, many, BUSY, helped];
        let of = |follows| policies(&mut Pace::new(follows), Instant::now(), &looks);
        use Policy::{Last, Ordinary};
        assert_eq!(of(true), [Ordinary, Last, Ordinary, Last, Ordinary]);
        assert_eq!(of(false), [Last; 5]);
    }
}
