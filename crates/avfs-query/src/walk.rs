//! A walk through a tree, depth first, one directory of each level open at a time.

use avfs_core::TreePath;
use avfs_tree::{FoundEntry, ReadError, TreeListing, TreeReader};

use super::glob::{GlobList, GlobVerdict};

/// Which entries a walk shows. Leaving out a directory leaves out everything below it.
#[derive(Clone, Debug, Default)]
pub struct WalkSelection {
    /// Which paths are shown.
    pub globs: GlobList,
    /// Whether names that begin with a dot are shown. A name that a glob includes is shown in any case.
    pub hidden: bool,
}

impl WalkSelection {
    /// Shows everything.
    pub fn everything() -> WalkSelection {
        WalkSelection {
            globs: GlobList::default(),
            hidden: true,
        }
    }

    /// Whether a walk shows the entry at `path`.
    pub fn shows(&self, path: &TreePath, is_directory: bool) -> bool {
        match self.globs.verdict(path, is_directory) {
            GlobVerdict::Wanted => true,
            GlobVerdict::Unwanted => false,
            GlobVerdict::Silent => self.hidden || !is_hidden(path),
        }
    }
}

fn is_hidden(path: &TreePath) -> bool {
    path.name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}

/// One entry on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkVisit {
    /// The path in the tree.
    pub path: TreePath,
    /// The entry there.
    pub found: FoundEntry,
    /// How far below the start of the walk: 0 for the start itself.
    pub depth: usize,
}

/// Yields the start and then everything below it: a directory before its entries, these by name.
///
/// Memory grows with the depth of the tree, not with its breadth, and nodes are loaded on demand. The start
/// is always shown, whatever the selection.
pub struct EntryWalk<'a> {
    reader: &'a TreeReader,
    selection: &'a WalkSelection,
    levels: Vec<WalkLevel<'a>>,
    /// The path of the last of them. Each with a path of its own would take the square of the depth.
    path: TreePath,
    /// The start, before it was yielded.
    start: Option<WalkVisit>,
    /// The directory yielded last, to be opened when the walk continues.
    entering: Option<WalkVisit>,
}

struct WalkLevel<'a> {
    /// The length of its path.
    end: usize,
    listing: TreeListing<'a>,
}

impl<'a> EntryWalk<'a> {
    /// A walk from `start` on.
    pub fn new(
        reader: &'a TreeReader,
        start: &TreePath,
        selection: &'a WalkSelection,
    ) -> Result<EntryWalk<'a>, ReadError> {
        let found = reader.find(start)?;
        let start = Some(WalkVisit {
            path: start.clone(),
            found,
            depth: 0,
        });
        Ok(EntryWalk {
            reader,
            selection,
            levels: Vec::new(),
            path: TreePath::root(),
            start,
            entering: None,
        })
    }

    /// Does not enter the directory that was yielded last.
    pub fn prune(&mut self) {
        self.entering = None;
    }

    fn yielded(&mut self, visit: WalkVisit) -> WalkVisit {
        if visit.found.entry.is_directory() {
            self.entering = Some(visit.clone());
        }
        visit
    }

    fn advance(&mut self) -> Result<Option<WalkVisit>, ReadError> {
        if let Some(start) = self.start.take() {
            return Ok(Some(self.yielded(start)));
        }
        if let Some(WalkVisit { path, found, .. }) = self.entering.take() {
            let listing = self.reader.list_entry(&path, &found.entry)?;
            self.levels.push(WalkLevel {
                end: path.as_bytes().len(),
                listing,
            });
            self.path = path;
        }
        while let Some(level) = self.levels.last_mut() {
            let Some(next) = level.listing.next() else {
                self.levels.pop();
                continue;
            };
            let (name, found) = next?;
            // The path is one buffer for all levels: names of deeper ones are still behind it.
            self.path.truncate(level.end);
            let path = self.path.join(&name);
            if self.selection.shows(&path, found.entry.is_directory()) {
                let depth = self.levels.len();
                return Ok(Some(self.yielded(WalkVisit { path, found, depth })));
            }
        }
        Ok(None)
    }
}

impl Iterator for EntryWalk<'_> {
    type Item = Result<WalkVisit, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{FixtureTree, path};

    fn names(tree: &FixtureTree, start: &str, selection: &WalkSelection) -> Vec<String> {
        let walk = EntryWalk::new(&tree.reader, &path(start), selection).unwrap();
        walk.map(|visit| visit.unwrap().path.to_string()).collect()
    }

    fn sample() -> FixtureTree {
        FixtureTree::of(&[
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
        let all = names(&sample(), "src", &WalkSelection::everything());
        let expected = [
            "/src",
            "/src/deep",
            "/src/deep/er",
            "/src/deep/er/x.rs",
            "/src/lib.rs",
            "/src/main.rs",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn hidden_names_are_shown_only_when_asked_for() {
        let tree = sample();
        let plain = WalkSelection::default();
        assert!(!names(&tree, "/", &plain).contains(&"/.git".to_owned()));
        let named = WalkSelection {
            globs: GlobList::parse(&[".git"]).unwrap(),
            hidden: false,
        };
        assert!(names(&tree, "/", &named).contains(&"/.git".to_owned()));
        assert_eq!(
            names(&tree, ".git", &plain),
            ["/.git", "/.git/config"],
            "the start is always shown"
        );
    }

    #[test]
    fn an_unwanted_directory_is_not_entered() {
        let selection = WalkSelection {
            globs: GlobList::parse(&["!target", "!deep"]).unwrap(),
            hidden: false,
        };
        let expected = ["/", "/README.md", "/src", "/src/lib.rs", "/src/main.rs"];
        assert_eq!(names(&sample(), "/", &selection), expected);
    }

    #[test]
    fn a_pruned_directory_is_yielded_but_not_entered() {
        let tree = sample();
        let everything = WalkSelection::everything();
        let mut walk = EntryWalk::new(&tree.reader, &path("src"), &everything).unwrap();
        let mut seen = Vec::new();
        while let Some(visit) = walk.next() {
            let visit = visit.unwrap();
            if visit.path == path("src/deep") {
                walk.prune();
            }
            seen.push((visit.path.to_string(), visit.depth));
        }
        let expected = [
            ("/src", 0),
            ("/src/deep", 1),
            ("/src/lib.rs", 1),
            ("/src/main.rs", 1),
        ];
        assert_eq!(seen, expected.map(|(path, depth)| (path.to_owned(), depth)));
    }

    #[test]
    fn a_very_deep_tree_does_not_use_the_stack() {
        let deep = vec!["d"; 2000].join("/") + "/f";
        let on_stack_of = |bytes| std::thread::Builder::new().stack_size(bytes);
        let build = move || FixtureTree::of(&[(deep.as_str(), "x")]);
        let tree = on_stack_of(64 << 20).spawn(build).unwrap().join().unwrap();
        let walk = move || names(&tree, "/", &WalkSelection::everything()).len();
        assert_eq!(on_stack_of(256 << 10).spawn(walk).unwrap().join().unwrap(), 2002);
    }

    #[test]
    fn a_walk_from_a_missing_path_says_which() {
        let tree = sample();
        let everything = WalkSelection::everything();
        let error = EntryWalk::new(&tree.reader, &path("no/where"), &everything)
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "/no/where does not exist");
    }
}
