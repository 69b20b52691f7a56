//! A patch on its way out: exact bytes on a pipe, coloured and escaped on a terminal.

use std::io::{self, Write};

use anstyle::Style;

use crate::printer::{BOLD, CYAN, GREEN, PrintError, Printer, RED};

/// Takes a patch in pieces and prints it line by line.
pub struct PatchPrinter<'a> {
    out: &'a mut Printer,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    in_header: bool,
    /// Why printing ended: an I/O error alone would not tell a closed pipe from a full disk.
    failed: Option<PrintError>,
}

impl<'a> PatchPrinter<'a> {
    pub fn new(out: &'a mut Printer) -> PatchPrinter<'a> {
        PatchPrinter { out, line: Vec::new(), in_header: true, failed: None }
    }

    /// Prints what is left. Must be called: dropping the value loses the last line.
    pub fn finish(mut self) -> Result<(), PrintError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None if self.line.is_empty() => Ok(()),
            None => self.print_line(),
        }
    }

    fn print_line(&mut self) -> Result<(), PrintError> {
        let style = self.style();
        let (text, end) = match self.line.split_last() {
            Some((b'\n', text)) => (text, &b"\n"[..]),
            _ => (&self.line[..], &b""[..]),
        };
        self.out.painted_content(style, text)?;
        self.out.bytes(end)?;
        self.line.clear();
        Ok(())
    }

    /// `---` is a removed line `--` in a hunk and a file name before it.
    fn style(&mut self) -> Style {
        if self.line.starts_with(b"diff --git ") {
            self.in_header = true;
        } else if self.line.starts_with(b"@@ ") {
            self.in_header = false;
            return CYAN;
        }
        match self.line.first() {
            _ if self.in_header => BOLD,
            Some(b'+') => GREEN,
            Some(b'-') => RED,
            _ => Style::new(),
        }
    }
}

impl Write for PatchPrinter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n")
                && let Err(error) = self.print_line()
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
