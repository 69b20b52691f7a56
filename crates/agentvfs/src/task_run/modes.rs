//! The modes of a terminal that a program has changed: a terminal that joins later is put into the same ones, and one that
//! leaves is put back.

use std::collections::BTreeMap;

use super::sequences::{Control, OutputToken, Sequences};

/// Another screen beside the one with the history.
const ALTERNATE: [u32; 3] = [47, 1047, 1049];
/// Modes that are on in a new terminal.
const ON_AT_FIRST: [u32; 2] = [7, 25];
/// Modes that only last for a moment, or that each terminal has as it likes.
const NOT_KEPT: [u32; 3] = [12, 2026, 2031];

/// The modes that a program has set on its terminal so far.
#[derive(Debug, Default)]
pub struct TerminalModes {
    sequences: Sequences,
    changed: ChangedModes,
}

#[derive(Debug, Default)]
struct ChangedModes {
    private: BTreeMap<u32, bool>,
    application_keypad: bool,
    /// The pushed states of the keyboard protocol that reports every key.
    keyboard: Vec<u32>,
    other_keys: u32,
    cursor_style: u32,
    has_margins: bool,
}

impl TerminalModes {
    /// Follows the program's output.
    pub fn follow(&mut self, bytes: &[u8]) {
        let changed = &mut self.changed;
        self.sequences.feed(bytes, &mut |token| {
            if let OutputToken::Sequence(sequence) = token {
                changed.hear(sequence);
            }
        });
    }

    /// Whether the program uses the alternate screen, which has no history.
    pub fn is_alternate(&self) -> bool {
        self.changed
            .private
            .iter()
            .any(|(mode, is_on)| *is_on && ALTERNATE.contains(mode))
    }

    /// Puts a new terminal into these modes.
    pub fn restore(&self) -> String {
        self.changed.restore()
    }

    /// Puts a terminal that is in these modes back.
    pub fn undo(&self) -> String {
        self.changed.undo()
    }
}

impl ChangedModes {
    fn hear(&mut self, sequence: &[u8]) {
        match sequence {
            b"\x1bc" => *self = ChangedModes::default(),
            b"\x1b=" => self.application_keypad = true,
            b"\x1b>" => self.application_keypad = false,
            _ => {
                if let Some(control) = Control::parse(sequence) {
                    self.hear_control(&control);
                }
            }
        }
    }

    fn hear_control(&mut self, control: &Control<'_>) {
        let first = control.first();
        match (control.mark, control.between, control.letter) {
            (Some(b'?'), [], b'h' | b'l') => {
                let kept = control.numbers.iter().filter(|mode| !NOT_KEPT.contains(mode));
                self.private
                    .extend(kept.map(|mode| (*mode, control.letter == b'h')));
            }
            (None, b"!", b'p') => *self = ChangedModes::default(),
            (Some(b'>'), [], b'u') => self.keyboard.push(first),
            (Some(b'<'), [], b'u') => {
                let left = self.keyboard.len().saturating_sub(first.max(1) as usize);
                self.keyboard.truncate(left);
            }
            (Some(b'>'), [], b'm') if first == 4 => {
                self.other_keys = control.numbers.get(1).copied().unwrap_or(0);
            }
            (None, b" ", b'q') => self.cursor_style = first,
            (None, [], b'r') => self.has_margins = !control.numbers.is_empty(),
            _ => {}
        }
    }

    /// The modes that differ from those of a new terminal, the other screen first.
    fn unusual(&self) -> Vec<(u32, bool)> {
        let is_unusual = |(mode, is_on): &(u32, bool)| *is_on != ON_AT_FIRST.contains(mode);
        let modes = self
            .private
            .iter()
            .map(|(mode, is_on)| (*mode, *is_on))
            .filter(is_unusual);
        let (mut first, rest): (Vec<_>, Vec<_>) = modes.partition(|(mode, _)| ALTERNATE.contains(mode));
        first.extend(rest);
        first
    }

    fn restore(&self) -> String {
        let mut text = String::new();
        for (mode, is_on) in self.unusual() {
            text += &format!("\x1b[?{mode}{}", if is_on { 'h' } else { 'l' });
        }
        if self.application_keypad {
            text += "\x1b=";
        }
        for flags in &self.keyboard {
            text += &format!("\x1b[>{flags}u");
        }
        if self.other_keys > 0 {
            text += &format!("\x1b[>4;{}m", self.other_keys);
        }
        if self.cursor_style > 0 {
            text += &format!("\x1b[{} q", self.cursor_style);
        }
        text
    }

    fn undo(&self) -> String {
        let mut text = String::from("\x1b[0m");
        if self.has_margins {
            // Without them the cursor would go to the corner.
            text += "\x1b7\x1b[r\x1b8";
        }
        if !self.keyboard.is_empty() {
            text += &format!("\x1b[<{}u", self.keyboard.len());
        }
        if self.other_keys > 0 {
            text += "\x1b[>4m";
        }
        if self.cursor_style > 0 {
            text += "\x1b[0 q";
        }
        if self.application_keypad {
            text += "\x1b>";
        }
        for (mode, is_on) in self.unusual().into_iter().rev() {
            text += &format!("\x1b[?{mode}{}", if is_on { 'l' } else { 'h' });
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(output: &str) -> TerminalModes {
        let mut modes = TerminalModes::default();
        modes.follow(output.as_bytes());
        modes
    }

    #[test]
    fn an_editor_is_restored_and_left_in_the_right_order() {
        let modes = after("\x1b[?2004h\x1b[?1049h\x1b[?25l\x1b=\x1b[>1u\x1b[2 q text");
        assert!(modes.is_alternate());
        assert_eq!(
            modes.restore(),
            "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b=\x1b[>1u\x1b[2 q"
        );
        assert_eq!(
            modes.undo(),
            "\x1b[0m\x1b[<1u\x1b[0 q\x1b>\x1b[?2004l\x1b[?25h\x1b[?1049l"
        );
    }

    #[test]
    fn terminal_state_as_in_a_new_terminal_needs_nothing() {
        for output in [
            "plain",
            "\x1b[?1049h\x1b[?1049l\x1b[?25l\x1b[?25h",
            "\x1b[?1h\x1bc",
            "\x1b[>1u\x1b[<u",
        ] {
            let modes = after(output);
            assert_eq!(
                (modes.restore().as_str(), modes.undo().as_str()),
                ("", "\x1b[0m"),
                "{output:?}"
            );
            assert!(!modes.is_alternate());
        }
    }
}
