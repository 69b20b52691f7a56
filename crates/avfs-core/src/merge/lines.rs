//! Three-way merge of texts, line by line, as git does it.
//!
//! Both sides are compared with the base. Changes that do not touch each other are all taken. Changes that
//! touch must be identical, or they conflict; a conflict is made as small as possible by removing lines on
//! which both sides agree.

mod markers;
mod regions;

use markers::MarkerWriter;
use regions::{DifferingRegion, RegionVerdict, regions};

use super::ConflictPolicy;

/// A NUL byte within this many bytes makes a file binary, as it does for git.
const PROBE: usize = 8000;

/// The names of the sides in conflict markers, and the style of the markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideNames {
    /// The name of our side.
    pub ours: String,
    /// The name of their side.
    pub theirs: String,
    /// The name of the common state.
    pub base: String,
    /// The form of the markers.
    pub style: MarkerStyle,
}

/// The form of the markers at lines that both sides changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkerStyle {
    /// Both sides.
    #[default]
    Merge,
    /// Both sides, with the lines of the base between them. Such conflicts are not made smaller, because the
    /// lines of the base belong to the whole conflict.
    Diff3,
    /// No markers and no conflicts: our lines are used where both changed the same lines.
    Ours,
    /// The same with their lines.
    Theirs,
}

/// A merged text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineMerge {
    /// With markers where there are conflicts.
    pub merged: Vec<u8>,
    /// The number of conflicts.
    pub conflicts: usize,
}

impl LineMerge {
    /// Whether it has no conflicts.
    pub fn is_clean(&self) -> bool {
        self.conflicts == 0
    }
}

/// Whether contents are merged line by line at all.
pub fn is_text(content: &[u8]) -> bool {
    !content[..content.len().min(PROBE)].contains(&0)
}

/// Merges the changes from `base` to `ours` and to `theirs`.
pub fn merge_lines(base: &[u8], ours: &[u8], theirs: &[u8], names: &SideNames) -> LineMerge {
    merge_with(base, ours, theirs, names, |_| names.style)
}

/// The same with a choice for each conflict, requested in the order of [`line_conflicts`]. Conflicts that are
/// marked look as `names` says.
pub fn merge_lines_choosing(
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    names: &SideNames,
    mut choose: impl FnMut(&LineConflict) -> ConflictPolicy,
) -> LineMerge {
    merge_with(base, ours, theirs, names, |region| {
        match choose(&LineConflict::from(region)) {
            ConflictPolicy::Mark => names.style,
            ConflictPolicy::Ours => MarkerStyle::Ours,
            ConflictPolicy::Theirs => MarkerStyle::Theirs,
        }
    })
}

fn merge_with(
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    names: &SideNames,
    style_of: impl FnMut(&DifferingRegion) -> MarkerStyle,
) -> LineMerge {
    if ours == theirs || base == theirs {
        return LineMerge {
            merged: ours.to_vec(),
            conflicts: 0,
        };
    }
    if base == ours {
        return LineMerge {
            merged: theirs.to_vec(),
            conflicts: 0,
        };
    }
    let [base, ours, theirs] = [base, ours, theirs].map(split);
    let regions = regions(&base, &ours, &theirs, style_of);
    let conflicts = regions
        .iter()
        .filter(|region| region.verdict == RegionVerdict::Conflict)
        .count();
    let merged = MarkerWriter {
        base: &base,
        ours: &ours,
        theirs: &theirs,
        names,
    }
    .write(&regions);
    LineMerge { merged, conflicts }
}

/// Lines that both sides changed in different ways: ranges of line numbers, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineConflict {
    /// The lines of the common state.
    pub base: std::ops::Range<usize>,
    /// Our lines.
    pub ours: std::ops::Range<usize>,
    /// Their lines.
    pub theirs: std::ops::Range<usize>,
}

impl From<&DifferingRegion> for LineConflict {
    fn from(region: &DifferingRegion) -> LineConflict {
        LineConflict {
            base: region.base.clone(),
            ours: region.ours.clone(),
            theirs: region.theirs.clone(),
        }
    }
}

/// The conflicts between the changes from `base` to `ours` and to `theirs`. Conflicts that share lines of the
/// base are combined.
pub fn line_conflicts(base: &[u8], ours: &[u8], theirs: &[u8]) -> Vec<LineConflict> {
    let [base, ours, theirs] = [base, ours, theirs].map(split);
    let regions = regions(&base, &ours, &theirs, |_| MarkerStyle::Diff3);
    let conflicts = regions
        .iter()
        .filter(|region| region.verdict == RegionVerdict::Conflict);
    conflicts.map(LineConflict::from).collect()
}

/// The lines of a text, each with its line feed, which the last one may lack.
fn split(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

#[cfg(test)]
mod tests;
