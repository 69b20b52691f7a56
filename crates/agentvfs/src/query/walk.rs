//! A walk through a tree, depth first, one directory of each level open at a time.

use avfs_core::TreePath;
use avfs_tree::{Found, Listing, ReadError, TreeReader};

use super::glob::{Globs, Verdict};

/// Which entries a walk shows. Leaving out a directory leaves out everything below it.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub globs: Globs,
    /// Whether names that begin with a dot are shown. One that a glob asks for is shown in any case.
    pub hidden: bool,
}

impl Selection {
    /// Shows everything.
    pub fn everything() -> Selection {
        Selection { globs: Globs::default(), hidden: true }
    }

    /// Whether a walk shows what is at `path`.
    pub fn shows(&self, path: &TreePath, is_directory: bool) -> bool {
        match self.globs.verdict(path, is_directory) {
            Verdict::Wanted => true,
            Verdict::Unwanted => false,
            Verdict::Silent => self.hidden || !is_hidden(path),
        }
    }
}

fn is_hidden(path: &TreePath) -> bool {
    path.name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}

/// One entry on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    pub path: TreePath,
    pub found: Found,
    /// How far below the start of the walk: 0 for the start itself.
    pub depth: usize,
}

/// Yields the start and then what lies below it: a directory before its entries, these by name.
///
/// Memory grows with the depth of the tree, not with its breadth, and nothing is loaded before it is asked
/// for. The start is always shown, whatever the selection says about it.
pub struct Walk<'a> {
    reader: &'a TreeReader,
    selection: &'a Selection,
    levels: Vec<Level<'a>>,
    /// The start, before it was yielded.
    start: Option<Visit>,
    /// The directory yielded last, to be opened when the walk goes on.
    entering: Option<Visit>,
}

struct Level<'a> {
    path: TreePath,
    listing: Listing<'a>,
}

impl<'a> Walk<'a> {
    pub fn new(
        reader: &'a TreeReader,
        start: &TreePath,
        selection: &'a Selection,
    ) -> Result<Walk<'a>, ReadError> {
        let found = reader.find(start)?;
        let start = Some(Visit { path: start.clone(), found, depth: 0 });
        Ok(Walk { reader, selection, levels: Vec::new(), start, entering: None })
    }

    /// Does not enter the directory that was yielded last.
    pub fn prune(&mut self) {
        self.entering = None;
    }

    fn yielded(&mut self, visit: Visit) -> Visit {
        if visit.found.entry.is_directory() {
            self.entering = Some(visit.clone());
        }
        visit
    }

    fn advance(&mut self) -> Result<Option<Visit>, ReadError> {
        if let Some(start) = self.start.take() {
            return Ok(Some(self.yielded(start)));
        }
        if let Some(Visit { path, found, .. }) = self.entering.take() {
            let listing = self.reader.list_entry(&path, &found.entry)?;
            self.levels.push(Level { path, listing });
        }
        while let Some(level) = self.levels.last_mut() {
            let Some(next) = level.listing.next() else {
                self.levels.pop();
                continue;
            };
            let (name, found) = next?;
            let path = level.path.join(&name);
            if self.selection.shows(&path, found.entry.is_directory()) {
                let depth = self.levels.len();
                return Ok(Some(self.yielded(Visit { path, found, depth })));
            }
        }
        Ok(None)
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Visit, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::fixture::{Tree, path};

    fn names(tree: &Tree, start: &str, selection: &Selection) -> Vec<String> {
        let walk = Walk::new(&tree.reader, &path(start), selection).unwrap();
        walk.map(|visit| visit.unwrap().path.to_string()).collect()
    }

    fn sample() -> Tree {
        Tree::of(&[
            ("src/main.rs", "m"),
            ("src/lib.rs", "l"),
            ("src/deep/er/x.rs", "x"),
            (".git/config", "c"),
            ("target/debug/out", "o"),
            ("README.md", "r"),
        ])
    }

    #[test]
    fn a_directory_comes_before_its_entries_and_these_by_name() {
        let all = names(&sample(), "src", &Selection::everything());
        let expected =
            ["/src", "/src/deep", "/src/deep/er", "/src/deep/er/x.rs", "/src/lib.rs", "/src/main.rs"];
        assert_eq!(all, expected);
    }

    #[test]
    fn hidden_names_are_shown_only_when_asked_for() {
        let tree = sample();
        let plain = Selection::default();
        assert!(!names(&tree, "/", &plain).contains(&"/.git".to_owned()));
        let named = Selection { globs: Globs::parse(&[".git"]).unwrap(), hidden: false };
        assert!(names(&tree, "/", &named).contains(&"/.git".to_owned()));
        assert_eq!(names(&tree, ".git", &plain), ["/.git", "/.git/config"], "the start is always shown");
    }

    #[test]
    fn an_unwanted_directory_is_not_entered() {
        let selection = Selection { globs: Globs::parse(&["!target", "!deep"]).unwrap(), hidden: false };
        let expected = ["/", "/README.md", "/src", "/src/lib.rs", "/src/main.rs"];
        assert_eq!(names(&sample(), "/", &selection), expected);
    }

    #[test]
    fn a_pruned_directory_is_yielded_but_not_entered() {
        let tree = sample();
        let everything = Selection::everything();
        let mut walk = Walk::new(&tree.reader, &path("src"), &everything).unwrap();
        let mut seen = Vec::new();
        while let Some(visit) = walk.next() {
            let visit = visit.unwrap();
            if visit.path == path("src/deep") {
                walk.prune();
            }
            seen.push((visit.path.to_string(), visit.depth));
        }
        let expected = [("/src", 0), ("/src/deep", 1), ("/src/lib.rs", 1), ("/src/main.rs", 1)];
        assert_eq!(seen, expected.map(|(path, depth)| (path.to_owned(), depth)));
    }

    #[test]
    fn a_very_deep_tree_does_not_use_the_stack() {
        let deep = vec!["d"; 2000].join("/") + "/f";
        let on_stack_of = |bytes| std::thread::Builder::new().stack_size(bytes);
        let build = move || Tree::of(&[(deep.as_str(), "x")]);
        let tree = on_stack_of(64 << 20).spawn(build).unwrap().join().unwrap();
        let walk = move || names(&tree, "/", &Selection::everything()).len();
        assert_eq!(on_stack_of(256 << 10).spawn(walk).unwrap().join().unwrap(), 2002);
    }

    #[test]
    fn a_walk_from_a_missing_path_says_which() {
        let tree = sample();
        let everything = Selection::everything();
        let error = Walk::new(&tree.reader, &path("no/where"), &everything).err().unwrap();
        assert_eq!(error.to_string(), "/no/where does not exist");
    }
}
