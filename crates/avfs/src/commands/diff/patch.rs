//! A patch on its way out: exact bytes on a pipe, coloured and escaped on a terminal.

use std::io::{self, Write};

use agentvfs::patch::WordDiff;
use anstyle::Style;

use super::words::{DiffPiece, pieces};
use crate::printer::{BOLD, CYAN, GREEN, PrintError, Printer, RED};

/// How changes are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// By a sign before each line; in colour, the words that differ are highlighted.
    Lines,
    /// By brackets around words.
    Words,
}

/// Takes a patch in pieces and prints it line by line.
pub struct PatchPrinter<'a> {
    out: &'a mut Printer,
    marks: Marks,
    /// The beginning of a line whose end has not arrived yet.
    line: Vec<u8>,
    in_header: bool,
    /// Removed lines, and the added ones after them, until it is known which belong together.
    held: Vec<Vec<u8>>,
    /// Why printing ended: an I/O error alone would not distinguish a closed pipe from a full disk.
    failed: Option<PrintError>,
}

impl<'a> PatchPrinter<'a> {
    pub fn new(out: &'a mut Printer, marks: Marks) -> PatchPrinter<'a> {
        PatchPrinter {
            out,
            marks,
            line: Vec::new(),
            in_header: true,
            held: Vec::new(),
            failed: None,
        }
    }

    /// Prints the remaining lines. Must be called: dropping the value loses them.
    pub fn finish(mut self) -> Result<(), PrintError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => {
                if !self.line.is_empty() {
                    self.take_line()?;
                }
                self.print_held()
            }
        }
    }

    fn take_line(&mut self) -> Result<(), PrintError> {
        let line = std::mem::take(&mut self.line);
        let was_added = self.held.iter().any(|held| held[0] == b'+');
        let belongs = match line[0] {
            _ if self.in_header || !self.looks_into_lines() => false,
            b'-' => !was_added,
            b'+' | b'\\' => !self.held.is_empty(),
            _ => false,
        };
        if !belongs {
            self.print_held()?;
        }
        match line[0] {
            b'-' if !self.in_header && self.looks_into_lines() => self.held.push(line),
            _ if belongs => self.held.push(line),
            _ => self.print_line(&line)?,
        }
        Ok(())
    }

    fn looks_into_lines(&self) -> bool {
        self.marks == Marks::Words || self.out.is_colored()
    }

    /// The first removed line and the first added one are a pair, and so on.
    fn print_held(&mut self) -> Result<(), PrintError> {
        let held = std::mem::take(&mut self.held);
        let of_sign = |sign: u8| {
            held.iter()
                .filter(move |line| line[0] == sign)
                .map(|line| text(line))
        };
        let pairs: Vec<_> = of_sign(b'-')
            .zip(of_sign(b'+'))
            .map(|(old, new)| (old, new, WordDiff::compute(old, new)))
            .collect();
        let (mut removed, mut added) = (pairs.iter(), pairs.iter());
        for line in &held {
            let pair = match line[0] {
                b'-' => removed.next(),
                b'+' => added.next(),
                _ => None,
            };
            match (self.marks, pair, line[0]) {
                (Marks::Words, Some((old, new, Some(words))), b'-') => self.print_words(old, new, words)?,
                // It was printed with its other half.
                (Marks::Words, Some((_, _, Some(_))), _) => {}
                (Marks::Lines, Some((_, _, Some(words))), b'-') => self.print_emphasised(line, &words.old)?,
                (Marks::Lines, Some((_, _, Some(words))), _) => self.print_emphasised(line, &words.new)?,
                _ => self.print_line(line)?,
            }
        }
        Ok(())
    }

    fn print_line(&mut self, line: &[u8]) -> Result<(), PrintError> {
        let style = self.style(line);
        let (text, end) = without_end(line);
        match (self.marks, text.first()) {
            (Marks::Words, Some(b'-')) if !self.in_header => {
                self.out
                    .painted_content(style, &[b"[-", &text[1..], b"-]"].concat())?;
            }
            (Marks::Words, Some(b'+')) if !self.in_header => {
                self.out
                    .painted_content(style, &[b"{+", &text[1..], b"+}"].concat())?;
            }
            (Marks::Words, Some(b' ')) if !self.in_header => self.out.painted_content(style, &text[1..])?,
            _ => self.out.painted_content(style, text)?,
        }
        self.out.bytes(end)
    }

    fn print_words(&mut self, old: &[u8], new: &[u8], words: &WordDiff) -> Result<(), PrintError> {
        for piece in pieces(old, new, words) {
            match piece {
                DiffPiece::Same(text) => self.out.content(text)?,
                DiffPiece::Removed(text) => self.out.painted_content(RED, &[b"[-", text, b"-]"].concat())?,
                DiffPiece::Added(text) => self.out.painted_content(GREEN, &[b"{+", text, b"+}"].concat())?,
            }
        }
        self.out.bytes(b"\n")
    }

    fn print_emphasised(&mut self, line: &[u8], words: &[std::ops::Range<usize>]) -> Result<(), PrintError> {
        let style = self.style(line);
        let (sign, rest) = line.split_at(1);
        self.out.painted_content(style, sign)?;
        let text = text(line);
        let mut at = 0;
        for word in words {
            self.out.painted_content(style, &text[at..word.start])?;
            self.out.painted_content(style.invert(), &text[word.clone()])?;
            at = word.end;
        }
        self.out.painted_content(style, &text[at..])?;
        self.out.bytes(&rest[text.len()..])
    }

    /// `---` is a removed line `--` in a hunk and a file name before it.
    fn style(&mut self, line: &[u8]) -> Style {
        if line.starts_with(b"diff --git ") {
            self.in_header = true;
        } else if line.starts_with(b"@@ ") {
            self.in_header = false;
            return CYAN;
        }
        match line.first() {
            _ if self.in_header => BOLD,
            Some(b'+') => GREEN,
            Some(b'-') => RED,
            _ => Style::new(),
        }
    }
}

/// A line of a hunk without its sign and its end.
fn text(line: &[u8]) -> &[u8] {
    without_end(&line[1..]).0
}

fn without_end(line: &[u8]) -> (&[u8], &[u8]) {
    line.split_at(line.strip_suffix(b"\n").unwrap_or(line).len())
}

impl Write for PatchPrinter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n")
                && let Err(error) = self.take_line()
            {
                self.failed = Some(error);
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
