//! Bytes from a vault or a file name, made safe for a terminal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use avfs_core::printable;

/// A path of the host as one safe line.
pub fn printable_path(path: &Path) -> String {
    printable_os(path.as_os_str())
}

pub fn printable_os(text: &OsStr) -> String {
    printable(text.as_bytes())
}

/// Text of several lines for a terminal: line ends and tabs stay, everything else that could steer the
/// terminal is escaped.
pub fn printable_text(raw: &[u8]) -> String {
    let mut text = String::with_capacity(raw.len());
    for piece in raw.split_inclusive(|byte| matches!(byte, b'\n' | b'\t')) {
        let (last, rest) = piece.split_last().unwrap_or((&b'\n', &[]));
        match last {
            b'\n' | b'\t' => {
                push_printable(&mut text, rest);
                text.push(char::from(*last));
            }
            _ => push_printable(&mut text, piece),
        }
    }
    text
}

/// Escapes a text that comes in pieces, which may end in the middle of a character.
#[derive(Default)]
pub struct TextEscaper {
    held: Vec<u8>,
}

impl TextEscaper {
    pub fn push(&mut self, piece: &[u8]) -> String {
        self.held.extend_from_slice(piece);
        let whole = self.held.len() - unfinished(&self.held);
        let text = printable_text(&self.held[..whole]);
        self.held.drain(..whole);
        text
    }

    /// The rest, at the end of the input.
    pub fn finish(self) -> String {
        printable_text(&self.held)
    }
}

/// How many bytes at the end could be the beginning of a character.
fn unfinished(raw: &[u8]) -> usize {
    let last = raw.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

/// Text of one line for a terminal, in which names are escaped already: its backslashes stay single.
pub fn printable_line(raw: &[u8]) -> String {
    let mut text = String::with_capacity(raw.len());
    push_printable(&mut text, raw);
    text
}

/// Backslashes in a text are literal; in a name they are doubled so that it can be read back.
fn push_printable(text: &mut String, piece: &[u8]) {
    let mut parts = piece.split(|byte| *byte == b'\\');
    text.extend(parts.next().map(printable));
    for part in parts {
        text.push('\\');
        text.push_str(&printable(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_its_lines_and_loses_its_escapes() {
        assert_eq!(printable_text(b"a\tb\nc\\d\n"), "a\tb\nc\\d\n");
        assert_eq!(
            printable_text(b"\x1b]0;title\x07\r\n"),
            "\\u{1b}]0;title\\u{7}\\r\n"
        );
        assert_eq!(printable_text(b"\xff"), "\\xff");
        assert_eq!(printable_text(b""), "");
        assert_eq!(printable_line(b"write /a\\xff\n\x1b"), "write /a\\xff\\n\\u{1b}");
    }

    #[test]
    fn a_character_in_two_pieces_stays_whole() {
        let mut escaper = TextEscaper::default();
        let euro = "€".as_bytes();
        let text = [
            escaper.push(&euro[..1]),
            escaper.push(&euro[1..]),
            escaper.push(b"\xff\xe2"),
        ]
        .concat();
        assert_eq!(text + &escaper.finish(), "€\\xff\\xe2");
    }
}
