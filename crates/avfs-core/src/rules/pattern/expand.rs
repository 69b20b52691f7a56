//! From the pieces of a pattern to its alternatives: braces are expanded and names are cut at `/`.

use super::parse::{Piece, PieceKind};
use super::{Alternative, BadPattern, Component, PatternFault};
use crate::rules::glob::{Glob, Token};

const ALTERNATIVES_MAX: usize = 1024;
/// Over all alternatives: what a matcher is built from.
const LETTERS_MAX: usize = 65_536;

/// A token of an alternative, or `None` for a `/`, and the bytes of the text that it was read from.
#[derive(Clone)]
struct Letter {
    start: usize,
    end: usize,
    token: Option<Token>,
}

pub(super) fn alternatives(text: &str, pieces: Vec<Piece>) -> Result<Vec<Alternative>, BadPattern> {
    if pieces.is_empty() {
        return Err(BadPattern { position: 0, reason: PatternFault::Empty });
    }
    let expanded = expand(&pieces)?;
    let is_plain = pieces.iter().all(|piece| !matches!(piece.kind, PieceKind::Braces(_)));
    expanded.iter().map(|letters| alternative(text, letters, is_plain)).collect()
}

fn expand(pieces: &[Piece]) -> Result<Vec<Vec<Letter>>, BadPattern> {
    let mut expanded = vec![Vec::new()];
    for piece in pieces {
        match &piece.kind {
            PieceKind::Token(token) => append(&mut expanded, piece, Some(token.clone())),
            PieceKind::Slash => append(&mut expanded, piece, None),
            PieceKind::Braces(choices) => expanded = multiply(&expanded, choices, piece.start)?,
        }
    }
    Ok(expanded)
}

fn append(expanded: &mut [Vec<Letter>], piece: &Piece, token: Option<Token>) {
    for letters in expanded {
        letters.push(Letter { start: piece.start, end: piece.end, token: token.clone() });
    }
}

fn multiply(
    starts: &[Vec<Letter>],
    choices: &[Vec<Piece>],
    position: usize,
) -> Result<Vec<Vec<Letter>>, BadPattern> {
    let too_many = BadPattern { position, reason: PatternFault::TooManyAlternatives };
    let mut ends = Vec::new();
    for choice in choices {
        ends.extend(expand(choice)?);
    }
    let letters = |all: &[Vec<Letter>]| all.iter().map(Vec::len).sum::<usize>();
    let product = letters(starts) * ends.len() + letters(&ends) * starts.len();
    if starts.len() * ends.len() > ALTERNATIVES_MAX || product > LETTERS_MAX {
        return Err(too_many);
    }
    let joined = |start: &Vec<Letter>| ends.iter().map(|end| [&start[..], end].concat()).collect::<Vec<_>>();
    Ok(starts.iter().flat_map(joined).collect())
}

fn alternative(text: &str, letters: &[Letter], is_plain: bool) -> Result<Alternative, BadPattern> {
    let source: String = letters.iter().map(|letter| &text[letter.start..letter.end]).collect();
    // The braces in `/{,a}` would make it a pattern for everything, which nobody means.
    if letters.is_empty() || letters.len() == 1 && letters[0].token.is_none() && !is_plain {
        return Err(BadPattern { position: 0, reason: PatternFault::EmptyAlternative });
    }
    Ok(Alternative { text: source, components: components(letters)? })
}

fn components(letters: &[Letter]) -> Result<Vec<Component>, BadPattern> {
    let mut components = Vec::new();
    let without_lead = if letters[0].token.is_none() { &letters[1..] } else { letters };
    let mut rest = without_lead;
    while !rest.is_empty() {
        let length = rest.iter().position(|letter| letter.token.is_none()).unwrap_or(rest.len());
        push(&mut components, component(&rest[..length], &rest[0])?);
        rest = rest.get(length + 1..).unwrap_or_default();
    }
    if letters.last().is_some_and(|last| last.token.is_none()) {
        push(&mut components, Component::Deep);
    }
    Ok(components)
}

fn push(components: &mut Vec<Component>, next: Component) {
    if next != Component::Deep || components.last() != Some(&Component::Deep) {
        components.push(next);
    }
}

/// `first` is where the component starts, or the `/` behind it if it is empty.
fn component(letters: &[Letter], first: &Letter) -> Result<Component, BadPattern> {
    let fault = |position, reason| Err(BadPattern { position, reason });
    if letters.is_empty() {
        return fault(first.start, PatternFault::EmptyComponent);
    }
    if let Some(pair) = letters.windows(2).find(|pair| is_deep(pair)) {
        return match letters.len() {
            2 => Ok(Component::Deep),
            _ => fault(pair[0].start, PatternFault::DeepWithinName),
        };
    }
    let glob = Glob::new(letters.iter().filter_map(|letter| letter.token.clone()).collect());
    match glob.literal() {
        Some(b"." | b"..") => fault(first.start, PatternFault::Dots),
        _ => Ok(Component::Name(glob)),
    }
}

/// Two stars side by side in the text. Stars that braces bring together are one `*`.
fn is_deep(pair: &[Letter]) -> bool {
    pair.iter().all(|letter| letter.token == Some(Token::Star)) && pair[0].end == pair[1].start
}
