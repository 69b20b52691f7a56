//! Which words of a line differ from those of the line that it replaces.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput, TokenSource};

/// Longer lines count as different as a whole: comparing them word by word would not be readable.
const LINE_MAX: usize = 4 << 10;

/// The parts of two lines that the other one does not have, as ranges of bytes in ascending order. They begin and
/// end between characters, and no two of them touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordDiff {
    /// Parts of the old line.
    pub old: Vec<Range<usize>>,
    /// Parts of the new line.
    pub new: Vec<Range<usize>>,
}

impl WordDiff {
    /// `None` if the lines have so little in common that one is not an edit of the other.
    pub fn compute(old: &[u8], new: &[u8]) -> Option<WordDiff> {
        if old.len().max(new.len()) > LINE_MAX {
            return None;
        }
        let input = InternedInput::new(LineWords(old), LineWords(new));
        let mut diff = Diff::compute(Algorithm::Myers, &input);
        diff.postprocess_no_heuristic(&input);
        let words = WordDiff {
            old: changed(old, |index| diff.is_removed(index)),
            new: changed(new, |index| diff.is_added(index)),
        };
        words.has_enough_in_common(old, new).then_some(words)
    }

    /// A third of the non-blank text must be unchanged.
    fn has_enough_in_common(&self, old: &[u8], new: &[u8]) -> bool {
        let whole = ink(old).max(ink(new));
        let gone: usize = self.old.iter().map(|range| ink(&old[range.clone()])).sum();
        (ink(old) - gone) * 3 >= whole
    }
}

fn changed(line: &[u8], is_changed: impl Fn(u32) -> bool) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for (index, word) in LineWords(line).tokenize().enumerate() {
        let end = start + word.len();
        if is_changed(index as u32) {
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        start = end;
    }
    ranges
}

fn ink(text: &[u8]) -> usize {
    text.iter().filter(|byte| !byte.is_ascii_whitespace()).count()
}

/// A line in words: letters and digits together, blanks together, everything else by itself.
#[derive(Clone, Copy)]
struct LineWords<'a>(&'a [u8]);

impl<'a> TokenSource for LineWords<'a> {
    type Token = &'a [u8];
    type Tokenizer = LineWords<'a>;

    fn tokenize(&self) -> LineWords<'a> {
        *self
    }

    fn estimate_tokens(&self) -> u32 {
        self.0.len() as u32 / 3
    }
}

impl<'a> Iterator for LineWords<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let kind = CharacterKind::of(*self.0.first()?);
        let length = match kind {
            CharacterKind::Sign => 1,
            kind => self
                .0
                .iter()
                .take_while(|byte| CharacterKind::of(**byte) == kind)
                .count(),
        };
        let (word, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(word)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterKind {
    Letter,
    Blank,
    Sign,
}

impl CharacterKind {
    /// All bytes of a character beyond ASCII are letters, so that it stays whole.
    fn of(byte: u8) -> CharacterKind {
        match byte {
            b'_' | 0x80.. => CharacterKind::Letter,
            byte if byte.is_ascii_alphanumeric() => CharacterKind::Letter,
            byte if byte.is_ascii_whitespace() => CharacterKind::Blank,
            _ => CharacterKind::Sign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks the changed parts of both lines with brackets.
    fn marked(old: &str, new: &str) -> Option<(String, String)> {
        let words = WordDiff::compute(old.as_bytes(), new.as_bytes())?;
        let mark = |line: &str, ranges: &[Range<usize>]| {
            let mut text = line.to_owned();
            for range in ranges.iter().rev() {
                text.insert(range.end, ']');
                text.insert(range.start, '[');
            }
            text
        };
        Some((mark(old, &words.old), mark(new, &words.new)))
    }

    #[track_caller]
    fn check(old: &str, new: &str, expected_old: &str, expected_new: &str) {
        assert_eq!(
            marked(old, new),
            Some((expected_old.to_owned(), expected_new.to_owned()))
        );
    }

    #[test]
    fn words_that_differ_are_found_whole() {
        check(
            "let port = 80;\n",
            "let port = 8080;\n",
            "let port = [80];\n",
            "let port = [8080];\n",
        );
        check("call(a, b)", "call(a, c, b)", "call(a, b)", "call(a, [c, ]b)");
        check(
            "let größe = a + b;",
            "let größer = a + b;",
            "let [größe] = a + b;",
            "let [größer] = a + b;",
        );
        check("same", "same", "same", "same");
    }

    #[test]
    fn a_line_that_another_one_replaces_has_no_words_in_common() {
        assert_eq!(marked("return 0;\n", "println!(\"goodbye\");\n"), None);
        assert_eq!(marked("\n", "text\n"), None);
        assert_eq!(marked(&"x ".repeat(LINE_MAX), "x"), None);
    }
}
