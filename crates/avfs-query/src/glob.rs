//! Globs that choose files, with ripgrep's habits.
//!
//! `*.rs` includes files of that name at any depth, `!target` excludes entries of that name and everything
//! below them, and a glob with a `/` inside or in front is matched from the root of the vault. Later globs
//! take precedence. If any glob includes, files that no glob includes are excluded. `*` and `?` stay within a
//! component, `**` crosses them; a `/` at the end means directories only.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use avfs_core::TreePath;
use globset::{GlobBuilder, GlobMatcher};

/// A text that is not a glob.
#[derive(Debug, thiserror::Error)]
#[error("'{glob}' is not a glob: {reason}")]
pub struct BadGlob {
    /// The text.
    pub glob: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Compiles one glob that must match a whole path (or name).
pub(crate) fn compile(glob: &str, ignore_case: bool) -> Result<GlobMatcher, BadGlob> {
    let mut builder = GlobBuilder::new(glob);
    builder
        .literal_separator(true)
        .backslash_escape(true)
        .case_insensitive(ignore_case);
    let built = builder.build();
    let built = built.map_err(|error| BadGlob {
        glob: glob.to_owned(),
        reason: error.kind().to_string(),
    })?;
    Ok(built.compile_matcher())
}

/// Bytes of a name or a path as the matchers want them.
pub(crate) fn as_host_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The verdict of a list of globs about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobVerdict {
    /// A glob includes it.
    Wanted,
    /// A glob excludes it, or others include something and none includes this.
    Unwanted,
    /// No glob speaks about it, and none needs to.
    Silent,
}

/// A list of globs. The empty list is silent about everything.
#[derive(Clone, Debug, Default)]
pub struct GlobList {
    rules: Vec<GlobRule>,
    wants_something: bool,
}

#[derive(Clone, Debug)]
struct GlobRule {
    matcher: GlobMatcher,
    wanted: bool,
    directories_only: bool,
}

impl GlobList {
    /// Compiles globs. One that begins with `!` excludes, one that ends with `/` is about directories.
    pub fn parse<G: AsRef<str>>(globs: &[G]) -> Result<GlobList, BadGlob> {
        let rules = globs
            .iter()
            .map(|glob| GlobRule::parse(glob.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        let wants_something = rules.iter().any(|rule| rule.wanted);
        Ok(GlobList {
            rules,
            wants_something,
        })
    }

    /// What the last glob that matches says about a path.
    pub fn verdict(&self, path: &TreePath, is_directory: bool) -> GlobVerdict {
        let host_path = as_host_path(path.as_bytes());
        let applies =
            |rule: &&GlobRule| (is_directory || !rule.directories_only) && rule.matcher.is_match(host_path);
        match self.rules.iter().rev().find(applies) {
            Some(rule) if rule.wanted => GlobVerdict::Wanted,
            Some(_) => GlobVerdict::Unwanted,
            // A wanted file may lie below a directory that no glob names.
            None if self.wants_something && !is_directory => GlobVerdict::Unwanted,
            None => GlobVerdict::Silent,
        }
    }
}

impl GlobRule {
    fn parse(glob: &str) -> Result<GlobRule, BadGlob> {
        let (body, wanted) = match glob.strip_prefix('!') {
            Some(body) => (body, false),
            None => (glob, true),
        };
        let (body, directories_only) = match body.strip_suffix('/') {
            Some(body) => (body, true),
            None => (body, false),
        };
        let anchored = body.contains('/');
        let body = body.strip_prefix('/').unwrap_or(body);
        if body.is_empty() {
            return Err(BadGlob {
                glob: glob.to_owned(),
                reason: "it names nothing".to_owned(),
            });
        }
        let whole = if anchored {
            body.to_owned()
        } else {
            format!("**/{body}")
        };
        let matcher = compile(&whole, false).map_err(|bad| BadGlob {
            glob: glob.to_owned(),
            ..bad
        })?;
        Ok(GlobRule {
            matcher,
            wanted,
            directories_only,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::path;

    #[track_caller]
    fn check(globs: &[&str], file: &str, expected: GlobVerdict) {
        assert_eq!(
            GlobList::parse(globs).unwrap().verdict(&path(file), false),
            expected,
            "{globs:?} on {file}"
        );
    }

    #[test]
    fn globs_choose_as_ripgrep_does() {
        use GlobVerdict::{Silent, Unwanted, Wanted};
        check(&[], "a", Silent);
        check(&["*.rs"], "src/deep/a.rs", Wanted);
        check(&["*.rs"], "src/a.py", Unwanted);
        check(&["!*.rs"], "src/a.py", Silent);
        check(&["!*.rs"], "a.rs", Unwanted);
        check(&["*.rs", "!b.rs"], "b.rs", Unwanted);
        check(&["!b.rs", "*.rs"], "b.rs", Wanted);
        check(&["/a.rs"], "src/a.rs", Unwanted);
        check(&["/a.rs"], "a.rs", Wanted);
        check(&["src/*.rs"], "src/a.rs", Wanted);
        check(&["src/*.rs"], "src/deep/a.rs", Unwanted);
        check(&["src/**/*.rs"], "src/deep/er/a.rs", Wanted);
        check(&["*.{c,h}"], "x/y.h", Wanted);
        check(&["[a-c].txt"], "b.txt", Wanted);
        check(&["\\*"], "*", Wanted);
        check(&["!dir/"], "dir", Silent);
    }

    #[test]
    fn a_glob_for_a_file_lets_directories_pass() {
        let globs = GlobList::parse(&["*.rs", "!target/"]).unwrap();
        assert_eq!(globs.verdict(&path("src"), true), GlobVerdict::Silent);
        assert_eq!(globs.verdict(&path("a/target"), true), GlobVerdict::Unwanted);
    }

    #[test]
    fn a_bad_glob_is_named_with_the_reason() {
        let error = GlobList::parse(&["ok", "!a[b"]).unwrap_err();
        assert!(error.to_string().starts_with("'!a[b' is not a glob: "), "{error}");
        assert!(GlobList::parse(&["!"]).is_err());
    }
}
