//! The last part of a program's output, for a terminal that joins later.

use super::sequences::{Control, OutputToken, Sequences};

/// The part of `tail` to show on a terminal, so that it looks as if it had been there. `is_cut`: more was
/// written before. The result contains no queries of the terminal: its answers would be typed into the
/// program.
pub fn replay(tail: &[u8], is_cut: bool) -> Vec<u8> {
    let mut screen = ReplayScreen {
        shown: Vec::new(),
        alternate_from: None,
        is_cut,
    };
    Sequences::default().feed(tail, &mut |token| match token {
        OutputToken::Byte(byte) => screen.shown.push(byte),
        OutputToken::Sequence(sequence) => screen.hear(sequence),
    });
    screen.finish()
}

struct ReplayScreen {
    shown: Vec<u8>,
    /// Where the other screen was entered.
    alternate_from: Option<usize>,
    /// Whether the beginning of the output may be the middle of a sequence.
    is_cut: bool,
}

impl ReplayScreen {
    fn hear(&mut self, sequence: &[u8]) {
        let control = Control::parse(sequence);
        if asks(sequence, control.as_ref()) {
            return;
        }
        match control.as_ref().map(ScreenSwitch::of) {
            Some(ScreenSwitch::Enter) => self.alternate_from = Some(self.shown.len()),
            Some(ScreenSwitch::Leave) => {
                // Nothing stays of the other screen.
                match self.alternate_from.take() {
                    Some(from) => self.shown.truncate(from),
                    None => self.clear(),
                }
                return;
            }
            Some(ScreenSwitch::Clear) => self.clear(),
            Some(ScreenSwitch::Other) => {}
            None if sequence == b"\x1bc" => self.clear(),
            None => {}
        }
        self.shown.extend_from_slice(sequence);
    }

    fn clear(&mut self) {
        match self.alternate_from {
            Some(from) => self.shown.truncate(from),
            None => {
                self.shown.clear();
                self.is_cut = false;
            }
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if let Some(from) = self.alternate_from {
            return self.shown.split_off(from);
        }
        if self.is_cut {
            let line = self
                .shown
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(self.shown.len(), |at| at + 1);
            return self.shown.split_off(line);
        }
        self.shown
    }
}

/// The effect of a control sequence on the screen as a whole.
enum ScreenSwitch {
    Enter,
    Leave,
    Clear,
    Other,
}

impl ScreenSwitch {
    fn of(control: &Control<'_>) -> ScreenSwitch {
        let is_alternate = || {
            control
                .numbers
                .iter()
                .any(|mode| matches!(mode, 47 | 1047 | 1049))
        };
        match (control.mark, control.letter) {
            (Some(b'?'), b'h') if is_alternate() => ScreenSwitch::Enter,
            (Some(b'?'), b'l') if is_alternate() => ScreenSwitch::Leave,
            (None, b'J') if matches!(control.first(), 2 | 3) => ScreenSwitch::Clear,
            _ => ScreenSwitch::Other,
        }
    }
}

/// Whether a terminal answers this, or passes something to the user's other programs.
fn asks(sequence: &[u8], control: Option<&Control<'_>>) -> bool {
    if let Some(control) = control {
        return match (control.mark, control.between, control.letter) {
            // Attributes, status, modes, version, keyboard protocol, window.
            (_, _, b'c' | b'n' | b'x') | (_, b"$", b'p' | b'w' | b'u') => true,
            (Some(b'>'), [], b'q') | (Some(b'?'), [], b'u' | b'm') => true,
            (None, [], b't') => true,
            _ => false,
        };
    }
    let is_string = matches!(sequence.get(1), Some(b']' | b'P' | b'X' | b'^' | b'_'));
    let is_title = [&b"\x1b]0;"[..], b"\x1b]1;", b"\x1b]2;", b"\x1b]8;"]
        .iter()
        .any(|title| sequence.starts_with(title));
    is_string && !is_title || sequence == b"\x1bZ"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tail: &str, is_cut: bool, expected: &str) {
        assert_eq!(
            String::from_utf8_lossy(&replay(tail.as_bytes(), is_cut)),
            expected
        );
    }

    #[test]
    fn the_beginning_of_a_cut_line_is_left_out() {
        check("one\r\ntwo\r\n", false, "one\r\ntwo\r\n");
        check("ne\r\ntwo\r\n", true, "two\r\n");
        check("ne", true, "");
    }

    #[test]
    fn only_what_is_on_the_screen_is_shown() {
        check("old\x1b[2J\x1b[Hnew", true, "\x1b[2J\x1b[Hnew");
        check("a\r\n\x1b[?1049hvim\x1b[?1049lb", false, "a\r\nb");
        check("a\r\n\x1b[?1049hold\x1b[2Jvim", false, "\x1b[2Jvim");
        check("a\r\n\x1b[?1049hvim", false, "\x1b[?1049hvim");
        check("rest of vim\x1b[?1049lb", true, "b");
    }

    #[test]
    fn nothing_asks_the_terminal() {
        for question in [
            "\x1b[c",
            "\x1b[>c",
            "\x1b[6n",
            "\x1b[?6n",
            "\x1b[?u",
            "\x1b[>q",
            "\x1b[?2026$p",
            "\x1b[18t",
            "\x1b]11;?\x07",
            "\x1bP+q544e\x1b\\",
            "\x1b]52;c;aGk=\x07",
            "\x1bZ",
        ] {
            check(&format!("a{question}b"), false, "ab");
        }
        for harmless in [
            "\x1b[31m",
            "\x1b[?25l",
            "\x1b]0;title\x07",
            "\x1b[>1u",
            "\x1b[2 q",
            "\x1b[3A",
        ] {
            check(&format!("a{harmless}b"), false, &format!("a{harmless}b"));
        }
    }
}
