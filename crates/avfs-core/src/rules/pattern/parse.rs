//! From the text of a pattern to its pieces.

use super::{BadPattern, PATTERN_MAX, PatternFault};
use crate::rules::glob::{CharClass, GlobToken};

const NESTING_MAX: usize = 16;

/// A part of a pattern, with the bytes of the text that it was read from.
#[derive(Clone, Debug)]
pub(super) struct PatternPiece {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: PieceKind,
}

#[derive(Clone, Debug)]
pub(super) enum PieceKind {
    Token(GlobToken),
    Slash,
    Braces(Vec<Vec<PatternPiece>>),
}

pub(super) fn parse(text: &str) -> Result<Vec<PatternPiece>, BadPattern> {
    if text.len() > PATTERN_MAX {
        return Err(BadPattern {
            position: PATTERN_MAX,
            reason: PatternFault::TooLong,
        });
    }
    let mut parser = PatternParser { text, at: 0 };
    let pieces = parser.sequence(0)?;
    match parser.peek() {
        None => Ok(pieces),
        // A sequence ends early only at a closing brace that nothing has opened.
        Some(_) => Err(parser.fault(PatternFault::StrayBrace)),
    }
}

struct PatternParser<'a> {
    text: &'a str,
    at: usize,
}

impl PatternParser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take_if(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.at += expected.len_utf8();
        }
        found
    }

    fn fault(&self, reason: PatternFault) -> BadPattern {
        BadPattern {
            position: self.at,
            reason,
        }
    }

    /// Up to the end of the text, or to the end of an alternative within braces.
    fn sequence(&mut self, depth: usize) -> Result<Vec<PatternPiece>, BadPattern> {
        let mut pieces = Vec::new();
        while let Some(c) = self.peek() {
            // Outside of braces a comma is an ordinary character.
            if c == '}' || c == ',' && depth > 0 {
                break;
            }
            let start = self.at;
            let kind = self.piece(c, depth)?;
            pieces.push(PatternPiece {
                start,
                end: self.at,
                kind,
            });
        }
        Ok(pieces)
    }

    fn piece(&mut self, c: char, depth: usize) -> Result<PieceKind, BadPattern> {
        match c {
            '{' => return Ok(PieceKind::Braces(self.braces(depth)?)),
            '[' => return Ok(PieceKind::Token(GlobToken::Class(self.class()?))),
            '\\' => return Ok(PieceKind::Token(GlobToken::Char(self.escaped()?))),
            '\0' => return Err(self.fault(PatternFault::Nul)),
            _ => self.take(),
        };
        Ok(match c {
            '/' => PieceKind::Slash,
            '*' => PieceKind::Token(GlobToken::Star),
            '?' => PieceKind::Token(GlobToken::Any),
            c => PieceKind::Token(GlobToken::Char(c)),
        })
    }

    fn braces(&mut self, depth: usize) -> Result<Vec<Vec<PatternPiece>>, BadPattern> {
        let open = self.at;
        if depth == NESTING_MAX {
            return Err(self.fault(PatternFault::DeepBraces));
        }
        self.take();
        let mut alternatives = Vec::new();
        loop {
            alternatives.push(self.sequence(depth + 1)?);
            match self.take() {
                Some(',') => continue,
                // Only a closing brace is left: a sequence ends at nothing else.
                Some(_) => break,
                None => {
                    return Err(BadPattern {
                        position: open,
                        reason: PatternFault::OpenBraces,
                    });
                }
            }
        }
        match &alternatives[..] {
            // `{}` is refused, where `{,a}` is a choice between nothing and a name.
            [only] if only.is_empty() => Err(BadPattern {
                position: open,
                reason: PatternFault::EmptyBraces,
            }),
            _ => Ok(alternatives),
        }
    }

    fn escaped(&mut self) -> Result<char, BadPattern> {
        let start = self.at;
        self.take();
        match self.take() {
            Some('/') => Err(BadPattern {
                position: start,
                reason: PatternFault::EscapedSlash,
            }),
            Some('\0') => Err(BadPattern {
                position: start + 1,
                reason: PatternFault::Nul,
            }),
            Some(c) => Ok(c),
            None => Err(BadPattern {
                position: start,
                reason: PatternFault::OpenEscape,
            }),
        }
    }

    /// A `]` that comes first is a character of the class.
    fn class(&mut self) -> Result<CharClass, BadPattern> {
        let open = self.at;
        self.take();
        let negated = self.take_if('!') || self.take_if('^');
        let mut ranges = Vec::new();
        // A bracket that comes first is a member, as in a shell.
        while ranges.is_empty() || self.peek() != Some(']') {
            let start = self.at;
            let low = self.class_member(open)?;
            let high = if self.has_range() {
                self.class_member(open)?
            } else {
                low
            };
            if low > high {
                return Err(BadPattern {
                    position: start,
                    reason: PatternFault::BackwardRange,
                });
            }
            ranges.push((low, high));
        }
        self.take();
        CharClass::new(ranges, negated).ok_or(BadPattern {
            position: open,
            reason: PatternFault::EmptyClass,
        })
    }

    /// Takes the `-` of a range. One before the closing `]` is a character.
    fn has_range(&mut self) -> bool {
        let rest = &self.text[self.at..];
        // A hyphen that comes last is a member, too.
        let found = rest.starts_with('-') && !rest[1..].starts_with(']');
        if found {
            self.at += 1;
        }
        found
    }

    fn class_member(&mut self, open: usize) -> Result<char, BadPattern> {
        match self.peek() {
            None => Err(BadPattern {
                position: open,
                reason: PatternFault::OpenClass,
            }),
            Some('/') => Err(self.fault(PatternFault::SlashInClass)),
            Some('\0') => Err(self.fault(PatternFault::Nul)),
            Some('\\') => self.escaped(),
            Some(c) => {
                self.take();
                Ok(c)
            }
        }
    }
}
