//! Times as dates, in UTC.

use avfs_vfs::Timestamp;

const DAY: i64 = 86_400;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

pub(super) struct Date {
    year: i64,
    month: usize,
    day: i64,
    seconds: i64,
    nanos: u32,
}

impl Date {
    pub fn of(time: Timestamp) -> Date {
        let (mut day, seconds) = (time.seconds.div_euclid(DAY), time.seconds.rem_euclid(DAY));
        // Years of the Gregorian calendar repeat after 400 years, which begin in March here: a leap day is the last day.
        day += 719_468;
        let (cycle, of_cycle) = (day.div_euclid(146_097), day.rem_euclid(146_097));
        let year_of_cycle = (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
        let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let month = (month_from_march + 2) % 12;
        Date {
            year: year_of_cycle + cycle * 400 + i64::from(month < 2),
            month: month as usize,
            day: of_year - (153 * month_from_march + 2) / 5 + 1,
            seconds,
            nanos: time.nanos,
        }
    }

    fn clock(&self) -> String {
        format!("{:02}:{:02}", self.seconds / 3600, self.seconds / 60 % 60)
    }

    /// As in a listing: with the clock if it is less than half a year ago, else with the year.
    pub fn short(&self, is_recent: bool) -> String {
        let last = if is_recent {
            self.clock()
        } else {
            format!(" {}", self.year)
        };
        format!("{} {:>2} {last}", MONTHS[self.month], self.day)
    }

    /// `2026-01-31 12:00`
    pub fn minutes(&self) -> String {
        format!(
            "{:04}-{:02}-{:02} {}",
            self.year,
            self.month + 1,
            self.day,
            self.clock()
        )
    }

    /// `2026-01-31 12:00:00.000000000 +0000`
    pub fn whole(&self) -> String {
        format!(
            "{}:{:02}.{:09} +0000",
            self.minutes(),
            self.seconds % 60,
            self.nanos
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_dates() {
        for (seconds, date) in [
            (0_i64, "1970-01-01 00:00:00.000000000 +0000"),
            (-1, "1969-12-31 23:59:59.000000000 +0000"),
            (951_782_400, "2000-02-29 00:00:00.000000000 +0000"),
            (951_868_800, "2000-03-01 00:00:00.000000000 +0000"),
            (4_107_542_399, "2100-02-28 23:59:59.000000000 +0000"),
            (4_107_542_400, "2100-03-01 00:00:00.000000000 +0000"),
        ] {
            let time = Timestamp::from_nanos(i128::from(seconds) * 1_000_000_000);
            assert_eq!(Date::of(time).whole(), date);
        }
    }
}
