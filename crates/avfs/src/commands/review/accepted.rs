//! The part of a task that is to be applied.

use std::collections::{BTreeMap, HashMap};

use agentvfs::apply::{HunkNumber, Selection};
use agentvfs::patch::FileChange;
use avfs_core::TreePath;

use super::conflict::Choice;
use super::decision::{Decision, Mark};
use crate::versions::count;

/// The accepted part of the changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Files that are taken as a whole. A renamed file is there with both its paths.
    pub paths: Vec<TreePath>,
    /// Files of which some hunks are accepted, with their numbers as `avfs diff --patch` shows them.
    pub hunks: Vec<(TreePath, Vec<HunkNumber>)>,
    /// The resolutions of conflicts.
    pub choices: BTreeMap<TreePath, Choice>,
    files: usize,
}

impl Accepted {
    pub fn of(files: &[FileChange], decisions: &[Decision], choices: &HashMap<usize, Choice>) -> Accepted {
        let mut accepted = Accepted::default();
        for (index, (file, decision)) in files.iter().zip(decisions).enumerate() {
            let hunks = decision.accepted_parts();
            if *decision == Decision::Whole(Mark::Accepted) {
                accepted.files += 1;
                accepted.paths.extend(paths_of(file));
            } else if !hunks.is_empty() {
                accepted.hunks.push((file.path().clone(), hunks));
            } else {
                continue;
            }
            if let Some(choice) = choices.get(&index) {
                accepted.choices.insert(file.path().clone(), choice.clone());
            }
        }
        accepted
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.hunks.is_empty()
    }

    /// The same as a selection for the apply.
    pub fn selection(&self) -> Selection {
        let hunks = self
            .hunks
            .iter()
            .map(|(path, numbers)| (path.clone(), numbers.iter().copied().collect()));
        Selection {
            paths: self.paths.clone(),
            hunks: hunks.collect(),
        }
    }

    /// `2 files and 3 hunks`.
    pub fn summary(&self) -> String {
        let hunks: usize = self.hunks.iter().map(|(_, hunks)| hunks.len()).sum();
        match (self.files, hunks) {
            (files, 0) => count(files as u64, "file"),
            (0, hunks) => count(hunks as u64, "hunk"),
            (files, hunks) => format!(
                "{} and {}",
                count(files as u64, "file"),
                count(hunks as u64, "hunk")
            ),
        }
    }
}

/// Everything that changes with a file.
fn paths_of(file: &FileChange) -> impl Iterator<Item = TreePath> {
    let new = file.path().clone();
    let old = file
        .old
        .as_ref()
        .map(|side| side.path.clone())
        .filter(|old| *old != new);
    [Some(new), old].into_iter().flatten()
}
