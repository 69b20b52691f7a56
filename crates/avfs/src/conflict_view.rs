//! Both sides of a conflict with the base, as lines for people.

use agentvfs::apply::{Conflict, ConflictKind, ConflictPlace, ConflictSides, SideText};
use agentvfs::patch::{HunkLineKind, LineDiff};
use bytes::Bytes;

use crate::size::HumanSize;

/// How many unchanged lines are shown around a conflict.
const CONTEXT: u32 = 3;
/// How many lines of one side are shown. A longer one is read in an editor.
const LINES_MAX: usize = 400;

/// The meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRole {
    /// Where the conflict is.
    Title,
    /// Whose lines follow.
    Label,
    Unchanged,
    Here,
    Base,
    Task,
}

/// One line; its text is unescaped, and must be escaped for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictLine {
    pub role: LineRole,
    pub text: Bytes,
}

impl ConflictLine {
    /// The sign before it.
    pub fn sign(&self) -> &'static str {
        match self.role {
            LineRole::Title | LineRole::Label => "",
            LineRole::Unchanged => "  ",
            LineRole::Here => "< ",
            LineRole::Base => "| ",
            LineRole::Task => "> ",
        }
    }
}

pub fn conflict_lines(conflict: &Conflict, sides: &ConflictSides) -> Vec<ConflictLine> {
    let places = sides.places(CONTEXT as usize);
    let mut view = ConflictLines(Vec::new());
    // The number of places is reported by their numbers.
    let kind = match &conflict.kind {
        ConflictKind::Lines(_) => ConflictKind::Lines(1),
        kind => kind.clone(),
    };
    for (index, place) in places.iter().enumerate() {
        view.title(format!(
            "conflict {} of {}, line {}: {}",
            index + 1,
            places.len(),
            place.line,
            kind
        ));
        view.place(place);
    }
    if places.is_empty() {
        view.title(format!("conflict: {}", conflict.kind));
        view.whole(sides);
    }
    view.0
}

struct ConflictLines(Vec<ConflictLine>);

impl ConflictLines {
    fn push(&mut self, role: LineRole, text: impl Into<Bytes>) {
        self.0.push(ConflictLine {
            role,
            text: text.into(),
        });
    }

    fn title(&mut self, text: String) {
        self.push(LineRole::Title, text);
    }

    fn lines(&mut self, role: LineRole, lines: &[Bytes]) {
        lines
            .iter()
            .take(LINES_MAX)
            .for_each(|line| self.push(role, line.clone()));
        if lines.len() > LINES_MAX {
            self.push(
                LineRole::Label,
                format!("… and {} more lines", lines.len() - LINES_MAX),
            );
        }
    }

    fn place(&mut self, place: &ConflictPlace) {
        self.lines(LineRole::Unchanged, &place.before);
        for (role, lines) in [
            (LineRole::Here, &place.here),
            (LineRole::Base, &place.base),
            (LineRole::Task, &place.task),
        ] {
            let nothing = if lines.is_empty() { " nothing" } else { "" };
            self.push(LineRole::Label, format!("{}:{nothing}", name(role)));
            self.lines(role, lines);
        }
        self.lines(LineRole::Unchanged, &place.after);
    }

    /// Sides that are not compared line by line: the kind of each, and the changes of one of them if the
    /// other was removed.
    fn whole(&mut self, sides: &ConflictSides) {
        for (role, side) in [
            (LineRole::Here, &sides.here),
            (LineRole::Base, &sides.base),
            (LineRole::Task, &sides.task),
        ] {
            self.push(LineRole::Label, format!("{}: {}", name(role), described(side)));
        }
        match (&sides.base, &sides.here, &sides.task) {
            (SideText::Text(base), SideText::Text(here), SideText::Nothing) => {
                self.changes(LineRole::Here, base, here)
            }
            (SideText::Text(base), SideText::Nothing, SideText::Text(task)) => {
                self.changes(LineRole::Task, base, task)
            }
            _ => {}
        }
    }

    fn changes(&mut self, role: LineRole, base: &Bytes, side: &Bytes) {
        let diff = LineDiff::compute(base, side, CONTEXT);
        for line in diff.hunks.iter().flat_map(|hunk| &hunk.lines).take(LINES_MAX) {
            let role = match line.kind {
                HunkLineKind::Context => LineRole::Unchanged,
                HunkLineKind::Removed => LineRole::Base,
                HunkLineKind::Added => role,
            };
            self.push(role, line.text.clone());
        }
    }
}

fn name(role: LineRole) -> &'static str {
    match role {
        LineRole::Here => "in your directory",
        LineRole::Task => "in the task",
        LineRole::Title | LineRole::Label | LineRole::Unchanged | LineRole::Base => "before both changed it",
    }
}

fn described(side: &SideText) -> String {
    match side {
        SideText::Nothing => "nothing".to_owned(),
        SideText::Text(text) => format!("a text of {}", HumanSize(text.len() as u64)),
        SideText::Opaque {
            kind,
            size: Some(size),
        } => {
            format!("{kind} of {} that is not text", HumanSize(*size))
        }
        SideText::Opaque { kind, size: None } => (*kind).to_owned(),
        SideText::Unknown => "not known: the task never read it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentvfs::TreePath;

    #[track_caller]
    fn check(kind: ConflictKind, [base, here, task]: [SideText; 3], expected: &[&str]) {
        let conflict = Conflict {
            path: TreePath::parse(b"a").unwrap(),
            kind,
        };
        let sides = ConflictSides {
            base,
            here,
            task,
            marked: None,
            here_digest: String::new(),
        };
        let shown: Vec<String> = conflict_lines(&conflict, &sides)
            .iter()
            .map(|line| {
                format!(
                    "{}{}",
                    line.sign(),
                    String::from_utf8_lossy(&line.text).trim_end()
                )
            })
            .collect();
        assert_eq!(shown, expected);
    }

    fn text(text: &'static str) -> SideText {
        SideText::Text(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn lines_of_both_sides_stand_with_those_of_the_base() {
        check(
            ConflictKind::Lines(1),
            [text("1\nold\n3\n"), text("1\nuser\n3\n"), text("1\ntask\n3\n")],
            &[
                "conflict 1 of 1, line 2: both changed the same lines",
                "  1",
                "in your directory:",
                "< user",
                "before both changed it:",
                "| old",
                "in the task:",
                "> task",
                "  3",
            ],
        );
    }

    #[test]
    fn a_removed_side_shows_what_the_other_one_changed() {
        check(
            ConflictKind::RemovedThere,
            [text("1\n2\n"), text("1\ntwo\n"), SideText::Nothing],
            &[
                "conflict: changed here, removed in the task",
                "in your directory: a text of 6 B",
                "before both changed it: a text of 4 B",
                "in the task: nothing",
                "  1",
                "| 2",
                "< two",
            ],
        );
    }
}
