//! Matches one component of a pattern: a name.
//!
//! A name is read as symbols: the characters that its bytes encode, and each byte that is not part of a
//! character as a symbol of its own. A pattern is text, so it cannot distinguish such bytes: only `*` matches
//! them.

use std::cell::OnceCell;

/// A character, or [`INVALID`] for a byte that is not part of one.
pub(super) type Symbol = u32;

/// Greater than all characters.
pub(super) const INVALID: Symbol = 0x11_0000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum GlobToken {
    Char(char),
    /// `?`
    Any,
    /// `[…]`
    Class(CharClass),
    /// `*`
    Star,
}

impl GlobToken {
    /// Whether it matches this one symbol. Never called for `*`, which matches any number of symbols.
    pub(super) fn takes(&self, symbol: Symbol) -> bool {
        match self {
            GlobToken::Char(c) => *c as Symbol == symbol,
            GlobToken::Any => symbol < INVALID,
            GlobToken::Class(class) => class.contains(symbol),
            GlobToken::Star => true,
        }
    }
}

/// Characters: ascending inclusive ranges with gaps between them, without NUL and `/`, which names cannot
/// contain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CharClass(Box<[(Symbol, Symbol)]>);

/// Symbols that names cannot contain: NUL, `/`, and the numbers that are not characters.
const NOT_IN_NAMES: [(Symbol, Symbol); 3] = [(0, 0), (b'/' as Symbol, b'/' as Symbol), (0xd800, 0xdfff)];

impl CharClass {
    /// `None` if the class is empty.
    pub(super) fn new(ranges: Vec<(char, char)>, negated: bool) -> Option<CharClass> {
        let listed = merged(
            ranges
                .into_iter()
                .map(|(low, high)| (low as Symbol, high as Symbol))
                .collect(),
        );
        let kept = if negated {
            without(
                // Without bytes that are no characters: `[!a]` stands for one character.
                &[(0, INVALID - 1)],
                &merged([&listed[..], &NOT_IN_NAMES].concat()),
            )
        } else {
            without(&listed, &NOT_IN_NAMES)
        };
        (!kept.is_empty()).then(|| CharClass(kept.into()))
    }

    /// Every symbol but one, including bytes that are not part of a character.
    pub(super) fn all_but(character: Option<char>) -> CharClass {
        let one = character.map(|one| (one as Symbol, one as Symbol));
        let holes: Vec<(Symbol, Symbol)> = NOT_IN_NAMES.into_iter().chain(one).collect();
        // With them: a name that differs in such a byte is another name, too.
        CharClass(without(&[(0, INVALID)], &merged(holes)).into())
    }

    pub(super) fn contains(&self, symbol: Symbol) -> bool {
        self.0.iter().any(|(low, high)| (*low..=*high).contains(&symbol))
    }

    pub(super) fn ranges(&self) -> &[(Symbol, Symbol)] {
        &self.0
    }

    /// Its only character, if it has exactly one.
    pub(super) fn single(&self) -> Option<char> {
        match self.0[..] {
            [(low, high)] if low == high => char::from_u32(low),
            _ => None,
        }
    }

    /// One of its characters, other than `.` if possible.
    pub(super) fn example(&self) -> char {
        let ends = self.0.iter().flat_map(|(low, high)| [*low, *high]);
        // A name of dots alone may be no name at all.
        let other = ends.clone().find(|symbol| *symbol != '.' as Symbol);
        other
            .or(ends.clone().next())
            .and_then(char::from_u32)
            .expect("a class has characters")
    }
}

fn merged(mut ranges: Vec<(Symbol, Symbol)>) -> Vec<(Symbol, Symbol)> {
    ranges.sort_unstable();
    let mut merged: Vec<(Symbol, Symbol)> = Vec::new();
    for (low, high) in ranges {
        match merged.last_mut() {
            // Neighbours are joined as well, so that equal sets are equal values.
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
pub(super) struct GlobbedName<'a> {
    bytes: &'a [u8],
    symbols: OnceCell<Vec<Symbol>>,
}

impl<'a> GlobbedName<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> GlobbedName<'a> {
        GlobbedName {
            bytes,
            symbols: OnceCell::new(),
        }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn symbols(&self) -> &[Symbol] {
        self.symbols.get_or_init(|| {
            let mut symbols = Vec::with_capacity(self.bytes.len());
            for chunk in self.bytes.utf8_chunks() {
                symbols.extend(chunk.valid().chars().map(Symbol::from));
                // Each such byte is one symbol, which stars and negated components take.
                symbols.extend(chunk.invalid().iter().map(|_| INVALID));
            }
            symbols
        })
    }
}

/// One component of a pattern, without braces. Two stars are never adjacent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Glob {
    tokens: Box<[GlobToken]>,
    shape: GlobShape,
}

/// The common forms, which are matched on bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GlobShape {
    Literal(Box<[u8]>),
    /// `text*`
    Prefix(Box<[u8]>),
    /// `*text`
    Suffix(Box<[u8]>),
    Mixed,
}

impl Glob {
    pub(super) fn new(tokens: Vec<GlobToken>) -> Glob {
        let mut kept: Vec<GlobToken> = Vec::with_capacity(tokens.len());
        for token in tokens.into_iter().map(simplest) {
            // Two stars in a row take what one takes, and cost a search in a search.
            if token != GlobToken::Star || kept.last() != Some(&GlobToken::Star) {
                kept.push(token);
            }
        }
        Glob {
            shape: shape_of(&kept),
            tokens: kept.into(),
        }
    }

    /// The glob that matches this name and no other.
    pub(super) fn literally(name: &str) -> Glob {
        Glob::new(name.chars().map(GlobToken::Char).collect())
    }

    /// Globs that together match every name but this one.
    pub(super) fn all_but(name: &str) -> Vec<Glob> {
        let characters: Vec<char> = name.chars().collect();
        let start = |length: usize| characters[..length].iter().copied().map(GlobToken::Char);
        let other = |length: usize| {
            let class = CharClass::all_but(characters.get(length).copied());
            let tokens = start(length).chain([GlobToken::Class(class), GlobToken::Star]);
            Glob::new(tokens.collect())
        };
        // Every other name leaves this one at some character, or ends before it does.
        let shorter = (1..characters.len()).map(|length| Glob::new(start(length).collect()));
        (0..=characters.len()).map(other).chain(shorter).collect()
    }

    pub(super) fn tokens(&self) -> &[GlobToken] {
        &self.tokens
    }

    /// Whether it matches every name.
    pub(super) fn is_any(&self) -> bool {
        self.tokens[..] == [GlobToken::Star]
    }

    /// The only name that it matches, if it has no wildcard.
    pub(super) fn literal(&self) -> Option<&[u8]> {
        match &self.shape {
            GlobShape::Literal(text) => Some(text),
            GlobShape::Prefix(_) | GlobShape::Suffix(_) | GlobShape::Mixed => None,
        }
    }

    pub(super) fn matches(&self, name: &GlobbedName<'_>) -> bool {
        match &self.shape {
            GlobShape::Literal(text) => name.bytes == &text[..],
            GlobShape::Prefix(text) => name.bytes.starts_with(text),
            GlobShape::Suffix(text) => name.bytes.ends_with(text),
            GlobShape::Mixed => matches_tokens(&self.tokens, name.symbols()),
        }
    }

    /// A name that it matches, and that other globs match only if they have wildcards in the same places.
    pub(super) fn example(&self, filler: char) -> String {
        let character = |token: &GlobToken| match token {
            GlobToken::Char(c) => *c,
            GlobToken::Class(class) => class.example(),
            GlobToken::Any | GlobToken::Star => filler,
        };
        self.tokens.iter().map(character).collect()
    }
}

fn simplest(token: GlobToken) -> GlobToken {
    match token {
        GlobToken::Class(class) => class.single().map_or(GlobToken::Class(class), GlobToken::Char),
        GlobToken::Char(_) | GlobToken::Any | GlobToken::Star => token,
    }
}

fn shape_of(tokens: &[GlobToken]) -> GlobShape {
    let (without_first, without_last) = match tokens {
        [GlobToken::Star, rest @ ..] => (literal_of(rest), None),
        [start @ .., GlobToken::Star] => (None, literal_of(start)),
        all => return literal_of(all).map_or(GlobShape::Mixed, GlobShape::Literal),
    };
    match (without_first, without_last) {
        (Some(text), _) => GlobShape::Suffix(text),
        (_, Some(text)) => GlobShape::Prefix(text),
        (None, None) => GlobShape::Mixed,
    }
}

fn literal_of(tokens: &[GlobToken]) -> Option<Box<[u8]>> {
    let character = |token: &GlobToken| match token {
        GlobToken::Char(c) => Some(*c),
        GlobToken::Any | GlobToken::Class(_) | GlobToken::Star => None,
    };
    let text: Option<String> = tokens.iter().map(character).collect();
    Some(text?.into_bytes().into())
}

/// Only the last star that was reached can need to match more: an earlier one would have fewer options.
fn matches_tokens(tokens: &[GlobToken], symbols: &[Symbol]) -> bool {
    let mut token = 0;
    let mut symbol = 0;
    let mut star: Option<(usize, usize)> = None;
    while symbol < symbols.len() {
        match tokens.get(token) {
            Some(GlobToken::Star) => {
                star = Some((token, symbol));
                token += 1;
            }
            Some(single) if single.takes(symbols[symbol]) => {
                token += 1;
                symbol += 1;
            }
            _ => {
                // The last star takes one symbol more, and everything after it is tried again.
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                token = at + 1;
                symbol = taken + 1;
            }
        }
    }
    tokens[token..].iter().all(|token| *token == GlobToken::Star)
}
