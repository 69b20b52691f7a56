//! Repositories in a project that are no submodules of it.

use std::collections::{BTreeSet, HashSet};

use avfs_core::{EntryName, TreePath};

use super::error::GitError;
use super::names::ObjectName;
use super::refs::MovedRef;
use super::repositories::is_git;
use super::submodules::Submodule;
use super::work::Work;

impl Work {
    /// The nested repositories whose refs changed, by path. Costs what changed in the tree.
    pub(super) fn nested(&self) -> Result<Vec<Submodule>, GitError> {
        let mut places = BTreeSet::new();
        if !matches!(&self.place().components().collect::<Vec<_>>()[..], [name] if is_git(name)) {
            return Ok(Vec::new());
        }
        self.base().diff(self.head(), &TreePath::root(), &mut |seen| {
            places.extend(nested_place(&seen.change.path));
            Ok(())
        })?;
        let work = |place: TreePath| {
            let (path, _) = place.split_last()?;
            Some(Submodule { path: path.clone(), work: self.in_submodule(place, path) })
        };
        Ok(places.into_iter().filter_map(work).collect())
    }

    /// Whether somebody committed in a repository that the user does not have: its branches are not only those that it
    /// was cloned with.
    pub(super) fn has_own_commits(&self) -> Result<bool, GitError> {
        let moved = self.moved_refs()?;
        let of_remotes: HashSet<&ObjectName> = moved
            .iter()
            .filter(|moved| moved.name.as_ref().is_some_and(|name| name.is_remote()))
            .filter_map(|moved| moved.after.as_ref())
            .collect();
        let was_there = self.base_refs().head_commit()?.is_some();
        let holds_work = |moved: &&MovedRef| moved.name.as_ref().map_or(was_there, |name| name.is_branch());
        Ok(moved
            .iter()
            .filter(holds_work)
            .filter_map(|moved| moved.after.as_ref())
            .any(|tip| !of_remotes.contains(tip)))
    }

    /// Whether its repository is new.
    pub(super) fn is_of_new_repository(&self) -> bool {
        self.base().find(self.place()).is_err()
    }
}

/// The directory of the nested repository whose refs a path belongs to.
fn nested_place(path: &TreePath) -> Option<TreePath> {
    let names: Vec<EntryName> = path.components().collect();
    let at = names.iter().position(is_git).filter(|at| *at > 0)?;
    let of_refs = matches!(names.get(at + 1)?.as_bytes(), b"refs" | b"packed-refs" | b"HEAD");
    of_refs.then(|| names[..=at].iter().fold(TreePath::root(), |above, name| above.join(name)))
}
