//! From the pieces of a pattern to its alternatives: braces are expanded and names are cut at `/`.

use super::parse::{PatternPiece, PieceKind};
use super::{BadPattern, PatternAlternative, PatternComponent, PatternFault};
use crate::rules::glob::{Glob, GlobToken};

const ALTERNATIVES_MAX: usize = 1024;
/// The limit over all alternatives, from which a matcher is built.
const LETTERS_MAX: usize = 65_536;

/// A token of an alternative, or `None` for a `/`, and the bytes of the text that it was read from.
#[derive(Clone)]
struct PatternLetter {
    start: usize,
    end: usize,
    token: Option<GlobToken>,
}

pub(super) fn alternatives(
    text: &str,
    pieces: Vec<PatternPiece>,
) -> Result<Vec<PatternAlternative>, BadPattern> {
    if pieces.is_empty() {
        return Err(BadPattern {
            position: 0,
            reason: PatternFault::Empty,
        });
    }
    let expanded = expand(&pieces)?;
    let is_plain = pieces
        .iter()
        .all(|piece| !matches!(piece.kind, PieceKind::Braces(_)));
    expanded
        .iter()
        .map(|letters| alternative(text, letters, is_plain))
        .collect()
}

fn expand(pieces: &[PatternPiece]) -> Result<Vec<Vec<PatternLetter>>, BadPattern> {
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

fn append(expanded: &mut [Vec<PatternLetter>], piece: &PatternPiece, token: Option<GlobToken>) {
    for letters in expanded {
        letters.push(PatternLetter {
            start: piece.start,
            end: piece.end,
            token: token.clone(),
        });
    }
}

fn multiply(
    starts: &[Vec<PatternLetter>],
    choices: &[Vec<PatternPiece>],
    position: usize,
) -> Result<Vec<Vec<PatternLetter>>, BadPattern> {
    let too_many = BadPattern {
        position,
        reason: PatternFault::TooManyAlternatives,
    };
    let mut ends = Vec::new();
    for choice in choices {
        ends.extend(expand(choice)?);
    }
    let letters = |all: &[Vec<PatternLetter>]| all.iter().map(Vec::len).sum::<usize>();
    let product = letters(starts) * ends.len() + letters(&ends) * starts.len();
    if starts.len() * ends.len() > ALTERNATIVES_MAX || product > LETTERS_MAX {
        return Err(too_many);
    }
    let joined = |start: &Vec<PatternLetter>| {
        ends.iter()
            .map(|end| [&start[..], end].concat())
            .collect::<Vec<_>>()
    };
    Ok(starts.iter().flat_map(joined).collect())
}

fn alternative(
    text: &str,
    letters: &[PatternLetter],
    is_plain: bool,
) -> Result<PatternAlternative, BadPattern> {
    let source: String = letters
        .iter()
        .map(|letter| &text[letter.start..letter.end])
        .collect();
    // The braces in `/{,a}` would make it match everything, which is never intended.
    if letters.is_empty() || letters.len() == 1 && letters[0].token.is_none() && !is_plain {
        return Err(BadPattern {
            position: 0,
            reason: PatternFault::EmptyAlternative,
        });
    }
    Ok(PatternAlternative {
        text: source,
        components: components(letters)?,
    })
}

fn components(letters: &[PatternLetter]) -> Result<Vec<PatternComponent>, BadPattern> {
    let mut components = Vec::new();
    let without_lead = if letters[0].token.is_none() {
        &letters[1..]
    } else {
        letters
    };
    let mut rest = without_lead;
    while !rest.is_empty() {
        let length = rest
            .iter()
            .position(|letter| letter.token.is_none())
            .unwrap_or(rest.len());
        push(&mut components, component(&rest[..length], &rest[0])?);
        rest = rest.get(length + 1..).unwrap_or_default();
    }
    if letters.last().is_some_and(|last| last.token.is_none()) {
        push(&mut components, PatternComponent::Deep);
    }
    Ok(components)
}

fn push(components: &mut Vec<PatternComponent>, next: PatternComponent) {
    if next != PatternComponent::Deep || components.last() != Some(&PatternComponent::Deep) {
        components.push(next);
    }
}

/// `first` is the start of the component, or the `/` after it if it is empty.
fn component(letters: &[PatternLetter], first: &PatternLetter) -> Result<PatternComponent, BadPattern> {
    let fault = |position, reason| Err(BadPattern { position, reason });
    if letters.is_empty() {
        return fault(first.start, PatternFault::EmptyComponent);
    }
    if let Some(pair) = letters.windows(2).find(|pair| is_deep(pair)) {
        return match letters.len() {
            2 => Ok(PatternComponent::Deep),
            _ => fault(pair[0].start, PatternFault::DeepWithinName),
        };
    }
    let glob = Glob::new(letters.iter().filter_map(|letter| letter.token.clone()).collect());
    match glob.literal() {
        Some(b"." | b"..") => fault(first.start, PatternFault::Dots),
        _ => Ok(PatternComponent::Name(glob)),
    }
}

/// Two adjacent stars in the text. Stars that become adjacent through braces are one `*`.
fn is_deep(pair: &[PatternLetter]) -> bool {
    pair.iter().all(|letter| letter.token == Some(GlobToken::Star)) && pair[0].end == pair[1].start
}
