//! Paths that rules hide and git's history would show.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use avfs_core::rules::{Level, Rules, Standing};
use avfs_core::{Labels, TreePath};

use super::error::GitError;
use super::host::HostRepository;

/// The tracked paths of a project that the rules hide, at most so many: whoever reads the repository reads them.
/// A project without a repository has none.
pub fn hidden_and_tracked(project: &Path, rules: &Rules, most: usize) -> Result<Vec<TreePath>, GitError> {
    hidden_among(project, &["ls-files", "-z"], rules, most)
}

/// The same of all paths that any commit ever added. Takes as long as git takes to walk its history.
pub fn hidden_in_history(project: &Path, rules: &Rules, most: usize) -> Result<Vec<TreePath>, GitError> {
    let log = ["log", "--all", "-z", "--format=", "--name-only", "--no-renames", "--diff-filter=A"];
    hidden_among(project, &log, rules, most)
}

/// Those of the paths that git prints for these words.
fn hidden_among(
    project: &Path,
    words: &[&str],
    rules: &Rules,
    most: usize,
) -> Result<Vec<TreePath>, GitError> {
    let Ok(host) = HostRepository::open(project) else { return Ok(Vec::new()) };
    let mut listing = host.git("listing files").args(words).start()?;
    let (_, output) = listing.ends();
    let mut levels = Levels { rules, directories: HashMap::new() };
    let mut hidden = Vec::new();
    for path in BufReader::new(output).split(0) {
        let path = path.map_err(GitError::host("reading what git prints"))?;
        let Ok(path) = TreePath::parse(&path) else { continue };
        if levels.of(&path) == Level::None && !hidden.contains(&path) {
            hidden.push(path);
        }
        if hidden.len() == most {
            listing.abandon();
            return Ok(hidden);
        }
    }
    listing.finish()?;
    Ok(hidden)
}

/// What rules give to paths, by the standing of their directories.
struct Levels<'a> {
    rules: &'a Rules,
    directories: HashMap<TreePath, Standing>,
}

impl Levels<'_> {
    fn of(&mut self, path: &TreePath) -> Level {
        self.standing(path, false).level()
    }

    fn standing(&mut self, path: &TreePath, is_directory: bool) -> Standing {
        if let Some(known) = self.directories.get(path) {
            return known.clone();
        }
        let none = Labels::default();
        let standing = match path.split_last() {
            None => self.rules.root(&none),
            Some((parent, name)) => {
                let above = self.standing(&parent, true);
                self.rules.child(&above, name.as_bytes(), &none)
            }
        };
        if is_directory {
            self.directories.insert(path.clone(), standing.clone());
        }
        standing
    }
}
