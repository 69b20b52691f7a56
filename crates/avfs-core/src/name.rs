//! Names of directory entries and paths of them, checked once.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;
/// The longest path, in bytes.
pub const PATH_MAX: usize = 4095;

/// Why bytes are not a name or a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// A name has no bytes.
    #[error("a name cannot be empty")]
    Empty,
    /// A name has so many bytes, which is more than [`NAME_MAX`].
    #[error("a name has at most {NAME_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// A name has a NUL byte.
    #[error("a name cannot contain a NUL byte")]
    Nul,
    /// A name has a slash.
    #[error("a name cannot contain '/'")]
    Slash,
    /// A name is `.` or `..`.
    #[error("'{0}' is not a name in a vault: write the path from the vault's root")]
    Dots(&'static str),
    /// A path has so many bytes, which is more than [`PATH_MAX`].
    #[error("a path has at most {PATH_MAX} bytes, this one has {0}")]
    PathTooLong(usize),
}

/// One path component: 1 to 255 bytes, no `/`, no NUL, not `.` or `..`. Any other bytes are allowed.
/// Clones share their bytes: a tree in memory holds each name in several places.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryName(Arc<[u8]>);

impl EntryName {
    /// Checks the bytes of a name.
    pub fn new(raw: &[u8]) -> Result<EntryName, BadName> {
        check_name(raw)?;
        Ok(EntryName(raw.into()))
    }

    /// For names that are only constructed to try patterns, and never stored.
    pub(crate) fn unchecked(raw: &[u8]) -> EntryName {
        EntryName(raw.into())
    }

    /// The bytes of the name. They need not be UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn check_name(raw: &[u8]) -> Result<(), BadName> {
    match raw {
        b"" => Err(BadName::Empty),
        b"." => Err(BadName::Dots(".")),
        b".." => Err(BadName::Dots("..")),
        _ if raw.contains(&0) => Err(BadName::Nul),
        _ if raw.contains(&b'/') => Err(BadName::Slash),
        _ if raw.len() > NAME_MAX => Err(BadName::TooLong(raw.len())),
        _ => Ok(()),
    }
}

impl TryFrom<&[u8]> for EntryName {
    type Error = BadName;

    fn try_from(raw: &[u8]) -> Result<EntryName, BadName> {
        EntryName::new(raw)
    }
}

impl Borrow<[u8]> for EntryName {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&printable(&self.0))
    }
}

impl fmt::Debug for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A path from the root of a vault: names joined by `/`, the root itself is empty.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    /// The path of the tree itself, `/`.
    pub fn root() -> TreePath {
        TreePath::default()
    }

    /// Reads a path as users write it: a leading `/`, doubled `/` and `.` components are ignored. `..` is
    /// refused, because nothing lies outside a vault.
    pub fn parse(raw: &[u8]) -> Result<TreePath, BadName> {
        let mut path = TreePath::root();
        for component in raw.split(|byte| *byte == b'/') {
            if !component.is_empty() && component != b"." {
                check_name(component)?;
                path.push_unchecked(component);
            }
        }
        if path.0.len() > PATH_MAX {
            return Err(BadName::PathTooLong(path.0.len()));
        }
        Ok(path)
    }

    fn push_unchecked(&mut self, component: &[u8]) {
        if !self.0.is_empty() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(component);
    }

    /// The path of an entry of this directory.
    pub fn join(&self, name: &EntryName) -> TreePath {
        let mut path = self.clone();
        path.push(name);
        path
    }

    /// Makes this the path of an entry of the directory that it names.
    pub fn push(&mut self, name: &EntryName) {
        self.push_unchecked(name.as_bytes());
    }

    /// The path `below`, seen from this directory.
    pub fn join_path(&self, below: &TreePath) -> TreePath {
        let mut path = self.clone();
        if !below.is_root() {
            path.push_unchecked(&below.0);
        }
        path
    }

    /// Whether it is `/`.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The names on the path, from the root down.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = EntryName> + '_ {
        let parts = self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
        parts.map(|part| EntryName(part.into()))
    }

    /// The names of the path as bytes, without a copy of each.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &[u8]> + '_ {
        self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
    }

    /// The path itself, or its first prefix that is longer than [`PATH_MAX`]: paths below that cannot be
    /// expressed.
    pub fn folded(&self) -> TreePath {
        let end = self.0.iter().skip(PATH_MAX + 1).position(|byte| *byte == b'/');
        let end = end.map_or(self.0.len(), |behind| PATH_MAX + 1 + behind);
        TreePath(self.0[..end].to_vec())
    }

    /// Shortens the path to its prefix of `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// The directory that holds this entry, and its name there; `None` for the root.
    pub fn split_last(&self) -> Option<(TreePath, EntryName)> {
        if self.is_root() {
            return None;
        }
        let (parent, name) = match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[][..], &self.0[..]),
        };
        Some((TreePath(parent.into()), EntryName(name.into())))
    }

    /// The last name; `None` for the root.
    pub fn name(&self) -> Option<EntryName> {
        Some(self.split_last()?.1)
    }

    /// Whether this is `ancestor` or lies below it.
    pub fn starts_with(&self, ancestor: &TreePath) -> bool {
        let Some(rest) = self.0.strip_prefix(&ancestor.0[..]) else {
            return false;
        };
        ancestor.is_root() || rest.is_empty() || rest[0] == b'/'
    }

    /// The bytes without a leading `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A set of paths can be searched by a prefix of a path.
impl Borrow<[u8]> for TreePath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("/{}", printable(&self.0)))
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Any bytes as one line that is safe on a terminal and can be read back without loss: control
/// characters, bidirectional marks, backslashes and bytes that are not UTF-8 become escapes.
pub fn printable(raw: &[u8]) -> String {
    let mut text = String::with_capacity(raw.len());
    for chunk in raw.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                c if c.is_control() || is_invisible(c) => text.extend(c.escape_unicode()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Characters that change how the text around them is shown.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_path(raw: &[u8], expected: Result<&str, BadName>) {
        assert_eq!(
            TreePath::parse(raw).map(|path| path.to_string()),
            expected.map(str::to_owned)
        );
    }

    #[test]
    fn a_path_is_read_as_a_user_writes_it() {
        check_path(b"", Ok("/"));
        check_path(b"/", Ok("/"));
        check_path(b"a", Ok("/a"));
        check_path(b"//a/./b/", Ok("/a/b"));
        check_path(b"a\xff\n", Ok("/a\\xff\\n"));
    }

    #[test]
    fn a_path_out_of_the_vault_is_refused() {
        check_path(b"..", Err(BadName::Dots("..")));
        check_path(b"/a/../b", Err(BadName::Dots("..")));
        check_path(b"a\0b", Err(BadName::Nul));
        check_path(&[b'a'; 256], Err(BadName::TooLong(256)));
        check_path(&b"abcdefg/".repeat(600), Err(BadName::PathTooLong(4799)));
    }

    #[test]
    fn a_name_of_255_bytes_is_allowed() {
        assert!(EntryName::new(&[b'n'; 255]).is_ok());
        assert_eq!(EntryName::new(b"a/b"), Err(BadName::Slash));
        assert_eq!(EntryName::new(b""), Err(BadName::Empty));
    }

    #[test]
    fn an_ancestor_is_a_prefix_of_whole_components() {
        let path = |raw: &str| TreePath::parse(raw.as_bytes()).unwrap();
        assert!(path("a/b").starts_with(&path("a")));
        assert!(path("a/b").starts_with(&path("/")));
        assert!(path("a").starts_with(&path("a")));
        assert!(!path("ab").starts_with(&path("a")));
        assert!(!path("a").starts_with(&path("a/b")));
    }

    #[test]
    fn path_too_long_to_name_is_folded_to_its_first_such_parent() {
        let name = EntryName::new(&[b'n'; 255]).unwrap();
        let mut path = TreePath::root();
        while path.as_bytes().len() <= PATH_MAX {
            assert_eq!(path.folded(), path);
            path.push(&name);
        }
        assert_eq!(path.folded(), path);
        assert_eq!(path.join(&name).join(&name).folded(), path);
    }

    #[test]
    fn splitting_and_joining_are_inverse() {
        let path = TreePath::parse(b"/a/b/c").unwrap();
        let (parent, name) = path.split_last().unwrap();
        assert_eq!(parent.join(&name), path);
        assert_eq!(path.components().count(), 3);
        assert_eq!(TreePath::root().split_last(), None);
    }

    #[test]
    fn terminal_escapes_and_direction_marks_are_shown_escaped() {
        assert_eq!(printable(b"\x1b[31mred"), "\\u{1b}[31mred");
        assert_eq!(printable("a\u{202e}b".as_bytes()), "a\\u{202e}b");
        assert_eq!(printable("grün \\".as_bytes()), "grün \\\\");
    }
}
