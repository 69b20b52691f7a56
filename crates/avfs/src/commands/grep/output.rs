//! The results of `grep`, as lines and as JSON.

use agentvfs::TreePath;
use agentvfs::query::grep::{GrepEvent, GrepLine, GrepSummary, LineKind};
use serde::Serialize;

use crate::json::{PathField, byte_field};
use crate::printer::{ERROR, GREEN, MAGENTA, PrintError, Printer};
use crate::size::HumanSize;

/// Prints events as they come: `PATH:LINE:TEXT`, with `-` instead of `:` for lines of context.
pub struct LinePrinter<'a> {
    pub out: &'a mut Printer,
    pub with_path: bool,
    pub with_number: bool,
    /// How many bytes of a line are shown; for a terminal, where a line may fill many screens.
    pub most: Option<usize>,
}

impl LinePrinter<'_> {
    pub fn print(&mut self, event: GrepEvent) -> Result<(), PrintError> {
        match event {
            GrepEvent::Line(line) => self.line(&line),
            GrepEvent::Gap => self.out.line("--"),
            GrepEvent::Name(path) => {
                let path = self.out.paint(MAGENTA, path);
                self.out.line(path)
            }
            GrepEvent::Count { path, lines } => {
                let prefix = self.prefix(&path, ':');
                self.out.line(format_args!("{prefix}{lines}"))
            }
            GrepEvent::Binary { path, offset } => self
                .out
                .line(format_args!("{path}: binary file matches (NUL byte at {offset})")),
            GrepEvent::Failed { path, error } => {
                self.out.warn(format_args!("{path} cannot be read: {error}"));
                Ok(())
            }
        }
    }

    fn prefix(&self, path: &TreePath, mark: char) -> String {
        if self.with_path {
            format!("{}{mark}", self.out.paint(MAGENTA, path))
        } else {
            String::new()
        }
    }

    fn line(&mut self, line: &GrepLine) -> Result<(), PrintError> {
        let mark = if line.kind == LineKind::Match { ':' } else { '-' };
        let mut prefix = self.prefix(&line.path, mark);
        if self.with_number {
            prefix += &format!("{}{mark}", self.out.paint(GREEN, line.number));
        }
        self.out.bytes(prefix.as_bytes())?;
        let shown = &line.bytes[..shown_bytes(&line.bytes, self.most)];
        let mut done = 0;
        for found in line.matches.iter().filter(|found| found.start < shown.len()) {
            let end = found.end.min(shown.len());
            self.out.content(&shown[done..found.start])?;
            self.out.painted_content(ERROR, &shown[found.start..end])?;
            done = end;
        }
        self.out.content(&shown[done..])?;
        match line.bytes.len() - shown.len() {
            0 => {}
            more => {
                let hidden = line
                    .matches
                    .iter()
                    .filter(|found| found.start >= shown.len())
                    .count();
                let matches = if hidden == 0 {
                    String::new()
                } else {
                    format!(" with {hidden} of the matches")
                };
                self.out
                    .bytes(format!(" [{} more{matches}]", HumanSize(more as u64)).as_bytes())?;
            }
        }
        self.out.bytes(b"\n")
    }
}

/// Where a line is cut: not within a character.
fn shown_bytes(line: &[u8], most: Option<usize>) -> usize {
    let Some(most) = most.filter(|most| line.len() > *most) else {
        return line.len();
    };
    let is_continued = |at: &usize| line[*at] & 0b1100_0000 == 0b1000_0000;
    // A character has at most four bytes; other bytes are cut anywhere.
    (most.saturating_sub(3)..=most)
        .rev()
        .find(|at| !is_continued(at))
        .unwrap_or(most)
}

byte_field!(TextField, text, text_bytes_hex);

#[derive(Serialize)]
struct GrepLineBody {
    #[serde(flatten)]
    path: PathField,
    line: u64,
    offset: u64,
    is_match: bool,
    #[serde(flatten)]
    text: TextField,
    /// Where the pattern matches, in bytes of the line.
    matches: Vec<[usize; 2]>,
}

#[derive(Serialize)]
struct GrepFileBody {
    #[serde(flatten)]
    path: PathField,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl GrepFileBody {
    fn new(path: &TreePath) -> GrepFileBody {
        GrepFileBody {
            path: path.into(),
            count: None,
            binary: None,
            error: None,
        }
    }
}

/// Everything found, for one object.
#[derive(Default)]
pub struct GatheredLines {
    lines: Vec<GrepLineBody>,
    files: Vec<GrepFileBody>,
}

#[derive(Serialize)]
pub struct GrepBody<'a> {
    lines: &'a [GrepLineBody],
    files: &'a [GrepFileBody],
    files_searched: u64,
    files_matched: u64,
    files_failed: u64,
    lines_matched: u64,
    /// Files that were not searched because they are ignored.
    ignored: Vec<PathField>,
}

impl GatheredLines {
    pub fn take(&mut self, event: GrepEvent) {
        match event {
            GrepEvent::Line(line) => self.lines.push(line_body(&line)),
            GrepEvent::Gap => {}
            GrepEvent::Name(path) => self.files.push(GrepFileBody::new(&path)),
            GrepEvent::Count { path, lines } => {
                self.files.push(GrepFileBody {
                    count: Some(lines),
                    ..GrepFileBody::new(&path)
                });
            }
            GrepEvent::Binary { path, .. } => {
                self.files.push(GrepFileBody {
                    binary: Some(true),
                    ..GrepFileBody::new(&path)
                });
            }
            GrepEvent::Failed { path, error } => {
                self.files.push(GrepFileBody {
                    error: Some(error.to_string()),
                    ..GrepFileBody::new(&path)
                });
            }
        }
    }

    pub fn body<'a>(
        &'a self,
        summary: &GrepSummary,
        ignored: impl Iterator<Item = &'a TreePath>,
    ) -> GrepBody<'a> {
        GrepBody {
            lines: &self.lines,
            files: &self.files,
            files_searched: summary.files_searched,
            files_matched: summary.files_matched,
            files_failed: summary.files_failed,
            lines_matched: summary.lines_matched,
            ignored: ignored.map(PathField::from).collect(),
        }
    }
}

fn line_body(line: &GrepLine) -> GrepLineBody {
    GrepLineBody {
        path: (&line.path).into(),
        line: line.number,
        offset: line.offset,
        is_match: line.kind == LineKind::Match,
        text: TextField::new(&line.bytes),
        matches: line
            .matches
            .iter()
            .map(|found| [found.start, found.end])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_before_a_character() {
        assert_eq!(shown_bytes(b"abcdef", Some(4)), 4);
        assert_eq!(shown_bytes(b"abcd", Some(4)), 4);
        assert_eq!(shown_bytes(b"abcdef", None), 6);
        assert_eq!(shown_bytes("aaaé!".as_bytes(), Some(4)), 3);
        assert_eq!(shown_bytes(&[0x80; 9], Some(4)), 4);
    }
}
