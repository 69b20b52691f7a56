//! Recognises, in the typed input, the keys by which a user leaves a running program.

use std::time::{Duration, Instant};

/// How long the first of the keys is held back: after that it was meant for the program.
const HELD: Duration = Duration::from_secs(1);

/// Keys that are pressed one after another. None: one cannot leave by keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachKeys(Vec<TypedKey>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypedKey {
    Plain(char),
    Ctrl(char),
}

impl DetachKeys {
    /// The default keys.
    pub const USUAL: &str = "ctrl-\\ d";

    /// Reads `ctrl-\ d`: keys with spaces between them, or `none`.
    pub fn parse(text: &str) -> Option<DetachKeys> {
        if text.trim() == "none" {
            return Some(DetachKeys(Vec::new()));
        }
        let keys: Option<Vec<TypedKey>> = text.split_whitespace().map(TypedKey::parse).collect();
        keys.filter(|keys| !keys.is_empty()).map(DetachKeys)
    }
}

impl TypedKey {
    fn parse(word: &str) -> Option<TypedKey> {
        let only = |text: &str| {
            let mut characters = text.chars();
            characters.next().filter(|_| characters.next().is_none())
        };
        match word.strip_prefix("ctrl-").or_else(|| word.strip_prefix("Ctrl-")) {
            Some(rest) => {
                let letter = only(rest)?.to_ascii_lowercase();
                matches!(letter, 'a'..='z' | '@' | '[' | '\\' | ']' | '^' | '_')
                    .then_some(TypedKey::Ctrl(letter))
            }
            None => only(word).filter(char::is_ascii_graphic).map(TypedKey::Plain),
        }
    }

    /// The byte sequences that a terminal may send for it: the byte, or those of the protocols that name
    /// every key.
    fn forms(self) -> [Vec<u8>; 3] {
        match self {
            TypedKey::Plain(key) => {
                let code = u32::from(key);
                [
                    vec![key as u8],
                    format!("\x1b[{code}u").into(),
                    format!("\x1b[27;1;{code}~").into(),
                ]
            }
            TypedKey::Ctrl(key) => {
                let code = u32::from(key);
                [
                    // What a terminal sends for a control key: the code of the letter without its upper
                    // bits.
                    vec![key as u8 & 0x1f],
                    format!("\x1b[{code};5u").into(),
                    format!("\x1b[27;5;{code}~").into(),
                ]
            }
        }
    }

    /// Its length at the beginning of the input.
    fn length_in(self, typed: &[u8]) -> Option<usize> {
        self.forms()
            .iter()
            .find(|form| typed.starts_with(form))
            .map(Vec::len)
    }
}

/// Typed input on its way to the program.
pub(super) struct Typed {
    keys: DetachKeys,
    /// How many of the keys were pressed, and the bytes that the terminal sent for them.
    pressed: usize,
    held: Vec<u8>,
    late_at: Option<Instant>,
}

impl Typed {
    pub(super) fn new(keys: DetachKeys) -> Typed {
        Typed {
            keys,
            pressed: 0,
            held: Vec::new(),
            late_at: None,
        }
    }

    /// The bytes for the program, and whether the user leaves.
    pub(super) fn push(&mut self, mut typed: &[u8], now: Instant) -> (Vec<u8>, bool) {
        let mut given = Vec::new();
        while !typed.is_empty() {
            if let Some(length) = self.next_key().and_then(|key| key.length_in(typed)) {
                self.held.extend_from_slice(&typed[..length]);
                typed = &typed[length..];
                self.pressed += 1;
                self.late_at = Some(now + HELD);
                if self.pressed == self.keys.0.len() {
                    self.release();
                    return (given, true);
                }
            } else if self.pressed > 0 {
                // The first key twice is the key itself.
                let again = self.keys.0[0].length_in(typed).filter(|_| self.pressed == 1);
                // Another key followed: what was held back was meant for the program after all.
                given.extend(self.release());
                typed = &typed[again.unwrap_or(0)..];
            } else {
                given.push(typed[0]);
                typed = &typed[1..];
            }
        }
        (given, false)
    }

    /// When held-back bytes must be sent to the program.
    pub(super) fn late_at(&self) -> Option<Instant> {
        self.late_at
    }

    /// Bytes that were held back for too long.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<u8> {
        match self.late_at {
            Some(at) if now >= at => self.release(),
            Some(_) | None => Vec::new(),
        }
    }

    fn next_key(&self) -> Option<TypedKey> {
        self.keys.0.get(self.pressed).copied()
    }

    fn release(&mut self) -> Vec<u8> {
        (self.pressed, self.late_at) = (0, None);
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str) -> Typed {
        Typed::new(DetachKeys::parse(keys).unwrap())
    }

    #[test]
    fn the_keys_are_found_in_every_form_and_among_others() {
        for form in [
            &b"\x1cd"[..],
            b"\x1b[92;5ud",
            b"\x1b[27;5;92~d",
            b"\x1b[92;5u\x1b[100u",
        ] {
            let (given, leaves) = typed(DetachKeys::USUAL).push(&[b"ab", form].concat(), Instant::now());
            assert_eq!((given, leaves), (b"ab".to_vec(), true), "{form:?}");
        }
        let mut keys = typed(DetachKeys::USUAL);
        assert_eq!(keys.push(b"a\x1c", Instant::now()), (b"a".to_vec(), false));
        assert_eq!(keys.push(b"d", Instant::now()), (Vec::new(), true));
    }

    #[test]
    fn similar_words_reach_the_program() {
        let mut keys = typed(DetachKeys::USUAL);
        assert_eq!(keys.push(b"\x1cx", Instant::now()), (b"\x1cx".to_vec(), false));
        assert_eq!(
            keys.push(b"\x1c\x1cd", Instant::now()),
            (b"\x1cd".to_vec(), false),
            "twice is once"
        );
        let now = Instant::now();
        assert_eq!(keys.push(b"\x1c", now), (Vec::new(), false));
        assert_eq!(keys.take_late(now), b"");
        assert_eq!(keys.take_late(now + HELD), b"\x1c", "held back for too long");
        assert_eq!(keys.push(b"d", now + HELD), (b"d".to_vec(), false));
    }

    #[test]
    fn other_keys_can_be_chosen_or_none() {
        assert!(typed("ctrl-p ctrl-q").push(b"\x10\x11", Instant::now()).1);
        assert_eq!(
            typed("none").push(b"\x1cd", Instant::now()),
            (b"\x1cd".to_vec(), false)
        );
        for bad in ["", "ctrl-", "ctrl-dd", "ctrl-1", "ab", "\u{e4}"] {
            assert_eq!(DetachKeys::parse(bad), None, "{bad:?}");
        }
    }
}
