//! Which parts of a line are comments, strings, numbers and keywords.
//!
//! It knows how comments and strings begin and end and which words are keywords, and nothing else of a
//! language: enough to read a diff, at no cost. Tokens that span several lines are followed through the whole
//! text.

mod languages;

use std::ops::Range;

use agentvfs::patch::FileDiff;

use self::languages::{Language, Quote, language_of};

/// Larger texts are not coloured.
const TEXT_MAX: usize = 2 << 20;
/// Longer lines are not coloured: they are generated.
const LINE_MAX: usize = 4 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxToken {
    Comment,
    Text,
    Number,
    Keyword,
}

/// The state at the beginning of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LexerState {
    #[default]
    Code,
    Comment,
    /// A string that began with this quote of the language.
    Text(u8),
}

/// Both texts of a file, line by line.
pub struct Syntax {
    language: &'static Language,
    old: Vec<LexerState>,
    new: Vec<LexerState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSide {
    Old,
    New,
}

impl Syntax {
    /// `None` if the language is not known, or the text is too long.
    pub fn of(diff: &FileDiff) -> Option<Syntax> {
        let name = diff.change.path().components().last()?;
        let [old, new] = diff.texts()?;
        if old.len().max(new.len()) > TEXT_MAX {
            return None;
        }
        let first = [new, old]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default();
        let language = language_of(name.as_bytes(), first)?;
        Some(Syntax {
            language,
            old: states(language, old),
            new: states(language, new),
        })
    }

    /// The tokens of a line, whose number counts from 1.
    pub fn tokens(&self, side: TextSide, number: u32, line: &[u8]) -> Vec<(Range<usize>, SyntaxToken)> {
        let states = match side {
            TextSide::Old => &self.old,
            TextSide::New => &self.new,
        };
        let state = states
            .get((number as usize).saturating_sub(1))
            .copied()
            .unwrap_or_default();
        let mut tokens = Vec::new();
        Lexer {
            language: self.language,
            line,
            at: 0,
            tokens: &mut tokens,
        }
        .run(state);
        tokens
    }
}

fn states(language: &'static Language, text: &[u8]) -> Vec<LexerState> {
    let mut state = LexerState::default();
    let mut tokens = Vec::new();
    let mut states = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        states.push(state);
        tokens.clear();
        state = Lexer {
            language,
            line,
            at: 0,
            tokens: &mut tokens,
        }
        .run(state);
    }
    states
}

struct Lexer<'a> {
    language: &'static Language,
    line: &'a [u8],
    at: usize,
    tokens: &'a mut Vec<(Range<usize>, SyntaxToken)>,
}

impl Lexer<'_> {
    /// Reads the line; returns the state at the beginning of the next one.
    fn run(mut self, mut state: LexerState) -> LexerState {
        if self.line.len() > LINE_MAX {
            return state;
        }
        loop {
            state = match state {
                LexerState::Comment => {
                    if self.rest_of_comment(0) {
                        LexerState::Code
                    } else {
                        return LexerState::Comment;
                    }
                }
                LexerState::Text(quote) => {
                    if self.rest_of_text(&self.language.quotes[usize::from(quote)], 0) {
                        LexerState::Code
                    } else {
                        return LexerState::Text(quote);
                    }
                }
                LexerState::Code => match self.code() {
                    Some(state) => return state,
                    None => LexerState::Code,
                },
            };
            if self.at >= self.line.len() {
                return state;
            }
        }
    }

    fn rest(&self) -> &[u8] {
        &self.line[self.at..]
    }

    fn push(&mut self, length: usize, token: SyntaxToken) {
        self.tokens.push((self.at..self.at + length, token));
        self.at += length;
    }

    /// Moves past the end of a comment, of which `opening` bytes are the beginning. `false`: it continues.
    fn rest_of_comment(&mut self, opening: usize) -> bool {
        let Some((_, close)) = self.language.block_comment else {
            return true;
        };
        match find(&self.rest()[opening..], close.as_bytes()) {
            Some(end) => {
                self.push(opening + end + close.len(), SyntaxToken::Comment);
                true
            }
            None => {
                self.push(self.rest().len(), SyntaxToken::Comment);
                false
            }
        }
    }

    /// The same for a string. A string that cannot span lines ends with this line.
    fn rest_of_text(&mut self, quote: &Quote, opening: usize) -> bool {
        let rest = self.rest();
        let mut at = opening;
        while at < rest.len() {
            if quote.escapes && rest[at] == b'\\' {
                at += 2;
            } else if rest[at..].starts_with(quote.close.as_bytes()) {
                self.push(at + quote.close.len(), SyntaxToken::Text);
                return true;
            } else {
                at += 1;
            }
        }
        self.push(rest.len(), SyntaxToken::Text);
        !quote.spans_lines
    }

    /// One token of code, or the text between two. Returns a state if the line ends within it.
    fn code(&mut self) -> Option<LexerState> {
        let language = self.language;
        let rest = self.rest();
        let first = rest.first().copied()?;
        let begins = |comment: &str| rest.starts_with(comment.as_bytes()) && self.may_begin_comment(comment);
        if language.line_comments.iter().any(|comment| begins(comment)) {
            self.push(rest.len(), SyntaxToken::Comment);
            return Some(LexerState::Code);
        }
        if let Some((open, _)) = language.block_comment
            && rest.starts_with(open.as_bytes())
        {
            return (!self.rest_of_comment(open.len())).then_some(LexerState::Comment);
        }
        let quote = language
            .quotes
            .iter()
            .position(|quote| rest.starts_with(quote.open.as_bytes()));
        if let Some(index) = quote.filter(|_| !self.is_lifetime(first)) {
            let quote = &language.quotes[index];
            return (!self.rest_of_text(quote, quote.open.len())).then_some(LexerState::Text(index as u8));
        }
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let length = rest.iter().take_while(|byte| is_word(byte)).count();
        if first.is_ascii_digit() {
            let number = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
            let length = rest.iter().take_while(|byte| number(byte)).count();
            self.push(length, SyntaxToken::Number);
        } else if length > 0 {
            if language.is_keyword(&rest[..length]) {
                self.push(length, SyntaxToken::Keyword)
            } else {
                self.at += length
            }
        } else {
            self.at += 1;
        }
        None
    }

    /// `#` begins a comment of a shell only after a blank.
    fn may_begin_comment(&self, comment: &str) -> bool {
        comment != "#" || self.at == 0 || self.line[self.at - 1].is_ascii_whitespace()
    }

    /// `'a` is not a string in languages where characters have such quotes.
    fn is_lifetime(&self, first: u8) -> bool {
        let rest = self.rest();
        first == b'\'' && self.language.has_lifetimes && rest.get(1) != Some(&b'\\') && {
            let character = std::str::from_utf8(&rest[1..rest.len().min(5)]);
            let text = match &character {
                Ok(text) => text,
                Err(error) => std::str::from_utf8(&rest[1..1 + error.valid_up_to()]).unwrap_or_default(),
            };
            text.chars().nth(1) != Some('\'')
        }
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks tokens: comments `c`, strings `s`, numbers `n`, keywords `k`.
    #[track_caller]
    fn check(name: &str, text: &str, expected: &str) {
        let language = language_of(name.as_bytes(), text.as_bytes()).unwrap();
        let mut state = LexerState::default();
        let mut marked = String::new();
        for line in text.split_inclusive('\n') {
            let mut tokens = Vec::new();
            state = Lexer {
                language,
                line: line.as_bytes(),
                at: 0,
                tokens: &mut tokens,
            }
            .run(state);
            let mut marks = vec!['.'; line.len()];
            for (range, token) in tokens {
                let mark = match token {
                    SyntaxToken::Comment => 'c',
                    SyntaxToken::Text => 's',
                    SyntaxToken::Number => 'n',
                    SyntaxToken::Keyword => 'k',
                };
                marks[range].fill(mark);
            }
            marked.extend(marks.into_iter().take(line.trim_end_matches('\n').len()));
            marked.push('\n');
        }
        assert_eq!(marked.trim_end_matches('\n'), expected, "{name}");
    }

    #[test]
    fn words_numbers_strings_and_comments_are_found() {
        check("a.rs", "let x = 42; // \"no\"", "kkk.....nn..ccccccc");
        check("a.rs", r#"f("a\"b", 'c', &'a str)"#, "..ssssss..sss..........");
        check("a.py", "def f(): # x\n  return 'a'", "kkk......ccc\n..kkkkkk.sss");
        check("a.sh", "echo $# # no", "........cccc");
        check("a.sql", "SELECT 1 -- x", "kkkkkk.n.cccc");
        check("a.json", "{\"a\": true}", ".sss..kkkk.");
        check("Makefile", "all: # x", ".....ccc");
    }

    #[test]
    fn multi_line_syntax_is_followed() {
        check("a.c", "/* a\nb */ int", "cccc\ncccc.kkk");
        check("a.py", "\"\"\"a\nb\"\"\" 1", "ssss\nssss.n");
        check("a.js", "`a\n${b}` 1", "ss\nsssss.n");
        check("a.c", "\"a\nint", "ss\nkkk");
    }

    #[test]
    fn a_script_without_an_extension_is_known_by_its_first_line() {
        check(
            "run",
            "#!/usr/bin/env python3\ndef",
            "cccccccccccccccccccccc\nkkk",
        );
        assert!(language_of(b"notes.txt", b"def").is_none());
        assert!(language_of(b"run", b"def").is_none());
    }
}
