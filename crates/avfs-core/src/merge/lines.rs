//! Three-way merge of texts, line by line, as git does it.
//!
//! Both sides are compared with the base. Changes that do not touch each other are all taken. Where changes
//! touch, both must say the same, or there is a conflict, which is made as small as possible: lines at which
//! both sides agree are taken out of it.

mod markers;
mod regions;

use markers::Writer;
use regions::{Region, Verdict, regions};

/// A NUL byte within this many bytes makes a file binary, as it does for git.
const PROBE: usize = 8000;

/// What the sides are called in conflict markers, and how these look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    pub ours: String,
    pub theirs: String,
    pub base: String,
    pub style: MarkerStyle,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkerStyle {
    /// Both sides.
    #[default]
    Merge,
    /// Both sides, with what the base had between them. Such conflicts are not made smaller, because the
    /// lines of the base belong to all of it.
    Diff3,
    /// No markers, and no conflicts: we are right where both changed the same lines.
    Ours,
    /// The same for them.
    Theirs,
}

/// A merged text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineMerge {
    /// With markers where there are conflicts.
    pub merged: Vec<u8>,
    /// How many places are in conflict.
    pub conflicts: usize,
}

impl LineMerge {
    pub fn is_clean(&self) -> bool {
        self.conflicts == 0
    }
}

/// Whether a content is merged line by line at all.
pub fn is_text(content: &[u8]) -> bool {
    !content[..content.len().min(PROBE)].contains(&0)
}

/// Merges what `ours` and `theirs` made of `base`.
pub fn merge_lines(base: &[u8], ours: &[u8], theirs: &[u8], names: &Sides) -> LineMerge {
    if ours == theirs || base == theirs {
        return LineMerge { merged: ours.to_vec(), conflicts: 0 };
    }
    if base == ours {
        return LineMerge { merged: theirs.to_vec(), conflicts: 0 };
    }
    let [base, ours, theirs] = [base, ours, theirs].map(split);
    let regions = regions(&base, &ours, &theirs, names.style);
    let conflicts = regions.iter().filter(|region| region.verdict == Verdict::Conflict).count();
    let merged = Writer { base: &base, ours: &ours, theirs: &theirs, names }.write(&regions);
    LineMerge { merged, conflicts }
}

/// Where both sides changed the same lines, each in its own way: ranges of lines, from 0 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineConflict {
    pub base: std::ops::Range<usize>,
    pub ours: std::ops::Range<usize>,
    pub theirs: std::ops::Range<usize>,
}

/// The conflicts between what `ours` and `theirs` made of `base`. Those that share lines of the base are one.
pub fn line_conflicts(base: &[u8], ours: &[u8], theirs: &[u8]) -> Vec<LineConflict> {
    let [base, ours, theirs] = [base, ours, theirs].map(split);
    let regions = regions(&base, &ours, &theirs, MarkerStyle::Diff3);
    let conflicts = regions.into_iter().filter(|region| region.verdict == Verdict::Conflict);
    conflicts.map(|Region { base, ours, theirs, .. }| LineConflict { base, ours, theirs }).collect()
}

/// The lines of a text, each with its line feed, which the last one may lack.
fn split(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

#[cfg(test)]
mod tests;
