//! The selected part of a task's changes: paths, and hunks of single files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use avfs_core::TreePath;
use bytes::Bytes;

use crate::error::ApplyError;
use avfs_query::patch::{Hunk, HunkLineKind, LineDiff, PatchOptions};

/// A hunk by its number, or one change in it: `2`, `2.1`. Both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HunkNumber {
    /// The number of the hunk in its file, from 1 on.
    pub hunk: usize,
    /// `None`: all of the hunk.
    pub change: Option<usize>,
}

impl From<usize> for HunkNumber {
    fn from(hunk: usize) -> HunkNumber {
        HunkNumber { hunk, change: None }
    }
}

impl fmt::Display for HunkNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.change {
            Some(change) => write!(f, "{}.{change}", self.hunk),
            None => write!(f, "{}", self.hunk),
        }
    }
}

impl FromStr for HunkNumber {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<HunkNumber, ParseIntError> {
        match text.split_once('.') {
            Some((hunk, change)) => Ok(HunkNumber {
                hunk: hunk.parse()?,
                change: Some(change.parse()?),
            }),
            None => Ok(HunkNumber {
                hunk: text.parse()?,
                change: None,
            }),
        }
    }
}

/// All changes, or some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// These files, and everything below these directories.
    pub paths: Vec<TreePath>,
    /// Of these files only the hunks with these numbers, from 1 on, as `avfs diff --patch` shows them.
    pub hunks: BTreeMap<TreePath, BTreeSet<HunkNumber>>,
}

impl Selection {
    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        self.paths.is_empty() && self.hunks.is_empty()
    }

    /// Whether the changes of a path are among them, or some of its hunks.
    pub fn wants(&self, path: &TreePath) -> bool {
        self.is_all() || self.hunks.contains_key(path) || self.paths.iter().any(|top| path.starts_with(top))
    }

    /// The text with the chosen hunks, and the others left out.
    pub(super) fn chosen(
        &self,
        path: &TreePath,
        before: &Bytes,
        after: &Bytes,
    ) -> Result<Option<Vec<u8>>, ApplyError> {
        let Some(numbers) = self.hunks.get(path) else {
            return Ok(None);
        };
        let hunks = LineDiff::compute(before, after, PatchOptions::default().context).hunks;
        if let Some((number, reason)) = numbers
            .iter()
            .find_map(|number| Some((number, unknown(*number, &hunks)?)))
        {
            let reason = format!("there is no hunk {number}: {reason}");
            return Err(ApplyError::BadHunks {
                path: path.clone(),
                reason,
            });
        }
        let lines: Vec<&[u8]> = before.split_inclusive(|byte| *byte == b'\n').collect();
        let mut text = Vec::with_capacity(after.len());
        let mut position = 0;
        for (index, hunk) in hunks.iter().enumerate() {
            let start = hunk.old.start as usize;
            debug_assert!(start >= position, "hunk {index} follows the one before");
            text.extend(lines[position..start].iter().copied().flatten());
            write_chosen(&mut text, hunk, index + 1, numbers);
            position = hunk.old.end as usize;
        }
        text.extend(lines[position..].iter().copied().flatten());
        Ok(Some(text))
    }
}

/// Why this number does not name a hunk or change.
fn unknown(number: HunkNumber, hunks: &[Hunk]) -> Option<String> {
    let Some(hunk) = number.hunk.checked_sub(1).and_then(|index| hunks.get(index)) else {
        return Some(format!("it has {}", hunks.len()));
    };
    let changes = hunk.changes().len();
    match number.change {
        Some(change) if !(1..=changes).contains(&change) => {
            Some(format!("hunk {} has {changes} changes", number.hunk))
        }
        Some(_) | None => None,
    }
}

/// The lines of one hunk with those of its changes that were chosen.
fn write_chosen(text: &mut Vec<u8>, hunk: &Hunk, number: usize, numbers: &BTreeSet<HunkNumber>) {
    let is_whole = numbers.contains(&HunkNumber::from(number));
    let mut position = 0;
    for (index, change) in hunk.changes().into_iter().enumerate() {
        let is_chosen = is_whole
            || numbers.contains(&HunkNumber {
                hunk: number,
                change: Some(index + 1),
            });
        let left_out = if is_chosen {
            HunkLineKind::Removed
        } else {
            HunkLineKind::Added
        };
        let lines = hunk.lines[position..change.end]
            .iter()
            .filter(|line| line.kind != left_out);
        text.extend(lines.flat_map(|line| line.text.iter().copied()));
        position = change.end;
    }
    text.extend(
        hunk.lines[position..]
            .iter()
            .flat_map(|line| line.text.iter().copied()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text.as_bytes()).unwrap()
    }

    #[track_caller]
    fn check(numbers: &[&str], expected: Option<&str>) {
        let old: String = (0..40).map(|n| format!("{n}\n")).collect();
        let new = old
            .replace("\n3\n", "\nthree\n")
            .replace("\n20\n", "\n")
            .replace("\n39\n", "\n39\nend\n");
        let new = new.replace("\n23\n", "\ntwenty-three\n");
        let selection = Selection {
            hunks: BTreeMap::from([(
                path("f"),
                numbers.iter().map(|number| number.parse().unwrap()).collect(),
            )]),
            ..Selection::default()
        };
        let chosen = selection.chosen(&path("f"), &Bytes::from(old.clone()), &Bytes::from(new));
        let added: Option<Vec<String>> = chosen.ok().flatten().map(|text| {
            let text = String::from_utf8(text).unwrap();
            let gone = old
                .lines()
                .filter(|line| !text.lines().any(|other| other == *line));
            let came = text
                .lines()
                .filter(|line| !old.lines().any(|other| other == *line));
            gone.map(|line| format!("-{line}"))
                .chain(came.map(|line| format!("+{line}")))
                .collect()
        });
        assert_eq!(added.map(|lines| lines.join(" ")).as_deref(), expected);
    }

    #[test]
    fn hunks_are_taken_by_number_and_the_rest_stays() {
        check(&["1"], Some("-3 +three"));
        check(&["2"], Some("-20 -23 +twenty-three"));
        check(&["3"], Some("+end"));
        check(&["1", "3"], Some("-3 +three +end"));
        check(&["1", "2", "3"], Some("-3 -20 -23 +three +twenty-three +end"));
        check(&[], Some(""));
        check(&["4"], None);
        check(&["0"], None);
    }

    #[test]
    fn changes_within_a_hunk_are_taken_by_number() {
        check(&["2.1"], Some("-20"));
        check(&["2.2"], Some("-23 +twenty-three"));
        check(&["1", "2.2", "3.1"], Some("-3 -23 +three +twenty-three +end"));
        check(&["2", "2.1"], Some("-20 -23 +twenty-three"));
        check(&["2.3"], None);
        check(&["2.0"], None);
    }

    #[test]
    fn a_directory_stands_for_what_is_below_it() {
        let selection = Selection {
            paths: vec![path("src")],
            ..Selection::default()
        };
        assert!(selection.wants(&path("src/a/b")) && selection.wants(&path("src")));
        assert!(!selection.wants(&path("srcs")) && !selection.wants(&path("a")));
        assert!(Selection::default().wants(&path("a")));
    }
}
