//! Paths that rules hide and git's history shows.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::path::Path;

use avfs_core::rules::{HidingNames, Level, RuleState, Rules};
use avfs_core::{Labels, TreePath};

use super::host::HostRepository;
use crate::error::GitError;

/// The paths that any commit ever added and the rules hide. Takes as long as git takes to walk the history.
/// Empty for a project without a repository.
pub fn hidden_in_history(project: &Path, rules: &Rules) -> Result<BTreeSet<TreePath>, GitError> {
    let Ok(host) = HostRepository::open(project) else {
        return Ok(BTreeSet::new());
    };
    let log = [
        "log",
        "--all",
        "-z",
        "--format=",
        "--name-only",
        "--no-renames",
        "--diff-filter=A",
    ];
    let mut listing = host.git("listing files").args(log).start()?;
    let (_, output) = listing.ends();
    let mut levels = Levels::new(rules);
    let names = HidingNames::of(rules.list());
    let mut hidden = BTreeSet::new();
    for path in BufReader::new(output).split(0) {
        let path = path.map_err(GitError::host("reading what git prints"))?;
        if !path.split(|byte| *byte == b'/').any(|name| names.may_hide(name)) {
            continue;
        }
        let Ok(path) = TreePath::parse(&path) else {
            continue;
        };
        if levels.of(&path) == Level::None {
            hidden.insert(path);
        }
    }
    listing.finish()?;
    Ok(hidden)
}

/// The levels that rules give to paths, by the states of their directories.
pub(super) struct Levels<'a> {
    rules: &'a Rules,
    directories: HashMap<TreePath, RuleState>,
}

impl<'a> Levels<'a> {
    pub(super) fn new(rules: &'a Rules) -> Levels<'a> {
        Levels {
            rules,
            directories: HashMap::new(),
        }
    }

    pub(super) fn of(&mut self, path: &TreePath) -> Level {
        self.standing(path, false).level()
    }

    fn standing(&mut self, path: &TreePath, is_directory: bool) -> RuleState {
        let none = Labels::default();
        let (mut at, mut names) = (path.clone(), Vec::new());
        let mut standing = loop {
            if let Some(known) = self.directories.get(&at) {
                break known.clone();
            }
            let Some((parent, name)) = at.split_last() else {
                break self.rules.root(&none);
            };
            names.push(name);
            at = parent;
        };
        while let Some(name) = names.pop() {
            standing = self.rules.child(&standing, name.as_bytes(), &none);
            at.push(&name);
            if is_directory || !names.is_empty() {
                self.directories.insert(at.clone(), standing.clone());
            }
        }
        standing
    }
}
