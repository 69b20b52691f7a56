//! Names in git: of refs, and of objects.

use std::fmt;

use avfs_core::{TreePath, printable};

/// The full name of a ref, such as `refs/heads/main`, that git would accept.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(Box<[u8]>);

const BRANCHES: &[u8] = b"refs/heads/";
const TAGS: &[u8] = b"refs/tags/";
const REMOTES: &[u8] = b"refs/remotes/";

impl RefName {
    /// `None` if git would not accept it.
    pub fn new(raw: &[u8]) -> Option<RefName> {
        let is_good = raw.starts_with(b"refs/")
            && raw.split(|byte| *byte == b'/').all(is_good_component)
            && !raw.ends_with(b".")
            && !raw.windows(2).any(|pair| pair == b".." || pair == b"@{")
            && raw.iter().all(|byte| is_good_byte(*byte));
        is_good.then(|| RefName(raw.into()))
    }

    /// The ref of a branch, by the name that people use.
    pub fn branch(name: &str) -> Option<RefName> {
        let is_reserved = name.starts_with('-') || name == "HEAD";
        (!is_reserved)
            .then(|| RefName::new(&[BRANCHES, name.as_bytes()].concat()))
            .flatten()
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Without the prefix of branches, tags or remotes; safe to print.
    pub fn short(&self) -> String {
        let of_remote = || self.0.strip_prefix(REMOTES);
        let short = self
            .0
            .strip_prefix(BRANCHES)
            .or_else(|| self.0.strip_prefix(TAGS))
            .or_else(of_remote);
        printable(short.unwrap_or(&self.0))
    }

    /// Whether it holds work: a branch or a tag. Others follow a remote, or are git's own.
    pub fn holds_work(&self) -> bool {
        self.is_branch() || self.0.starts_with(TAGS)
    }

    /// Whether it records the position of a branch of another repository.
    pub fn is_remote(&self) -> bool {
        self.0.starts_with(REMOTES)
    }

    /// Whether it is the name of a branch.
    pub fn is_branch(&self) -> bool {
        self.0.starts_with(BRANCHES)
    }

    /// The name of a branch without its prefix; `None` for everything else.
    pub(crate) fn branch_name(&self) -> Option<&[u8]> {
        self.0.strip_prefix(BRANCHES)
    }

    /// Where its file is in the directory of a repository.
    pub(crate) fn path(&self) -> Option<TreePath> {
        TreePath::parse(&self.0).ok()
    }
}

fn is_good_component(component: &[u8]) -> bool {
    !component.is_empty() && !component.starts_with(b".") && !component.ends_with(b".lock")
}

fn is_good_byte(byte: u8) -> bool {
    byte > 0x20 && byte != 0x7f && !b"~^:?*[\\".contains(&byte)
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&printable(&self.0))
    }
}

impl fmt::Debug for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The name of an object: 40 hexadecimal digits, or 64 in a repository with SHA-256.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(Box<str>);

impl ObjectName {
    /// Checks the hexadecimal digits of a name.
    pub fn new(raw: &[u8]) -> Option<ObjectName> {
        let is_good = ObjectFormat::of_length(raw.len()).is_some()
            && raw.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_good.then(|| ObjectName(String::from_utf8_lossy(raw).into()))
    }

    /// Its hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn format(&self) -> ObjectFormat {
        ObjectFormat::of_length(self.0.len()).unwrap_or(ObjectFormat::Sha1)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The hash function for names of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    fn of_length(digits: usize) -> Option<ObjectFormat> {
        match digits {
            40 => Some(ObjectFormat::Sha1),
            64 => Some(ObjectFormat::Sha256),
            _ => None,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            ObjectFormat::Sha1 => "sha1",
            ObjectFormat::Sha256 => "sha256",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_git_accepts_are_refs() {
        for good in [
            "refs/heads/main",
            "refs/heads/a/b.c",
            "refs/tags/v1.0",
            "refs/heads/grün",
            "refs/stash",
        ] {
            assert!(RefName::new(good.as_bytes()).is_some(), "{good}");
        }
        let bad = [
            "main",
            "HEAD",
            "refs/",
            "refs//x",
            "refs/heads/",
            "refs/heads/../x",
            "refs/heads/.x",
            "refs/heads/a..b",
            "refs/heads/x.lock",
            "refs/heads/x.",
            "refs/heads/a b",
            "refs/heads/a\nb",
            "refs/heads/a\x1b[31m",
            "refs/heads/x@{1}",
            "refs/heads/a*",
            "refs/heads/a\\b",
        ];
        for name in bad {
            assert!(RefName::new(name.as_bytes()).is_none(), "{name:?}");
        }
    }

    #[test]
    fn a_branch_is_no_option_and_not_the_head() {
        assert_eq!(
            RefName::branch("avfs/fix").unwrap().to_string(),
            "refs/heads/avfs/fix"
        );
        assert!(RefName::branch("-d").is_none());
        assert!(RefName::branch("HEAD").is_none());
        assert!(RefName::branch("").is_none());
    }

    #[test]
    fn an_object_has_one_of_two_lengths_and_small_digits() {
        assert!(ObjectName::new(&[b'a'; 40]).is_some());
        assert!(ObjectName::new(&[b'0'; 64]).is_some());
        assert!(ObjectName::new(&[b'A'; 40]).is_none());
        assert!(ObjectName::new(&[b'a'; 41]).is_none());
    }
}
