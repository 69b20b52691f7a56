//! One list of patterns: a `.gitignore` file, or one of the lists that hold for a whole repository.

use super::wildcard::Wildcard;

/// The patterns of one file, in its order.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    /// The length of the path of their directory, with the trailing `/`.
    skipped: usize,
    all: Vec<IgnorePattern>,
}

#[derive(Clone, Debug)]
struct IgnorePattern {
    /// It lists paths that are *not* ignored.
    is_negated: bool,
    directories_only: bool,
    /// Meant for the path from the directory on, and not for a name at any depth.
    is_path: bool,
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    Exactly(Box<[u8]>),
    EndsWith(Box<[u8]>),
    /// After a literal prefix.
    Wild(Box<[u8]>, Wildcard),
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Patterns {
    /// `directory` is the path that the patterns hold below; empty for the root.
    pub(super) fn parse(directory: &[u8], text: &[u8]) -> Patterns {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let skipped = if directory.is_empty() {
            0
        } else {
            directory.len() + 1
        };
        Patterns {
            skipped,
            all: text
                .split(|byte| *byte == b'\n')
                .filter_map(IgnorePattern::parse)
                .collect(),
        }
    }

    /// Whether a path is ignored; `None` if no pattern matches. The last match counts.
    pub(super) fn decide(&self, path: &[u8], is_directory: bool) -> Option<bool> {
        let below = path.get(self.skipped..)?;
        let name = below.rsplit(|byte| *byte == b'/').next().unwrap_or(below);
        let matching = self
            .all
            .iter()
            .rev()
            .find(|pattern| pattern.matches(below, name, is_directory));
        matching.map(|pattern| !pattern.is_negated)
    }
}

impl IgnorePattern {
    fn parse(line: &[u8]) -> Option<IgnorePattern> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b"#") {
            return None;
        }
        let line = without_trailing_spaces(line);
        let (is_negated, line) = match line.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (directories_only, line) = match line.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let is_path = line.contains(&b'/');
        let line = line.strip_prefix(b"/").unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        Some(IgnorePattern {
            is_negated,
            directories_only,
            is_path,
            matcher: Matcher::compile(line, is_path)?,
        })
    }

    fn matches(&self, below: &[u8], name: &[u8], is_directory: bool) -> bool {
        let text = if self.is_path { below } else { name };
        (is_directory || !self.directories_only) && self.matcher.matches(text)
    }
}

impl Matcher {
    /// `None`: git matches nothing with it.
    fn compile(pattern: &[u8], is_path: bool) -> Option<Matcher> {
        let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        let Some(plain) = pattern.iter().position(is_special) else {
            return Some(Matcher::Exactly(pattern.into()));
        };
        match pattern.strip_prefix(b"*") {
            Some(end) if !is_path && !end.iter().any(is_special) => Some(Matcher::EndsWith(end.into())),
            // Git compares the literal prefix separately: a `**` after it counts as the beginning of a name.
            _ if is_path => Some(Matcher::Wild(
                pattern[..plain].into(),
                Wildcard::compile(&pattern[plain..])?,
            )),
            _ => Some(Matcher::Wild(Box::default(), Wildcard::compile(pattern)?)),
        }
    }

    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Matcher::Exactly(wanted) => **wanted == *text,
            Matcher::EndsWith(end) => text.ends_with(end),
            Matcher::Wild(beginning, rest) => text
                .strip_prefix(&**beginning)
                .is_some_and(|text| rest.matches(text)),
        }
    }
}

/// Trailing spaces are ignored, unless a backslash precedes one.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => {}
            b'\\' => {
                at += 1;
                end = at + 1;
            }
            _ => end = at + 1,
        }
        at += 1;
    }
    &line[..end.min(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for each path (directories end with `/`): ignored, wanted, or none.
    #[track_caller]
    fn check(text: &str, expected: &[(&str, Option<bool>)]) {
        let patterns = Patterns::parse(b"", text.as_bytes());
        for (path, verdict) in expected {
            let (path, is_directory) = match path.strip_suffix('/') {
                Some(directory) => (directory, true),
                None => (*path, false),
            };
            assert_eq!(
                patterns.decide(path.as_bytes(), is_directory),
                *verdict,
                "{text:?}: {path}"
            );
        }
    }

    #[test]
    fn a_pattern_is_for_names_unless_it_has_a_slash() {
        check(
            "target",
            &[
                ("target", Some(true)),
                ("a/target/", Some(true)),
                ("targets", None),
            ],
        );
        check("/target", &[("target/", Some(true)), ("a/target", None)]);
        check("a/b", &[("a/b", Some(true)), ("x/a/b", None)]);
        check("target/", &[("a/target/", Some(true)), ("target", None)]);
        check("*.log", &[("a/b.log", Some(true)), ("log", None)]);
    }

    #[test]
    fn last_matching_pattern_decides() {
        check(
            "*.log\n!keep.log\n",
            &[("a.log", Some(true)), ("x/keep.log", Some(false))],
        );
        check("!a\na\n", &[("a", Some(true))]);
    }

    #[test]
    fn comments_spaces_and_line_ends_are_read_as_git_does() {
        check(
            "# a\n\\#b\n\\!c\n",
            &[("# a", None), ("#b", Some(true)), ("!c", Some(true))],
        );
        check(
            "a  \nb\\ \r\n",
            &[("a", Some(true)), ("b ", Some(true)), ("b", None)],
        );
        check("\u{feff}a\n", &[("a", Some(true))]);
        check("\n/\n!\n", &[("a", None)]);
    }

    #[test]
    fn patterns_hold_below_their_directory() {
        let patterns = Patterns::parse(b"sub", b"/a\n");
        assert_eq!(patterns.decide(b"sub/a", false), Some(true));
        assert_eq!(patterns.decide(b"sub/x/a", false), None);
    }
}
