//! Parses a program's terminal output: text, and the sequences that control the terminal.

/// A longer sequence (a picture, a long title) is reported by its beginning.
const SEQUENCE_MAX: usize = 4 << 10;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;

/// A piece of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputToken<'a> {
    /// A byte of text, or a control character.
    Byte(u8),
    /// A whole sequence, with the escape character in front.
    Sequence(&'a [u8]),
}

/// Splits output that comes in pieces, which may end anywhere.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    state: ParserState,
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParserState {
    #[default]
    Text,
    /// After the escape character.
    Escape,
    /// `CSI`: parameters, then a letter.
    Control,
    /// A string (`OSC`, `DCS`, …) that a bell or `ESC \` ends.
    String,
    /// In a string, after an escape character.
    StringEscape,
}

impl Sequences {
    pub(super) fn feed(&mut self, bytes: &[u8], tell: &mut dyn FnMut(OutputToken<'_>)) {
        for byte in bytes {
            self.step(*byte, tell);
        }
    }

    fn step(&mut self, byte: u8, tell: &mut dyn FnMut(OutputToken<'_>)) {
        match self.state {
            ParserState::Text if byte == ESCAPE => self.begin(),
            ParserState::Text => tell(OutputToken::Byte(byte)),
            _ if matches!(byte, CANCEL | SUBSTITUTE) => self.state = ParserState::Text,
            ParserState::Escape => match byte {
                ESCAPE => self.begin(),
                b'[' => self.go_on(byte, ParserState::Control),
                b']' | b'P' | b'X' | b'^' | b'_' => self.go_on(byte, ParserState::String),
                0x20..=0x2f => self.go_on(byte, ParserState::Escape),
                _ => self.end(byte, tell),
            },
            ParserState::Control => match byte {
                ESCAPE => self.begin(),
                0x40..=0x7e => self.end(byte, tell),
                _ => self.go_on(byte, ParserState::Control),
            },
            ParserState::String => match byte {
                BELL => self.end(byte, tell),
                ESCAPE => self.go_on(byte, ParserState::StringEscape),
                _ => self.go_on(byte, ParserState::String),
            },
            ParserState::StringEscape => match byte {
                b'\\' => self.end(byte, tell),
                _ => self.go_on(byte, ParserState::String),
            },
        }
    }

    fn begin(&mut self) {
        self.held.clear();
        self.go_on(ESCAPE, ParserState::Escape);
    }

    fn go_on(&mut self, byte: u8, state: ParserState) {
        if self.held.len() < SEQUENCE_MAX {
            self.held.push(byte);
        }
        self.state = state;
    }

    fn end(&mut self, byte: u8, tell: &mut dyn FnMut(OutputToken<'_>)) {
        self.go_on(byte, ParserState::Text);
        tell(OutputToken::Sequence(&self.held));
    }
}

/// The parts of a control sequence: `CSI ? 25 h` is a mark `?`, a number and a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Control<'a> {
    /// `?`, `>`, `<`, `=`, if there is one.
    pub mark: Option<u8>,
    pub numbers: Vec<u32>,
    /// The bytes between the numbers and the letter.
    pub between: &'a [u8],
    pub letter: u8,
}

impl Control<'_> {
    pub(super) fn parse(sequence: &[u8]) -> Option<Control<'_>> {
        let body = sequence.strip_prefix(b"\x1b[")?;
        let (letter, body) = body.split_last()?;
        let mark = body.first().copied().filter(|byte| (0x3c..=0x3f).contains(byte));
        let body = &body[usize::from(mark.is_some())..];
        let end = body
            .iter()
            .position(|byte| !(0x30..=0x3b).contains(byte))
            .unwrap_or(body.len());
        let (numbers, between) = body.split_at(end);
        let read = |text: &[u8]| {
            let digits = text.split(|byte| *byte == b':').next().unwrap_or_default();
            std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse().ok())
                .unwrap_or(0)
        };
        let numbers = match numbers {
            [] => Vec::new(),
            _ => numbers.split(|byte| *byte == b';').map(read).collect(),
        };
        Some(Control {
            mark,
            numbers,
            between,
            letter: *letter,
        })
    }

    pub(super) fn first(&self) -> u32 {
        self.numbers.first().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<String> {
        let (mut sequences, mut told) = (Sequences::default(), Vec::new());
        for piece in pieces {
            sequences.feed(piece, &mut |token| {
                told.push(match token {
                    OutputToken::Byte(byte) => char::from(byte).to_string(),
                    OutputToken::Sequence(bytes) => avfs_core::printable(bytes),
                });
            });
        }
        told
    }

    #[test]
    fn sequences_are_found_wherever_the_pieces_end() {
        let whole = b"a\x1b[?25hb\x1b]0;title\x07c\x1bP+q\x1b\\d\x1b(Be\x1b[1;2Hf";
        let expected = split(&[whole]);
        assert_eq!(
            expected.join(" "),
            "a \\u{1b}[?25h b \\u{1b}]0;title\\u{7} c \\u{1b}P+q\\u{1b}\\\\ d \\u{1b}(B e \\u{1b}[1;2H f"
        );
        for at in 0..whole.len() {
            assert_eq!(split(&[&whole[..at], &whole[at..]]), expected, "cut at {at}");
        }
    }

    #[test]
    fn an_aborted_or_endless_sequence_does_not_grow_without_bound() {
        assert_eq!(split(&[b"\x1b[12\x18a"]), ["a"]);
        let mut sequences = Sequences::default();
        sequences.feed(b"\x1b]", &mut |_| ());
        sequences.feed(&vec![b'x'; 1 << 20], &mut |_| ());
        assert!(sequences.held.len() <= SEQUENCE_MAX);
    }

    #[test]
    fn a_control_sequence_has_parts() {
        let parts = Control::parse(b"\x1b[?1049;25h").unwrap();
        assert_eq!(
            (parts.mark, &parts.numbers[..], parts.letter),
            (Some(b'?'), &[1049, 25][..], b'h')
        );
        let parts = Control::parse(b"\x1b[2 q").unwrap();
        assert_eq!(
            (parts.mark, parts.first(), parts.between, parts.letter),
            (None, 2, &b" "[..], b'q')
        );
        assert_eq!(Control::parse(b"\x1b[H").unwrap().numbers, Vec::<u32>::new());
        assert_eq!(Control::parse(b"\x1b=").map(|parts| parts.letter), None);
    }
}
