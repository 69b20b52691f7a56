//! The rows of the diff pane. They hold no text, so that a diff of many thousand lines is cheap until it is drawn.

use agentvfs::patch::{Hunk, HunkLineKind};

/// One row: in the unified form a line of one side, or of both if it is unchanged; side by side, two lines that
/// belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffRow {
    /// A note about the file as a whole.
    Note(usize),
    /// A line about the changes of both sides of a conflict.
    Conflict(usize),
    Header {
        hunk: usize,
    },
    Line {
        hunk: usize,
        old: Option<ShownLine>,
        new: Option<ShownLine>,
    },
}

/// A line in its hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownLine {
    /// Its place among the lines of the hunk.
    pub line: usize,
    /// Its number in the file, from 1 on.
    pub number: u32,
    /// The place of the line that it replaces, or that replaces it.
    pub partner: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffForm {
    Unified,
    SideBySide,
}

impl DiffRow {
    pub fn hunk(&self) -> Option<usize> {
        match self {
            DiffRow::Note(_) | DiffRow::Conflict(_) => None,
            DiffRow::Header { hunk } | DiffRow::Line { hunk, .. } => Some(*hunk),
        }
    }
}

pub fn rows(notes: usize, conflict: usize, hunks: &[Hunk], form: DiffForm) -> Vec<DiffRow> {
    let mut rows: Vec<DiffRow> = (0..notes).map(DiffRow::Note).collect();
    rows.extend((0..conflict).map(DiffRow::Conflict));
    for (index, hunk) in hunks.iter().enumerate() {
        rows.push(DiffRow::Header { hunk: index });
        RowWalk {
            rows: &mut rows,
            hunk: index,
            form,
            removed: Vec::new(),
            added: Vec::new(),
        }
        .walk(hunk);
    }
    rows
}

struct RowWalk<'a> {
    rows: &'a mut Vec<DiffRow>,
    hunk: usize,
    form: DiffForm,
    /// The lines of the present run of changes.
    removed: Vec<ShownLine>,
    added: Vec<ShownLine>,
}

impl RowWalk<'_> {
    fn walk(mut self, hunk: &Hunk) {
        let (mut old, mut new) = (hunk.old.start, hunk.new.start);
        for (line, kind) in hunk.lines.iter().map(|line| line.kind).enumerate() {
            let place = |number: &mut u32| {
                *number += 1;
                ShownLine {
                    line,
                    number: *number,
                    partner: None,
                }
            };
            match kind {
                HunkLineKind::Context => {
                    self.end_run();
                    let (old, new) = (Some(place(&mut old)), Some(place(&mut new)));
                    self.rows.push(DiffRow::Line {
                        hunk: self.hunk,
                        old,
                        new,
                    });
                }
                HunkLineKind::Removed if !self.added.is_empty() => {
                    self.end_run();
                    self.removed.push(place(&mut old));
                }
                HunkLineKind::Removed => self.removed.push(place(&mut old)),
                HunkLineKind::Added => self.added.push(place(&mut new)),
            }
        }
        self.end_run();
    }

    fn end_run(&mut self) {
        let (mut removed, mut added) = (std::mem::take(&mut self.removed), std::mem::take(&mut self.added));
        for (old, new) in removed.iter_mut().zip(&mut added) {
            (old.partner, new.partner) = (Some(new.line), Some(old.line));
        }
        let hunk = self.hunk;
        match self.form {
            DiffForm::Unified => {
                let row = |old, new| DiffRow::Line { hunk, old, new };
                self.rows
                    .extend(removed.into_iter().map(|old| row(Some(old), None)));
                self.rows
                    .extend(added.into_iter().map(|new| row(None, Some(new))));
            }
            DiffForm::SideBySide => {
                let row = |at| DiffRow::Line {
                    hunk,
                    old: removed.get(at).copied(),
                    new: added.get(at).copied(),
                };
                self.rows.extend((0..removed.len().max(added.len())).map(row));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use agentvfs::patch::HunkLine;

    use super::*;

    /// A hunk that begins at the fourth line of both sides.
    fn hunk(signs: &str) -> Hunk {
        let line = |sign| {
            let kind = match sign {
                '-' => HunkLineKind::Removed,
                '+' => HunkLineKind::Added,
                _ => HunkLineKind::Context,
            };
            HunkLine {
                kind,
                text: Default::default(),
            }
        };
        let lines: Vec<HunkLine> = signs.chars().map(line).collect();
        let count = |without| lines.iter().filter(|line| line.kind != without).count() as u32;
        let (old, new) = (
            3..3 + count(HunkLineKind::Added),
            3..3 + count(HunkLineKind::Removed),
        );
        Hunk { old, new, lines }
    }

    #[track_caller]
    fn check(signs: &str, form: DiffForm, expected: &[&str]) {
        let show = |place: Option<ShownLine>| match place {
            Some(ShownLine { number, partner, .. }) => {
                format!("{number}{}", if partner.is_some() { "*" } else { "" })
            }
            None => "-".to_owned(),
        };
        let shown: Vec<String> = rows(1, 0, &[hunk(signs)], form)
            .into_iter()
            .map(|row| match row {
                DiffRow::Note(_) | DiffRow::Conflict(_) => "note".to_owned(),
                DiffRow::Header { .. } => "hunk".to_owned(),
                DiffRow::Line { old, new, .. } => format!("{} {}", show(old), show(new)),
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn unified_rows_show_one_side_each() {
        check(
            " --+ ",
            DiffForm::Unified,
            &["note", "hunk", "4 4", "5* -", "6 -", "- 5*", "7 6"],
        );
    }

    #[test]
    fn side_by_side_lines_stand_beside_what_they_replace() {
        check(
            " --+ ",
            DiffForm::SideBySide,
            &["note", "hunk", "4 4", "5* 5*", "6 -", "7 6"],
        );
        check("+-", DiffForm::SideBySide, &["note", "hunk", "- 4", "4 -"]);
    }
}
