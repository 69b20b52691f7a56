//! Patterns of paths: their syntax and what they match.
//!
//! A pattern matches whatever one of its alternatives matches. The alternatives are the textual expansions of
//! its braces; each is a path whose components are globs or `**`. A `/` at the end means `**`, which matches
//! any number of components, including none.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::glob::{Glob, GlobbedName};
use crate::name::{EntryName, TreePath};

mod expand;
mod parse;

/// The longest pattern, in bytes.
pub const PATTERN_MAX: usize = 4096;

/// Why a text is not a pattern, and the byte at which the error is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {position}: {reason}")]
pub struct BadPattern {
    /// The byte of the text at which the error is.
    pub position: usize,
    /// What is wrong there.
    pub reason: PatternFault,
}

/// What is wrong with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    /// It is empty.
    #[error("a pattern cannot be empty: '/' is everything")]
    Empty,
    /// It has more than [`PATTERN_MAX`] bytes.
    #[error("a pattern has at most {PATTERN_MAX} bytes")]
    TooLong,
    /// It has a NUL byte.
    #[error("a name cannot contain a NUL byte")]
    Nul,
    /// It has two slashes in a row.
    #[error("a name cannot be empty: write one '/'")]
    EmptyComponent,
    /// It has `.` or `..` as a component.
    #[error("'.' and '..' are not names in a vault: write the path from the vault's root")]
    Dots,
    /// It has `**` next to other characters of a component.
    #[error("'**' stands for whole names: write '*' within a name")]
    DeepWithinName,
    /// A `[` is not closed.
    #[error("'[' is not closed by ']'")]
    OpenClass,
    /// A slash is between brackets.
    #[error("'[' … ']' is about one character of a name: it cannot hold '/'")]
    SlashInClass,
    /// A range in brackets ends before it begins.
    #[error("a range of characters goes upwards")]
    BackwardRange,
    /// Brackets have nothing between them.
    #[error("'[' … ']' matches no character")]
    EmptyClass,
    /// A `{` is not closed.
    #[error("'{{' is not closed by '}}'")]
    OpenBraces,
    /// A `}` has no `{` before it.
    #[error("'}}' has no '{{' before it: write '\\}}' for the character")]
    StrayBrace,
    /// Braces hold no alternatives.
    #[error("'{{}}' holds no alternatives")]
    EmptyBraces,
    /// Braces are within braces.
    #[error("braces are nested too deeply")]
    DeepBraces,
    /// The braces stand for too many alternatives.
    #[error("the braces stand for too many alternatives")]
    TooManyAlternatives,
    /// An alternative is empty where that would be an empty name.
    #[error("one of the alternatives is an empty path")]
    EmptyAlternative,
    /// It ends with a backslash.
    #[error("'\\' escapes the character after it, and there is none")]
    OpenEscape,
    /// A backslash is before a slash.
    #[error("'/' separates names and cannot be escaped")]
    EscapedSlash,
}

/// A set of paths. Displays as it was written; clones share.
#[derive(Clone)]
pub struct Pattern {
    text: Arc<str>,
    alternatives: Arc<[PatternAlternative]>,
}

/// Parsed patterns by their texts: records with the rules of a preset are read over and over.
static KNOWN: LazyLock<Mutex<HashMap<Arc<str>, Pattern>>> = LazyLock::new(Mutex::default);
const KNOWN_MAX: usize = 1024;

impl Pattern {
    /// Checks a text.
    pub fn parse(text: &str) -> Result<Pattern, BadPattern> {
        let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pattern) = lock().get(text) {
            return Ok(pattern.clone());
        }
        let alternatives = expand::alternatives(text, parse::parse(text)?)?;
        let pattern = Pattern {
            text: text.into(),
            alternatives: alternatives.into(),
        };
        let mut known = lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(Arc::clone(&pattern.text), pattern.clone());
        Ok(pattern)
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches this path itself; rules also apply below directories.
    pub fn matches(&self, path: &TreePath) -> bool {
        self.matching_alternative(path).is_some()
    }

    /// The text of the alternative that matches, among those that the braces stand for.
    pub fn matching_alternative(&self, path: &TreePath) -> Option<&str> {
        let names: Vec<EntryName> = path.components().collect();
        Some(
            &self
                .alternatives
                .iter()
                .find(|alternative| alternative.matches(&names))?
                .text,
        )
    }

    pub(super) fn matches_names(&self, names: &[EntryName]) -> bool {
        self.alternatives
            .iter()
            .any(|alternative| alternative.matches(names))
    }

    /// Whether the pattern has several alternatives.
    pub fn has_alternatives(&self) -> bool {
        self.alternatives.len() > 1
    }

    /// The brace-free patterns that it stands for.
    pub fn texts(&self) -> Vec<&str> {
        self.alternatives
            .iter()
            .map(|alternative| &*alternative.text)
            .collect()
    }

    /// The pattern that matches this path and no other; `None` for a path that text cannot express.
    pub fn exactly(path: &TreePath) -> Option<Pattern> {
        let mut text = String::from("/");
        for character in std::str::from_utf8(path.as_bytes()).ok()?.chars() {
            if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | ',' | '\\') {
                text.push('\\');
            }
            text.push(character);
        }
        Pattern::parse(&text).ok()
    }

    /// The pattern that matches everything but this path and what is below it. It has no text that can be
    /// parsed: it is for rules that are never stored. `None` for the root, and for a path that is not text.
    pub(super) fn outside_of(path: &TreePath) -> Option<Pattern> {
        let names: Vec<&str> = std::str::from_utf8(path.as_bytes()).ok()?.split('/').collect();
        if path.is_root() {
            return None;
        }
        let text: Arc<str> = format!("outside of /{}", names.join("/")).into();
        let alternative = |components: Vec<PatternComponent>| PatternAlternative {
            text: text.to_string(),
            components,
        };
        let mut above: Vec<PatternComponent> = Vec::new();
        let mut alternatives = Vec::new();
        for name in names {
            alternatives.push(alternative(above.clone()));
            for glob in Glob::all_but(name) {
                let beside = above.iter().cloned();
                let beside = beside.chain([PatternComponent::Name(glob), PatternComponent::Deep]);
                alternatives.push(alternative(beside.collect()));
            }
            above.push(PatternComponent::Name(Glob::literally(name)));
        }
        Some(Pattern {
            text,
            alternatives: alternatives.into(),
        })
    }

    pub(super) fn alternatives(&self) -> &[PatternAlternative] {
        &self.alternatives
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A pattern without braces.
#[derive(Clone, Debug)]
pub(super) struct PatternAlternative {
    pub(super) text: String,
    /// Two [`PatternComponent::Deep`] are never adjacent.
    pub(super) components: Vec<PatternComponent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatternComponent {
    /// `**`
    Deep,
    Name(Glob),
}

impl PatternAlternative {
    /// As with stars in a name: only the last `**` that was reached can need to match more.
    fn matches(&self, names: &[EntryName]) -> bool {
        let mut component = 0;
        let mut name = 0;
        let mut deep: Option<(usize, usize)> = None;
        while name < names.len() {
            match self.components.get(component) {
                Some(PatternComponent::Deep) => {
                    deep = Some((component, name));
                    component += 1;
                }
                Some(PatternComponent::Name(glob))
                    if glob.matches(&GlobbedName::new(names[name].as_bytes())) =>
                {
                    component += 1;
                    name += 1;
                }
                _ => {
                    let Some((at, taken)) = deep else { return false };
                    deep = Some((at, taken + 1));
                    component = at + 1;
                    name = taken + 1;
                }
            }
        }
        self.components[component..]
            .iter()
            .all(|component| *component == PatternComponent::Deep)
    }

    /// A path that it matches, in which `**` stands for `depth` names. One of its names may exceed the
    /// maximum length.
    pub(super) fn example(&self, filler: char, depth: usize) -> Vec<EntryName> {
        let mut names = Vec::new();
        for component in &self.components {
            match component {
                PatternComponent::Deep => names.extend((0..depth).map(|_| filler.to_string())),
                PatternComponent::Name(glob) => names.push(glob.example(filler)),
            }
        }
        names
            .iter()
            .map(|name| EntryName::unchecked(name.as_bytes()))
            .collect()
    }

    /// A name that every matching path contains.
    pub(super) fn required_name(&self) -> Option<&[u8]> {
        self.components.iter().find_map(|component| match component {
            PatternComponent::Name(glob) => glob.literal(),
            PatternComponent::Deep => None,
        })
    }
}
