//! Times as people write and read them.

use std::fmt;
use std::time::Duration;

use avfs_core::Timestamp;
use jiff::civil;
use jiff::tz::TimeZone;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a length of time: write a number and a unit, such as 45s, 5m, 1h30m, 7d or 2w")]
pub struct BadSpan(String);

impl BadSpan {
    pub fn new(text: &str) -> BadSpan {
        BadSpan(text.to_owned())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a time: write an age such as 2d, a date such as 2026-05-01, or '2026-05-01 12:30'")]
pub struct BadTime(String);

const SECOND_UNITS: [(char, u64); 5] = [('w', 604_800), ('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

pub fn now() -> Timestamp {
    Timestamp::from_nanos(jiff::Timestamp::now().as_nanosecond())
}

/// Reads a length of time such as `500ms`, `90s`, `5m`, `1h30m`, `7d`, `2w`.
pub fn parse_span(text: &str) -> Result<Duration, BadSpan> {
    let read = || {
        let mut left = text;
        let mut span = Duration::ZERO;
        // The smallest unit so far: a larger one after it, or the same one again, is a mistake.
        let mut smallest = Duration::MAX;
        while !left.is_empty() {
            let digits = left.find(|c: char| !c.is_ascii_digit())?;
            let (count, rest) = left.split_at(digits);
            let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let (unit, rest) = rest.split_at(letters);
            let unit = unit_named(unit).filter(|unit| *unit < smallest)?;
            span = span.checked_add(unit.checked_mul(count.parse().ok()?)?)?;
            (smallest, left) = (unit, rest);
        }
        Some(span).filter(|_| !text.is_empty())
    };
    read().ok_or_else(|| BadSpan(text.to_owned()))
}

fn unit_named(name: &str) -> Option<Duration> {
    if name == "ms" {
        return Some(Duration::from_millis(1));
    }
    let is_named = |(unit, _): &&(char, u64)| name.chars().eq([*unit]);
    SECOND_UNITS
        .iter()
        .find(is_named)
        .map(|(_, seconds)| Duration::from_secs(*seconds))
}

/// A duration in a flag where a bare number means seconds.
pub fn span_or_seconds(text: &str) -> Result<Duration, BadSpan> {
    text.parse()
        .map(Duration::from_secs)
        .or_else(|_| parse_span(text))
}

/// A duration in a flag where a bare number means milliseconds.
pub fn span_or_milliseconds(text: &str) -> Result<Duration, BadSpan> {
    text.parse()
        .map(Duration::from_millis)
        .or_else(|_| parse_span(text))
}

/// Shows a length of time in the largest unit that divides it: the inverse of [`parse_span`].
/// Weeks are shown as days, which people compare more easily.
pub fn show_span(span: Duration) -> String {
    let seconds = span.as_secs();
    let mut units = SECOND_UNITS.iter().filter(|(name, _)| *name != 'w');
    match units.find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", seconds / unit),
        None => "0s".to_owned(),
    }
}

/// Reads a moment: an age before `now`, a date, a local date and time, or RFC 3339.
pub fn parse_moment(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, BadTime> {
    let bad = || BadTime(text.to_owned());
    if let Ok(age) = parse_span(text) {
        return Ok(Timestamp::from_nanos(now.as_nanos() - age.as_nanos() as i128));
    }
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Ok(Timestamp::from_nanos(moment.as_nanosecond()));
    }
    let local: civil::DateTime = text.parse().map_err(|_| bad())?;
    let moment = local.to_zoned(zone.clone()).map_err(|_| bad())?;
    Ok(Timestamp::from_nanos(moment.timestamp().as_nanosecond()))
}

/// The age of `then` in words: `just now`, `5 minutes ago`, `in the future`.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    pub then: Timestamp,
    pub now: Timestamp,
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] = [
            (31_557_600, "year"),
            (2_629_800, "month"),
            (604_800, "week"),
            (86_400, "day"),
            (3600, "hour"),
            (60, "minute"),
        ];
        let Ok(seconds) = u64::try_from(self.now.seconds.saturating_sub(self.then.seconds)) else {
            return f.pad("in the future");
        };
        match UNITS.iter().find(|(unit, _)| seconds >= *unit) {
            Some((unit, name)) => {
                let count = seconds / unit;
                let plural = if count == 1 { "" } else { "s" };
                f.pad(&format!("{count} {name}{plural} ago"))
            }
            None => f.pad("just now"),
        }
    }
}

/// A moment as local date and time, to the second: `2026-05-01 12:30:05`.
pub fn show_local(moment: Timestamp, zone: &TimeZone) -> String {
    match to_jiff(moment) {
        Some(time) => time
            .to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        None => out_of_calendar(moment),
    }
}

/// A moment as local date and time without blanks, for names: `20260501-123005`.
pub fn show_compact(moment: Timestamp, zone: &TimeZone) -> String {
    match to_jiff(moment) {
        Some(time) => time.to_zoned(zone.clone()).strftime("%Y%m%d-%H%M%S").to_string(),
        None => moment.seconds.to_string(),
    }
}

/// A moment in RFC 3339, in UTC, with as many digits as it needs: the form of all times in JSON.
pub fn show_rfc3339(moment: Timestamp) -> String {
    to_jiff(moment).map_or_else(|| out_of_calendar(moment), |time| time.to_string())
}

fn to_jiff(moment: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_nanosecond(moment.as_nanos()).ok()
}

/// File times may be outside of the years -9999 to 9999; they are shown as seconds, in the notation of `date
/// +@%s`.
fn out_of_calendar(moment: Timestamp) -> String {
    format!("@{}.{:09}", moment.seconds, moment.nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp {
        seconds: 1_777_636_800,
        nanos: 500_000_000,
    }; // 2026-05-01 12:00 UTC

    #[test]
    fn spans_read_back_in_their_largest_unit() {
        let cases = [
            ("45s", "45s"),
            ("120s", "2m"),
            ("12h", "12h"),
            ("48h", "2d"),
            ("2w", "14d"),
            ("0d", "0s"),
        ];
        for (text, expected) in cases {
            assert_eq!(show_span(parse_span(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn invalid_duration_is_refused_by_name() {
        let huge = "99999999999999999999d";
        for text in [
            "", "d", "1", "1y", "-1d", "1.5d", "1 d", huge, "1ü", "30m1h", "1h1h", "1h30", "h30m",
        ] {
            assert_eq!(parse_span(text), Err(BadSpan(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_bare_number_has_the_unit_of_its_flag() {
        for (text, seconds) in [("90s", 90), ("5m", 300), ("1h30m", 5400), ("1d2h", 93_600)] {
            let span = Duration::from_secs(seconds);
            assert_eq!(
                [
                    parse_span(text),
                    span_or_seconds(text),
                    span_or_milliseconds(text)
                ],
                [Ok(span), Ok(span), Ok(span)]
            );
        }
        assert_eq!(parse_span("1s500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(span_or_seconds("90"), Ok(Duration::from_secs(90)));
        assert_eq!(span_or_milliseconds("90"), Ok(Duration::from_millis(90)));
        assert_eq!(span_or_seconds("1.5"), Err(BadSpan("1.5".to_owned())));
    }

    #[track_caller]
    fn check_moment(text: &str, expected: &str) {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let shown = parse_moment(text, NOW, &zone).map(show_rfc3339);
        assert_eq!(shown.unwrap_or_else(|error| error.to_string()), expected);
    }

    #[test]
    fn a_moment_is_an_age_a_date_or_a_time() {
        check_moment("2d", "2026-04-29T12:00:00.5Z");
        check_moment("2026-05-01", "2026-04-30T22:00:00Z");
        check_moment("2026-05-01 12:30", "2026-05-01T10:30:00Z");
        check_moment("2026-05-01T12:30:00Z", "2026-05-01T12:30:00Z");
        let refusal = "'soon' is not a time: write an age such as 2d, a date such as 2026-05-01, or \
                       '2026-05-01 12:30'";
        check_moment("soon", refusal);
    }

    #[test]
    fn ages_are_told_in_their_largest_unit() {
        let cases = [
            (-5, "in the future"),
            (0, "just now"),
            (59, "just now"),
            (60, "1 minute ago"),
            (7300, "2 hours ago"),
            (86_400 * 6, "6 days ago"),
            (86_400 * 400, "1 year ago"),
        ];
        for (seconds, expected) in cases {
            let then = Timestamp {
                seconds: NOW.seconds - seconds,
                nanos: 0,
            };
            assert_eq!(Age { then, now: NOW }.to_string(), expected);
        }
    }

    #[test]
    fn a_time_outside_the_calendar_is_still_shown() {
        let far = Timestamp {
            seconds: i64::MAX,
            nanos: 1,
        };
        assert_eq!(show_rfc3339(far), "@9223372036854775807.000000001");
        assert_eq!(show_local(NOW, &TimeZone::UTC), "2026-05-01 12:00:00");
        assert_eq!(show_compact(NOW, &TimeZone::UTC), "20260501-120000");
    }
}
