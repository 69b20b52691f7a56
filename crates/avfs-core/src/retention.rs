//! Which automatic snapshots are kept: all recent ones, then one per hour, then one per day.

use crate::entry::Timestamp;

/// How long automatic snapshots are kept, in seconds before now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRetention {
    /// Younger than this: all are kept.
    pub all: u64,
    /// Younger than this: the last of each hour is kept.
    pub hourly: u64,
    /// Younger than this: the last of each day is kept. Older ones are removed.
    pub daily: u64,
}

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

impl Default for SnapshotRetention {
    fn default() -> SnapshotRetention {
        SnapshotRetention {
            all: DAY as u64,
            hourly: 7 * DAY as u64,
            daily: 30 * DAY as u64,
        }
    }
}

impl SnapshotRetention {
    /// Decides for each snapshot, given newest first, whether it is kept.
    pub fn keeps(&self, newest_first: &[Timestamp], now: Timestamp) -> Vec<bool> {
        let mut last_kept: Option<(i64, i64)> = None;
        let mut decide = |time: &Timestamp| {
            let age = now.seconds.saturating_sub(time.seconds).max(0) as u64;
            let bucket = match age {
                age if age < self.all => return true,
                age if age < self.hourly => (HOUR, time.seconds.div_euclid(HOUR)),
                age if age < self.daily => (DAY, time.seconds.div_euclid(DAY)),
                _ => return false,
            };
            let first_of_bucket = last_kept != Some(bucket);
            last_kept = Some(bucket);
            first_of_bucket
        };
        newest_first.iter().map(&mut decide).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ages_in_minutes: &[i64], expected: &str) {
        let now = Timestamp {
            seconds: 100 * DAY,
            nanos: 0,
        };
        let times: Vec<Timestamp> = ages_in_minutes
            .iter()
            .map(|age| Timestamp {
                seconds: now.seconds - age * 60,
                nanos: 0,
            })
            .collect();
        let kept = SnapshotRetention::default().keeps(&times, now);
        let shown: String = kept
            .into_iter()
            .map(|kept| if kept { 'k' } else { '-' })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn everything_of_the_last_day_stays() {
        check(&[-5, 0, 1, 2, 3, 60, 1439], "kkkkkkk");
    }

    #[test]
    fn then_the_last_of_each_hour() {
        let day = 24 * 60;
        // `now` is on the hour: a snapshot from exactly a day ago starts an hour, one from a minute earlier
        // is in the hour before.
        check(&[day, day + 1, day + 59, day + 60, day + 61, day + 120], "kk--k-");
    }

    #[test]
    fn then_the_last_of_each_day_and_after_a_month_nothing() {
        let day = 24 * 60;
        check(
            &[
                8 * day + 1,
                8 * day + 2,
                9 * day + 1,
                29 * day,
                31 * day,
                400 * day,
            ],
            "k-kk--",
        );
    }
}
