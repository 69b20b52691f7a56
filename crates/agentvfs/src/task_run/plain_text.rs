//! A program's terminal output as text: no colours, no cursor movements, one kind of line end.

use super::sequences::{Control, OutputToken, Sequences};

/// The maximum number of spaces for one cursor movement.
const SPACES_MAX: u32 = 200;

/// Accepts output in pieces. The result never controls a terminal; bytes that are not UTF-8 are unchanged.
#[derive(Debug, Default)]
pub struct PlainText {
    sequences: Sequences,
    line: TextLine,
}

#[derive(Debug)]
struct TextLine {
    is_empty: bool,
    /// A carriage return was the last byte.
    is_returned: bool,
}

impl Default for TextLine {
    fn default() -> TextLine {
        TextLine {
            is_empty: true,
            is_returned: false,
        }
    }
}

impl PlainText {
    /// Takes the next piece of output; returns the text that is complete.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(piece.len());
        let line = &mut self.line;
        self.sequences.feed(piece, &mut |token| match token {
            OutputToken::Byte(byte) => line.byte(byte, &mut text),
            OutputToken::Sequence(sequence) => line.sequence(sequence, &mut text),
        });
        text
    }
}

impl TextLine {
    fn byte(&mut self, byte: u8, text: &mut Vec<u8>) {
        match byte {
            b'\r' => self.is_returned = true,
            b'\n' => self.end(text),
            b'\t' | 0x20..=0x7e | 0x80.. => {
                // Overwritten text is kept as a line of its own.
                if self.is_returned && !self.is_empty {
                    self.end(text);
                }
                text.push(byte);
                (self.is_empty, self.is_returned) = (false, false);
            }
            _ => {}
        }
    }

    fn sequence(&mut self, sequence: &[u8], text: &mut Vec<u8>) {
        let Some(control) = Control::parse(sequence).filter(|control| control.mark.is_none()) else {
            return;
        };
        match control.letter {
            // Some programs move over spaces instead of writing them.
            b'C' => (0..control.first().clamp(1, SPACES_MAX)).for_each(|_| self.byte(b' ', text)),
            b'A' | b'B' | b'E' | b'F' | b'H' | b'd' | b'f' if !self.is_empty => self.end(text),
            _ => {}
        }
    }

    fn end(&mut self, text: &mut Vec<u8>) {
        text.push(b'\n');
        *self = TextLine::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, expected: &str) {
        let mut plain = PlainText::default();
        let text: Vec<u8> = output
            .as_bytes()
            .chunks(3)
            .flat_map(|piece| plain.push(piece))
            .collect();
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn colours_titles_and_bells_go_and_text_stays() {
        check(
            "\x1b]0;t\x07\x1b[1;31merror\x1b[0m: §\tno\x07\r\n",
            "error: §\tno\n",
        );
        check("a\r\n\r\nb\n", "a\n\nb\n");
    }

    #[test]
    fn progress_that_is_written_over_becomes_lines() {
        check("1%\r2%\r\n", "1%\n2%\n");
        check("\r\x1b[Kdone\n", "done\n");
    }

    #[test]
    fn moves_of_the_cursor_keep_words_apart() {
        check("two\x1b[1Cwords\x1b[2;1Hnext", "two words\nnext");
        check("\x1b[1;1H\x1b[2Jtop", "top");
    }
}
