//! What differs between two texts, line by line, and how that is shown.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput, Token};

/// Which differences between lines count.
#[derive(Clone, Copy)]
pub(super) struct Sameness {
    pub case: bool,
    pub spaces: bool,
    /// How many spaces there are, where there are some.
    pub space_counts: bool,
    pub blank_lines: bool,
}

/// Lines of one side that stand in place of lines of the other.
#[derive(Clone, Debug)]
struct Change {
    before: Range<usize>,
    after: Range<usize>,
}

pub(super) struct Compared<'a> {
    before: Vec<&'a [u8]>,
    after: Vec<&'a [u8]>,
    changes: Vec<Change>,
}

impl<'a> Compared<'a> {
    pub fn new(before: &'a [u8], after: &'a [u8], sameness: Sameness) -> Compared<'a> {
        let (before, after) = (lines(before), lines(after));
        let mut changes = changes(&before, &after, sameness);
        if !sameness.blank_lines {
            let is_blank = |line: &&[u8]| *line == b"\n" || line.is_empty();
            changes.retain(|change| {
                let removed = before[change.before.clone()].iter();
                !removed.chain(&after[change.after.clone()]).all(is_blank)
            });
        }
        Compared {
            before,
            after,
            changes,
        }
    }

    pub fn is_same(&self) -> bool {
        self.changes.is_empty()
    }

    /// `2,3c4`, and the lines behind `<` and `>`.
    pub fn normal(&self, out: &mut String) {
        for Change { before, after } in &self.changes {
            let letter = match (before.is_empty(), after.is_empty()) {
                (true, _) => 'a',
                (_, true) => 'd',
                _ => 'c',
            };
            let _ = writeln!(out, "{}{letter}{}", numbers(before, ","), numbers(after, ","));
            before.clone().for_each(|line| put(out, "< ", self.before[line]));
            if letter == 'c' {
                out.push_str("---\n");
            }
            after.clone().for_each(|line| put(out, "> ", self.after[line]));
        }
    }

    /// Changes with so many lines around them.
    pub fn unified(&self, context: usize, out: &mut String) {
        let mut rest = self.changes.as_slice();
        while let Some(first) = rest.first() {
            let is_near = |pair: &[Change]| pair[1].before.start - pair[0].before.end <= 2 * context;
            let count = 1 + rest.windows(2).take_while(|pair| is_near(pair)).count();
            let (hunk, later) = rest.split_at(count);
            rest = later;
            let last = &hunk[count - 1];
            let lead = context.min(first.before.start);
            let tail = context.min(self.before.len() - last.before.end);
            let before = first.before.start - lead..last.before.end + tail;
            let after = first.after.start - lead..last.after.end + tail;
            let _ = writeln!(out, "@@ -{} +{} @@", counted(&before), counted(&after));
            let mut line = before.start;
            for change in hunk {
                (line..change.before.start).for_each(|line| put(out, " ", self.before[line]));
                change
                    .before
                    .clone()
                    .for_each(|line| put(out, "-", self.before[line]));
                change
                    .after
                    .clone()
                    .for_each(|line| put(out, "+", self.after[line]));
                line = change.before.end;
            }
            (line..before.end).for_each(|line| put(out, " ", self.before[line]));
        }
    }
}

/// Lines with their ends.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn put(out: &mut String, mark: &str, line: &[u8]) {
    out.push_str(mark);
    out.push_str(&String::from_utf8_lossy(line));
    if !line.ends_with(b"\n") {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

/// The first and the last of some lines; of none, the line before.
fn numbers(lines: &Range<usize>, between: &str) -> String {
    match lines.len() {
        0 => lines.start.to_string(),
        1 => (lines.start + 1).to_string(),
        _ => format!("{}{between}{}", lines.start + 1, lines.end),
    }
}

/// The first of some lines, and how many there are.
fn counted(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        count => format!("{},{count}", lines.start + 1),
    }
}

/// A line as far as it counts.
fn counting(line: &[u8], sameness: Sameness) -> Vec<u8> {
    let mut kept = Vec::with_capacity(line.len());
    if sameness.space_counts {
        kept.extend_from_slice(line);
    } else {
        let mut words = line.split(u8::is_ascii_whitespace).peekable();
        let begins_with_space = line.first().is_some_and(u8::is_ascii_whitespace);
        if begins_with_space && sameness.spaces {
            kept.push(b' ');
        }
        while let Some(word) = words.next() {
            kept.extend_from_slice(word);
            let is_between = !word.is_empty() && words.clone().any(|later| !later.is_empty());
            if is_between && sameness.spaces {
                kept.push(b' ');
            }
        }
    }
    if !sameness.case {
        kept.make_ascii_lowercase();
    }
    kept
}

fn changes(before: &[&[u8]], after: &[&[u8]], sameness: Sameness) -> Vec<Change> {
    // Equal lines have equal numbers.
    let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut number = |line: &&[u8]| {
        let next = numbers.len() as u32;
        Token(*numbers.entry(counting(line, sameness)).or_insert(next))
    };
    let before: Vec<Token> = before.iter().map(&mut number).collect();
    let after: Vec<Token> = after.iter().map(&mut number).collect();
    let mut input: InternedInput<&[u8]> = InternedInput::default();
    input.before.clone_from(&before);
    input.after.clone_from(&after);
    let mut diff = Diff::default();
    diff.compute_with(Algorithm::MyersMinimal, &before, &after, numbers.len() as u32);
    let mut removed: Vec<bool> = (0..before.len() as u32)
        .map(|line| diff.is_removed(line))
        .collect();
    let mut added: Vec<bool> = (0..after.len() as u32).map(|line| diff.is_added(line)).collect();
    slide_down(&mut removed, &before, &mut added);
    slide_down(&mut added, &after, &mut removed);
    paired(&removed, &added)
}

/// Where the lines before a change are its last ones, it could as well be above: it is told as far down as it can be.
fn slide_down(marked: &mut [bool], lines: &[Token], other: &mut [bool]) {
    // The line of the other side that the present one stands beside.
    let (mut line, mut beside) = (0, 0);
    while line < lines.len() {
        while beside < other.len() && other[beside] {
            beside += 1;
        }
        if !marked[line] {
            line += 1;
            beside += 1;
            continue;
        }
        let mut start = line;
        let mut end = line;
        while end < lines.len() && marked[end] {
            end += 1;
        }
        // Not past a change of the other side: the two belong together then.
        while end < lines.len() && lines[start] == lines[end] && !(beside < other.len() && other[beside]) {
            marked[start] = false;
            marked[end] = true;
            start += 1;
            end += 1;
            beside += 1;
            while end < lines.len() && marked[end] {
                end += 1;
            }
        }
        line = end;
    }
}

fn paired(removed: &[bool], added: &[bool]) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut before, mut after) = (0, 0);
    while before < removed.len() || after < added.len() {
        let start = (before, after);
        while removed.get(before).is_some_and(|is_removed| *is_removed) {
            before += 1;
        }
        while added.get(after).is_some_and(|is_added| *is_added) {
            after += 1;
        }
        if start == (before, after) {
            before += 1;
            after += 1;
        } else {
            changes.push(Change {
                before: start.0..before,
                after: start.1..after,
            });
        }
    }
    changes
}
