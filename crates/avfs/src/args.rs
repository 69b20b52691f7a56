//! Arguments that several commands share, checked while they are read.

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use avfs_core::{BadName, Timestamp, TreePath};
use clap::builder::{OsStringValueParser, TypedValueParser};
use jiff::tz::TimeZone;

use crate::escape::printable;
use crate::revision::RevisionArg;
use crate::time::{BadTime, now, parse_moment};

/// A path as typed. Its meaning depends on the current directory and on the vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArg {
    is_from_root: bool,
    /// How many directories it goes up before it goes down.
    up: usize,
    down: TreePath,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' leads out of the vault")]
pub struct LeadsOut(PathArg);

impl PathArg {
    pub fn parse(raw: &[u8]) -> Result<PathArg, BadName> {
        if let Some(below) = raw.strip_prefix(b":/").or_else(|| raw.strip_prefix(b"/")) {
            return Ok(PathArg {
                is_from_root: true,
                up: 0,
                down: TreePath::parse(below)?,
            });
        }
        let (mut up, mut rest) = (0, raw);
        loop {
            let (first, behind) = match rest.iter().position(|byte| *byte == b'/') {
                Some(slash) => (&rest[..slash], &rest[slash + 1..]),
                None => (rest, &[][..]),
            };
            match first {
                b".." => up += 1,
                b"." | b"" if !rest.is_empty() => {}
                _ => break,
            }
            rest = behind;
        }
        Ok(PathArg {
            is_from_root: false,
            up,
            down: TreePath::parse(rest)?,
        })
    }

    /// The path that is meant if the current directory is `here` in the vault.
    pub fn from(&self, here: &TreePath) -> Result<TreePath, LeadsOut> {
        if self.is_from_root {
            return Ok(self.down.clone());
        }
        let mut above = here.clone();
        for _ in 0..self.up {
            above = above.split_last().ok_or_else(|| LeadsOut(self.clone()))?.0;
        }
        Ok(above.join_path(&self.down))
    }

    /// Whether its meaning is independent of the current directory.
    pub fn is_from_root(&self) -> bool {
        self.is_from_root
    }

    /// Whether it may also be a name of something else.
    pub fn is_plain(&self) -> bool {
        !self.is_from_root && self.up == 0
    }
}

impl fmt::Display for PathArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.is_from_root { "/" } else { "" };
        let up = "../".repeat(self.up);
        let path = format!("{slash}{up}{}", printable(self.down.as_bytes()));
        f.write_str(if self.down.is_root() && self.up > 0 {
            path.trim_end_matches('/')
        } else {
            &path
        })
    }
}

/// A path of a vault. Any bytes may be in it, so it is read from an `OsString`.
pub fn path_arg() -> impl TypedValueParser<Value = PathArg> {
    OsStringValueParser::new()
        .try_map(|raw: OsString| -> Result<PathArg, BadName> { PathArg::parse(raw.as_bytes()) })
}

/// `--at REV`: look at a past state instead of the present one.
#[derive(Clone, Debug, clap::Args)]
pub struct AtArg {
    /// Use this revision instead of the current state
    #[arg(long, value_name = "REV", value_parser = RevisionArg::parse)]
    pub at: Option<RevisionArg>,
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
    let first = if first.is_empty() {
        1
    } else {
        first.parse().map_err(|_| bad())?
    };
    let end = if last.is_empty() {
        u64::MAX
    } else {
        last.parse::<u64>().map_err(|_| bad())?.saturating_add(1)
    };
    (first > 0 && first < end && text != ":" && !text.is_empty())
        .then_some(first..end)
        .ok_or_else(bad)
}

/// A range of bytes, counted from 0, the end not included: `0:100`, `100:`, `:100`.
pub fn byte_range(text: &str) -> Result<Range<u64>, BadRange> {
    let bad = || BadRange(text.to_owned());
    let (start, end) = text.split_once(':').ok_or_else(bad)?;
    let start = if start.is_empty() {
        0
    } else {
        start.parse().map_err(|_| bad())?
    };
    let end = if end.is_empty() {
        u64::MAX
    } else {
        end.parse().map_err(|_| bad())?
    };
    (start <= end && text != ":")
        .then_some(start..end)
        .ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_path(raw: &str, here: &str, expected: Option<&str>) {
        let here = TreePath::parse(here.as_bytes()).unwrap();
        let path = PathArg::parse(raw.as_bytes())
            .ok()
            .and_then(|path| path.from(&here).ok());
        assert_eq!(
            path.map(|path| path.to_string()).as_deref(),
            expected,
            "{raw} in {here}"
        );
    }

    #[test]
    fn paths_are_meant_from_the_directory_unless_they_begin_with_a_slash() {
        check_path("a", "", Some("/a"));
        check_path("a/./b", "src", Some("/src/a/b"));
        check_path("/a", "src", Some("/a"));
        check_path(":/a", "src", Some("/a"));
        check_path(":/", "src", Some("/"));
        check_path(".", "src", Some("/src"));
        check_path("../a", "src/deep", Some("/src/a"));
        check_path("./../../x", "src/deep", Some("/x"));
        check_path("../../..", "src/deep", None);
        check_path("a/../b", "src", None);
        check_path("..", "", None);
        check_path("/..", "src", None);
        check_path(":a", "src", Some("/src/:a"));
    }

    #[test]
    fn line_ranges_include_both_ends() {
        let cases = [
            ("10:20", 10..21),
            ("10:", 10..u64::MAX),
            (":20", 1..21),
            ("7", 7..8),
        ];
        for (text, expected) in cases {
            assert_eq!(line_range(text), Ok(expected), "{text}");
        }
        for text in ["", ":", "0:3", "5:4", "a", "1:2:3", "-1:2"] {
            assert_eq!(line_range(text), Err(BadRange(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn byte_ranges_leave_out_the_end() {
        let cases = [
            ("0:100", 0..100),
            ("100:", 100..u64::MAX),
            (":100", 0..100),
            ("5:5", 5..5),
        ];
        for (text, expected) in cases {
            assert_eq!(byte_range(text), Ok(expected), "{text}");
        }
        for text in ["", ":", "7", "5:4", "a:b"] {
            assert_eq!(byte_range(text), Err(BadRange(text.to_owned())), "{text}");
        }
    }
}
