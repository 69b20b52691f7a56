//! The lines that differ between two texts, as hunks.

use std::ops::Range;

use bytes::Bytes;
use imara_diff::sources::byte_lines;
use imara_diff::{Algorithm, Diff, InternedInput};

/// Texts with more lines than this together are compared in another way.
const HISTOGRAM_MAX: usize = 20_000;

/// Two texts compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineDiff {
    /// Lines that are new.
    pub insertions: u32,
    /// Lines that are gone.
    pub deletions: u32,
    /// The changed lines, in order.
    pub hunks: Vec<Hunk>,
}

/// Changed lines that are near each other, with unchanged ones around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Which lines of the old and of the new text these are, from 0 on.
    pub old: Range<u32>,
    /// The lines of the new text.
    pub new: Range<u32>,
    /// The lines, those that are gone before those that replace them.
    pub lines: Vec<HunkLine>,
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// On which side it is.
    pub kind: HunkLineKind,
    /// With the line feed at its end, which only the last line of a text may lack.
    pub text: Bytes,
}

/// On which side a line of a hunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HunkLineKind {
    /// On both.
    Context,
    /// On the old side only.
    Removed,
    /// On the new side only.
    Added,
}

impl Hunk {
    /// The runs of changed lines between unchanged ones, as ranges of its lines.
    pub fn changes(&self) -> Vec<Range<usize>> {
        let is_changed = |line: &HunkLine| line.kind != HunkLineKind::Context;
        let mut changes: Vec<Range<usize>> = Vec::new();
        for (index, _) in self.lines.iter().enumerate().filter(|(_, line)| is_changed(line)) {
            match changes.last_mut() {
                Some(last) if last.end == index => last.end += 1,
                _ => changes.push(index..index + 1),
            }
        }
        changes
    }

    /// One hunk for each change in it. The unchanged lines between two changes are in both of their hunks.
    pub fn split(&self, context: usize) -> Vec<Hunk> {
        let is_context = |line: &&HunkLine| line.kind == HunkLineKind::Context;
        let piece = |change: Range<usize>| {
            let before = self.lines[..change.start]
                .iter()
                .rev()
                .take_while(is_context)
                .count()
                .min(context);
            let after = self.lines[change.end..]
                .iter()
                .take_while(is_context)
                .count()
                .min(context);
            self.piece(change.start - before..change.end + after)
        };
        self.changes().into_iter().map(piece).collect()
    }

    fn piece(&self, range: Range<usize>) -> Hunk {
        let count =
            |lines: &[HunkLine], without| lines.iter().filter(|line| line.kind != without).count() as u32;
        let place = |start: u32, without| {
            let start = start + count(&self.lines[..range.start], without);
            start..start + count(&self.lines[range.clone()], without)
        };
        Hunk {
            old: place(self.old.start, HunkLineKind::Added),
            new: place(self.new.start, HunkLineKind::Removed),
            lines: self.lines[range.clone()].to_vec(),
        }
    }
}

impl LineDiff {
    /// Compares two texts. `context`: how many unchanged lines to show around changed ones.
    pub fn compute(old: &Bytes, new: &Bytes, context: u32) -> LineDiff {
        let input = InternedInput::new(byte_lines(old), byte_lines(new));
        let mut diff = Diff::compute(algorithm(&input), &input);
        diff.postprocess_lines(&input);
        let (old_lines, new_lines) = (split(old), split(new));
        let groups = group(&diff, context);
        let hunks = groups
            .into_iter()
            .map(|group| hunk(&group, &old_lines, &new_lines, context));
        LineDiff {
            insertions: diff.count_additions(),
            deletions: diff.count_removals(),
            hunks: hunks.collect(),
        }
    }
}

/// The histogram finds the hunks that people would see, but its time grows with the square of a long list of small
/// changes.
fn algorithm(input: &InternedInput<&[u8]>) -> Algorithm {
    match input.before.len() + input.after.len() {
        0..=HISTOGRAM_MAX => Algorithm::Histogram,
        _ => Algorithm::Myers,
    }
}

/// How many lines were added and removed, without their texts.
pub(super) fn count(old: &[u8], new: &[u8]) -> (u32, u32) {
    let input = InternedInput::new(byte_lines(old), byte_lines(new));
    let diff = Diff::compute(algorithm(&input), &input);
    (diff.count_additions(), diff.count_removals())
}

fn split(text: &Bytes) -> Vec<Bytes> {
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|line| text.slice_ref(line))
        .collect()
}

type Edit = imara_diff::Hunk;

/// Groups edits whose context would touch.
fn group(diff: &Diff, context: u32) -> Vec<Vec<Edit>> {
    let mut groups: Vec<Vec<Edit>> = Vec::new();
    for edit in diff.hunks() {
        let near = |last: &Edit| edit.before.start - last.before.end <= context.saturating_mul(2);
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(near) => group.push(edit),
            _ => groups.push(vec![edit]),
        }
    }
    groups
}

fn hunk(edits: &[Edit], old: &[Bytes], new: &[Bytes], context: u32) -> Hunk {
    let (first, last) = match edits {
        [] => unreachable!("a group has at least one edit"),
        [only] => (only, only),
        [first, .., last] => (first, last),
    };
    let before = first.before.start.min(context);
    let after = (old.len() as u32 - last.before.end).min(context);
    let old_range = first.before.start - before..last.before.end + after;
    let new_range = first.after.start - before..last.after.end + after;
    let mut lines = Vec::new();
    let mut position = old_range.start;
    for edit in edits {
        push(
            &mut lines,
            HunkLineKind::Context,
            old,
            position..edit.before.start,
        );
        push(&mut lines, HunkLineKind::Removed, old, edit.before.clone());
        push(&mut lines, HunkLineKind::Added, new, edit.after.clone());
        position = edit.before.end;
    }
    push(&mut lines, HunkLineKind::Context, old, position..old_range.end);
    Hunk {
        old: old_range,
        new: new_range,
        lines,
    }
}

fn push(lines: &mut Vec<HunkLine>, kind: HunkLineKind, texts: &[Bytes], range: Range<u32>) {
    let texts = &texts[range.start as usize..range.end as usize];
    lines.extend(texts.iter().map(|text| HunkLine {
        kind,
        text: text.clone(),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: &str, new: &str, context: u32) -> LineDiff {
        LineDiff::compute(
            &Bytes::from(old.to_owned()),
            &Bytes::from(new.to_owned()),
            context,
        )
    }

    #[test]
    fn near_changes_share_a_hunk_and_far_ones_do_not() {
        let old: String = (0..30).map(|n| format!("{n}\n")).collect();
        let near = old
            .replace("\n10\n", "\nten\n")
            .replace("\n17\n", "\nseventeen\n");
        let far = old.replace("\n10\n", "\nten\n").replace("\n18\n", "\neighteen\n");
        assert_eq!(diff(&old, &near, 3).hunks.len(), 1);
        let far = diff(&old, &far, 3);
        assert_eq!(far.hunks.len(), 2);
        assert_eq!(
            (far.hunks[0].old.clone(), far.hunks[0].new.clone()),
            (7..14, 7..14)
        );
        assert_eq!((far.insertions, far.deletions), (2, 2));
    }

    #[test]
    fn a_missing_line_feed_at_the_end_is_a_difference() {
        let changed = diff("a\nb", "a\nb\n", 3);
        assert_eq!((changed.insertions, changed.deletions), (1, 1));
        assert!(diff("a\nb", "a\nb", 3).hunks.is_empty());
    }

    #[test]
    fn a_hunk_splits_where_lines_are_unchanged() {
        let old: String = (0..12).map(|n| format!("{n}\n")).collect();
        let new = old
            .replace("\n3\n", "\nthree\n")
            .replace("\n6\n", "\n6\nmore\n")
            .replace("\n8\n9\n", "\n");
        let hunks = diff(&old, &new, 3).hunks;
        assert_eq!(hunks.len(), 1);
        let pieces = hunks[0].split(3);
        let places: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.old.clone(), piece.new.clone()))
            .collect();
        assert_eq!(places, [(0..7, 0..7), (4..8, 4..9), (7..12, 8..11)]);
        assert!(
            pieces.iter().all(|piece| piece.changes().len() == 1),
            "{pieces:?}"
        );
        assert_eq!(
            pieces[1].split(3),
            [pieces[1].clone()],
            "one change is not split further"
        );
    }

    #[test]
    fn no_context_is_possible() {
        let changed = diff("a\nb\nc\n", "a\nc\n", 0);
        assert_eq!(
            (changed.hunks[0].old.clone(), changed.hunks[0].new.clone()),
            (1..2, 1..1)
        );
        assert_eq!(changed.hunks[0].lines.len(), 1);
    }
}
