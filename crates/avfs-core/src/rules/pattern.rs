//! Patterns of paths: how they are written and what they match.
//!
//! A pattern means the set of its alternatives, which are what its braces expand to, as text; each is a path whose
//! components are globs or `**`. A `/` at the end is `**`, which stands for any number of components, none included.

use std::fmt;
use std::sync::Arc;

use super::glob::{Glob, Name};
use crate::name::{EntryName, TreePath};

mod expand;
mod parse;

/// The longest pattern, in bytes.
pub const PATTERN_MAX: usize = 4096;

/// Why a text is not a pattern, and the byte where that shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {position}: {reason}")]
pub struct BadPattern {
    pub position: usize,
    pub reason: PatternFault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    #[error("a pattern cannot be empty: '/' is everything")]
    Empty,
    #[error("a pattern has at most {PATTERN_MAX} bytes")]
    TooLong,
    #[error("a name cannot contain a NUL byte")]
    Nul,
    #[error("a name cannot be empty: write one '/'")]
    EmptyComponent,
    #[error("'.' and '..' are not names in a vault: write the path from the vault's root")]
    Dots,
    #[error("'**' stands for whole names: write '*' within a name")]
    DeepWithinName,
    #[error("'[' is not closed by ']'")]
    OpenClass,
    #[error("'[' … ']' is about one character of a name: it cannot hold '/'")]
    SlashInClass,
    #[error("a range of characters goes upwards")]
    BackwardRange,
    #[error("'[' … ']' matches no character")]
    EmptyClass,
    #[error("'{{' is not closed by '}}'")]
    OpenBraces,
    #[error("'}}' has no '{{' before it: write '\\}}' for the character")]
    StrayBrace,
    #[error("'{{}}' holds no alternatives")]
    EmptyBraces,
    #[error("braces are nested too deeply")]
    DeepBraces,
    #[error("the braces stand for too many alternatives")]
    TooManyAlternatives,
    #[error("one of the alternatives is an empty path")]
    EmptyAlternative,
    #[error("'\\' escapes the character after it, and there is none")]
    OpenEscape,
    #[error("'/' separates names and cannot be escaped")]
    EscapedSlash,
}

/// Which paths a rule is about. Displays as it was written; clones share.
#[derive(Clone)]
pub struct Pattern {
    text: Arc<str>,
    alternatives: Arc<[Alternative]>,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, BadPattern> {
        let alternatives = expand::alternatives(text, parse::parse(text)?)?;
        Ok(Pattern { text: text.into(), alternatives: alternatives.into() })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn matches(&self, path: &TreePath) -> bool {
        self.matching_alternative(path).is_some()
    }

    /// Which of the alternatives that the braces stand for matches; the text of it.
    pub fn matching_alternative(&self, path: &TreePath) -> Option<&str> {
        let names: Vec<EntryName> = path.components().collect();
        Some(&self.alternatives.iter().find(|alternative| alternative.matches(&names))?.text)
    }

    pub(super) fn matches_names(&self, names: &[EntryName]) -> bool {
        self.alternatives.iter().any(|alternative| alternative.matches(names))
    }

    /// Whether it has several alternatives.
    pub fn has_alternatives(&self) -> bool {
        self.alternatives.len() > 1
    }

    /// The patterns without braces that it stands for.
    pub fn texts(&self) -> Vec<&str> {
        self.alternatives.iter().map(|alternative| &*alternative.text).collect()
    }

    /// The pattern that matches this path and no other; `None` for a path that no text can name.
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

    pub(super) fn alternatives(&self) -> &[Alternative] {
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
pub(super) struct Alternative {
    pub(super) text: String,
    /// No two [`Component::Deep`] stand side by side.
    pub(super) components: Vec<Component>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Component {
    /// `**`
    Deep,
    Name(Glob),
}

impl Alternative {
    /// As with stars in a name: only the last `**` that was met can need to take more.
    fn matches(&self, names: &[EntryName]) -> bool {
        let (mut component, mut name) = (0, 0);
        let mut deep: Option<(usize, usize)> = None;
        while name < names.len() {
            match self.components.get(component) {
                Some(Component::Deep) => {
                    deep = Some((component, name));
                    component += 1;
                }
                Some(Component::Name(glob)) if glob.matches(&Name::new(names[name].as_bytes())) => {
                    component += 1;
                    name += 1;
                }
                _ => {
                    let Some((at, taken)) = deep else { return false };
                    deep = Some((at, taken + 1));
                    (component, name) = (at + 1, taken + 1);
                }
            }
        }
        self.components[component..].iter().all(|component| *component == Component::Deep)
    }

    /// A path that it matches, in which `**` stands for `depth` names. A name of it may be longer than names can be.
    pub(super) fn example(&self, filler: char, depth: usize) -> Vec<EntryName> {
        let mut names = Vec::new();
        for component in &self.components {
            match component {
                Component::Deep => names.extend((0..depth).map(|_| filler.to_string())),
                Component::Name(glob) => names.push(glob.example(filler)),
            }
        }
        names.iter().map(|name| EntryName::unchecked(name.as_bytes())).collect()
    }

    /// A name that is in every path that it matches.
    pub(super) fn required_name(&self) -> Option<&[u8]> {
        self.components.iter().find_map(|component| match component {
            Component::Name(glob) => glob.literal(),
            Component::Deep => None,
        })
    }
}
