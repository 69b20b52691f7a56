//! What one component of a pattern matches: names.
//!
//! A name is read as symbols: the characters that its bytes encode, and each byte that is part of no character as
//! a symbol of its own. A pattern is text, so it cannot tell such bytes apart: only `*` matches them.

use std::cell::OnceCell;

/// A character, or [`INVALID`] for a byte that belongs to none.
pub(super) type Symbol = u32;

/// Beyond all characters.
pub(super) const INVALID: Symbol = 0x11_0000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Token {
    Char(char),
    /// `?`
    Any,
    /// `[…]`
    Class(Class),
    /// `*`
    Star,
}

impl Token {
    /// Whether it matches this one symbol. A `*` is not asked: it matches any number of them.
    pub(super) fn takes(&self, symbol: Symbol) -> bool {
        match self {
            Token::Char(c) => *c as Symbol == symbol,
            Token::Any => symbol < INVALID,
            Token::Class(class) => class.contains(symbol),
            Token::Star => true,
        }
    }
}

/// Characters: ascending inclusive ranges with gaps between them, without NUL and `/`, which no name has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class(Box<[(Symbol, Symbol)]>);

/// What no name has: NUL, `/`, and the numbers that are no characters.
const NOT_IN_NAMES: [(Symbol, Symbol); 3] = [(0, 0), (b'/' as Symbol, b'/' as Symbol), (0xd800, 0xdfff)];

impl Class {
    /// `None` if nothing is left of it.
    pub(super) fn new(ranges: Vec<(char, char)>, negated: bool) -> Option<Class> {
        let listed = merged(ranges.into_iter().map(|(low, high)| (low as Symbol, high as Symbol)).collect());
        let kept = if negated {
            without(&[(0, INVALID - 1)], &merged([&listed[..], &NOT_IN_NAMES].concat()))
        } else {
            without(&listed, &NOT_IN_NAMES)
        };
        (!kept.is_empty()).then(|| Class(kept.into()))
    }

    pub(super) fn contains(&self, symbol: Symbol) -> bool {
        self.0.iter().any(|(low, high)| (*low..=*high).contains(&symbol))
    }

    pub(super) fn ranges(&self) -> &[(Symbol, Symbol)] {
        &self.0
    }

    /// The only character of it, if it has one.
    pub(super) fn single(&self) -> Option<char> {
        match self.0[..] {
            [(low, high)] if low == high => char::from_u32(low),
            _ => None,
        }
    }

    /// A character of it, another one than `.` if there is one.
    pub(super) fn example(&self) -> char {
        let ends = self.0.iter().flat_map(|(low, high)| [*low, *high]);
        let other = ends.clone().find(|symbol| *symbol != '.' as Symbol);
        other.or(ends.clone().next()).and_then(char::from_u32).expect("a class has characters")
    }
}

fn merged(mut ranges: Vec<(Symbol, Symbol)>) -> Vec<(Symbol, Symbol)> {
    ranges.sort_unstable();
    let mut merged: Vec<(Symbol, Symbol)> = Vec::new();
    for (low, high) in ranges {
        match merged.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => merged.push((low, high)),
        }
    }
    merged
}

/// `ranges` without the `holes`; both ascending.
fn without(ranges: &[(Symbol, Symbol)], holes: &[(Symbol, Symbol)]) -> Vec<(Symbol, Symbol)> {
    let mut kept = Vec::new();
    for &(mut low, high) in ranges {
        for &(hole_low, hole_high) in holes {
            if hole_high < low || hole_low > high {
                continue;
            }
            if low < hole_low {
                kept.push((low, hole_low - 1));
            }
            low = hole_high + 1;
        }
        if low <= high {
            kept.push((low, high));
        }
    }
    kept
}

/// A name that is matched against many globs.
pub(super) struct Name<'a> {
    bytes: &'a [u8],
    symbols: OnceCell<Vec<Symbol>>,
}

impl<'a> Name<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Name<'a> {
        Name { bytes, symbols: OnceCell::new() }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn symbols(&self) -> &[Symbol] {
        self.symbols.get_or_init(|| {
            let mut symbols = Vec::with_capacity(self.bytes.len());
            for chunk in self.bytes.utf8_chunks() {
                symbols.extend(chunk.valid().chars().map(Symbol::from));
                symbols.extend(chunk.invalid().iter().map(|_| INVALID));
            }
            symbols
        })
    }
}

/// One component of a pattern, without braces. Two stars never stand side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Glob {
    tokens: Box<[Token]>,
    shape: Shape,
}

/// The common forms, which are matched on bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Literal(Box<[u8]>),
    /// `text*`
    Prefix(Box<[u8]>),
    /// `*text`
    Suffix(Box<[u8]>),
    Mixed,
}

impl Glob {
    pub(super) fn new(tokens: Vec<Token>) -> Glob {
        let mut kept: Vec<Token> = Vec::with_capacity(tokens.len());
        for token in tokens.into_iter().map(simplest) {
            if token != Token::Star || kept.last() != Some(&Token::Star) {
                kept.push(token);
            }
        }
        Glob { shape: shape_of(&kept), tokens: kept.into() }
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Whether it matches every name.
    pub(super) fn is_any(&self) -> bool {
        self.tokens[..] == [Token::Star]
    }

    /// The only name that it matches, if it has no wildcard.
    pub(super) fn literal(&self) -> Option<&[u8]> {
        match &self.shape {
            Shape::Literal(text) => Some(text),
            Shape::Prefix(_) | Shape::Suffix(_) | Shape::Mixed => None,
        }
    }

    pub(super) fn matches(&self, name: &Name<'_>) -> bool {
        match &self.shape {
            Shape::Literal(text) => name.bytes == &text[..],
            Shape::Prefix(text) => name.bytes.starts_with(text),
            Shape::Suffix(text) => name.bytes.ends_with(text),
            Shape::Mixed => matches_tokens(&self.tokens, name.symbols()),
        }
    }

    /// A name that it matches, and that other globs match only if they have wildcards in the same places.
    pub(super) fn example(&self, filler: char) -> String {
        let character = |token: &Token| match token {
            Token::Char(c) => *c,
            Token::Class(class) => class.example(),
            Token::Any | Token::Star => filler,
        };
        self.tokens.iter().map(character).collect()
    }
}

fn simplest(token: Token) -> Token {
    match token {
        Token::Class(class) => class.single().map_or(Token::Class(class), Token::Char),
        Token::Char(_) | Token::Any | Token::Star => token,
    }
}

fn shape_of(tokens: &[Token]) -> Shape {
    let (without_first, without_last) = match tokens {
        [Token::Star, rest @ ..] => (literal_of(rest), None),
        [start @ .., Token::Star] => (None, literal_of(start)),
        all => return literal_of(all).map_or(Shape::Mixed, Shape::Literal),
    };
    match (without_first, without_last) {
        (Some(text), _) => Shape::Suffix(text),
        (_, Some(text)) => Shape::Prefix(text),
        (None, None) => Shape::Mixed,
    }
}

fn literal_of(tokens: &[Token]) -> Option<Box<[u8]>> {
    let character = |token: &Token| match token {
        Token::Char(c) => Some(*c),
        Token::Any | Token::Class(_) | Token::Star => None,
    };
    let text: Option<String> = tokens.iter().map(character).collect();
    Some(text?.into_bytes().into())
}

/// Only the last star that was met can need to take more: an earlier one would leave it less choice.
fn matches_tokens(tokens: &[Token], symbols: &[Symbol]) -> bool {
    let (mut token, mut symbol) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while symbol < symbols.len() {
        match tokens.get(token) {
            Some(Token::Star) => {
                star = Some((token, symbol));
                token += 1;
            }
            Some(single) if single.takes(symbols[symbol]) => {
                token += 1;
                symbol += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (token, symbol) = (at + 1, taken + 1);
            }
        }
    }
    tokens[token..].iter().all(|token| *token == Token::Star)
}
