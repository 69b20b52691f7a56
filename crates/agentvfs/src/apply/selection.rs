//! What of a task's changes is wanted: paths, and hunks of single files.

use std::collections::{BTreeMap, BTreeSet};

use avfs_core::TreePath;
use bytes::Bytes;

use super::error::ApplyError;
use crate::patch::{HunkLineKind, LineDiff, PatchOptions};

/// All changes, or some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// These files, and what is below these directories.
    pub paths: Vec<TreePath>,
    /// Of these files only the hunks with these numbers, from 1 on, as `avfs diff --patch` shows them.
    pub hunks: BTreeMap<TreePath, BTreeSet<usize>>,
}

impl Selection {
    pub fn is_all(&self) -> bool {
        self.paths.is_empty() && self.hunks.is_empty()
    }

    pub fn wants(&self, path: &TreePath) -> bool {
        self.is_all() || self.hunks.contains_key(path) || self.paths.iter().any(|top| path.starts_with(top))
    }

    /// The text with the chosen hunks of what differs, and the others left out.
    pub(super) fn chosen(
        &self,
        path: &TreePath,
        before: &Bytes,
        after: &Bytes,
    ) -> Result<Option<Vec<u8>>, ApplyError> {
        let Some(numbers) = self.hunks.get(path) else { return Ok(None) };
        let hunks = LineDiff::compute(before, after, PatchOptions::default().context).hunks;
        if let Some(number) = numbers.iter().find(|number| !(1..=hunks.len()).contains(*number)) {
            let reason = format!("there is no hunk {number}: it has {}", hunks.len());
            return Err(ApplyError::BadHunks { path: path.clone(), reason });
        }
        let lines: Vec<&[u8]> = before.split_inclusive(|byte| *byte == b'\n').collect();
        let mut text = Vec::with_capacity(after.len());
        let mut position = 0;
        for (index, hunk) in hunks.iter().enumerate().filter(|(index, _)| numbers.contains(&(index + 1))) {
            let start = hunk.old.start as usize;
            debug_assert!(start >= position, "hunk {index} follows the one before");
            text.extend(lines[position..start].iter().copied().flatten());
            let taken = hunk.lines.iter().filter(|line| line.kind != HunkLineKind::Removed);
            text.extend(taken.flat_map(|line| line.text.iter().copied()));
            position = hunk.old.end as usize;
        }
        text.extend(lines[position..].iter().copied().flatten());
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text.as_bytes()).unwrap()
    }

    #[track_caller]
    fn check(numbers: &[usize], expected: Option<&str>) {
        let old: String = (0..40).map(|n| format!("{n}\n")).collect();
        let new = old.replace("\n3\n", "\nthree\n").replace("\n20\n", "\n").replace("\n39\n", "\n39\nend\n");
        let selection = Selection {
            hunks: BTreeMap::from([(path("f"), numbers.iter().copied().collect())]),
            ..Selection::default()
        };
        let chosen = selection.chosen(&path("f"), &Bytes::from(old.clone()), &Bytes::from(new));
        let added: Option<Vec<String>> = chosen.ok().flatten().map(|text| {
            let text = String::from_utf8(text).unwrap();
            let gone = old.lines().filter(|line| !text.lines().any(|other| other == *line));
            let came = text.lines().filter(|line| !old.lines().any(|other| other == *line));
            gone.map(|line| format!("-{line}")).chain(came.map(|line| format!("+{line}"))).collect()
        });
        assert_eq!(added.map(|lines| lines.join(" ")).as_deref(), expected);
    }

    #[test]
    fn hunks_are_taken_by_number_and_the_rest_stays() {
        check(&[1], Some("-3 +three"));
        check(&[2], Some("-20"));
        check(&[3], Some("+end"));
        check(&[1, 3], Some("-3 +three +end"));
        check(&[1, 2, 3], Some("-3 -20 +three +end"));
        check(&[], Some(""));
        check(&[4], None);
        check(&[0], None);
    }

    #[test]
    fn a_directory_stands_for_what_is_below_it() {
        let selection = Selection { paths: vec![path("src")], ..Selection::default() };
        assert!(selection.wants(&path("src/a/b")) && selection.wants(&path("src")));
        assert!(!selection.wants(&path("srcs")) && !selection.wants(&path("a")));
        assert!(Selection::default().wants(&path("a")));
    }
}
