//! Arguments that several commands share, checked while they are read.

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use avfs_core::{BadName, Timestamp, TreePath};
use clap::builder::{OsStringValueParser, TypedValueParser};
use jiff::tz::TimeZone;

use crate::revision::Revision;
use crate::time::{BadTime, now, parse_moment};

/// A path in a vault. Any bytes may be in it, so it is read from an `OsString`.
pub fn vault_path() -> impl TypedValueParser<Value = TreePath> {
    OsStringValueParser::new()
        .try_map(|raw: OsString| -> Result<TreePath, BadName> { TreePath::parse(raw.as_bytes()) })
}

/// `--at REV`: look at a past state instead of the present one.
#[derive(Clone, Debug, clap::Args)]
pub struct AtArg {
    /// Look at this revision instead of the present state
    #[arg(long, value_name = "REV", value_parser = Revision::parse)]
    pub at: Option<Revision>,
}

/// A moment, such as `2d` or `2026-05-01`.
pub fn moment(text: &str) -> Result<Timestamp, BadTime> {
    parse_moment(text, now(), &TimeZone::system())
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a range: write FIRST:LAST, FIRST: or :LAST")]
pub struct BadRange(String);

/// A range of lines, both ends included and counted from 1: `10:20`, `10:`, `:20`, `7`.
pub fn line_range(text: &str) -> Result<Range<u64>, BadRange> {
    let bad = || BadRange(text.to_owned());
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    let first = if first.is_empty() { 1 } else { first.parse().map_err(|_| bad())? };
    let end =
        if last.is_empty() { u64::MAX } else { last.parse::<u64>().map_err(|_| bad())?.saturating_add(1) };
    (first > 0 && first < end && text != ":" && !text.is_empty()).then_some(first..end).ok_or_else(bad)
}

/// A range of bytes, counted from 0, the end not included: `0:100`, `100:`, `:100`.
pub fn byte_range(text: &str) -> Result<Range<u64>, BadRange> {
    let bad = || BadRange(text.to_owned());
    let (start, end) = text.split_once(':').ok_or_else(bad)?;
    let start = if start.is_empty() { 0 } else { start.parse().map_err(|_| bad())? };
    let end = if end.is_empty() { u64::MAX } else { end.parse().map_err(|_| bad())? };
    (start <= end && text != ":").then_some(start..end).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ranges_include_both_ends() {
        let cases = [("10:20", 10..21), ("10:", 10..u64::MAX), (":20", 1..21), ("7", 7..8)];
        for (text, expected) in cases {
            assert_eq!(line_range(text), Ok(expected), "{text}");
        }
        for text in ["", ":", "0:3", "5:4", "a", "1:2:3", "-1:2"] {
            assert_eq!(line_range(text), Err(BadRange(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn byte_ranges_leave_out_the_end() {
        let cases = [("0:100", 0..100), ("100:", 100..u64::MAX), (":100", 0..100), ("5:5", 5..5)];
        for (text, expected) in cases {
            assert_eq!(byte_range(text), Ok(expected), "{text}");
        }
        for text in ["", ":", "7", "5:4", "a:b"] {
            assert_eq!(byte_range(text), Err(BadRange(text.to_owned())), "{text}");
        }
    }
}
