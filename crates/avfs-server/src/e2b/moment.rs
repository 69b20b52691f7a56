//! Times in RFC 3339, in UTC.

/// A moment in milliseconds since 1970.
pub(super) fn show(millis: i64) -> String {
    let (seconds, millis) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date that is so many days after 1970-01-01. Years begin in March here, so that the leap day is the last of them.
fn date(days: i64) -> (i64, i64, i64) {
    /// Days from 0000-03-01 to 1970-01-01, and of 400 years.
    const BEFORE: i64 = 719_468;
    const CYCLE: i64 = 146_097;
    let days = days + BEFORE;
    let (cycle, day) = (days.div_euclid(CYCLE), days.rem_euclid(CYCLE));
    let year = (day - day / 1460 + day / 36_524 - day / (CYCLE - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (carry, month) = if month < 10 {
        (0, month + 3)
    } else {
        (1, month - 9)
    };
    (cycle * 400 + year + carry, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_as_a_calendar_has_them() {
        for (millis, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_210_096_007, "2024-02-29T12:34:56.007Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_767_225_599_000, "2025-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(show(millis), shown);
        }
    }
}
