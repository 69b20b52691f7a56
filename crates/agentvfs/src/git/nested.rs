//! Repositories in a project that are not submodules of it.

use std::collections::{BTreeSet, HashSet};

use avfs_core::TreePath;
use avfs_core::spelling::is_git_directory;

use super::refs::MovedRef;
use super::repositories::is_git;
use super::submodules::Submodule;
use super::work::Work;
use crate::error::GitError;
use crate::git_names::ObjectName;

/// [`Work::nested`].
pub(super) fn nested(work: &Work) -> Result<Vec<Submodule>, GitError> {
    let mut places = BTreeSet::new();
    if !matches!(&work.place().components().collect::<Vec<_>>()[..], [name] if is_git(name)) {
        return Ok(Vec::new());
    }
    work.base().diff_folded(work.head(), &mut |seen| {
        places.extend(nested_place(&seen.change.path));
        Ok(())
    })?;
    let work = |place: TreePath| {
        let (path, _) = place.split_last()?;
        Some(Submodule {
            path: path.clone(),
            work: work.in_submodule(place, path),
        })
    };
    Ok(places.into_iter().filter_map(work).collect())
}

/// [`Work::has_own_commits`].
pub(super) fn has_own_commits(work: &Work) -> Result<bool, GitError> {
    let moved = work.moved_refs()?;
    let of_remotes: HashSet<&ObjectName> = moved
        .iter()
        .filter(|moved| moved.name.as_ref().is_some_and(|name| name.is_remote()))
        .filter_map(|moved| moved.after.as_ref())
        .collect();
    let was_there = work.base_refs().head_commit()?.is_some();
    let holds_work = |moved: &&MovedRef| moved.name.as_ref().map_or(was_there, |name| name.is_branch());
    Ok(moved
        .iter()
        .filter(holds_work)
        .filter_map(|moved| moved.after.as_ref())
        .any(|tip| !of_remotes.contains(tip)))
}

/// [`Work::is_of_new_repository`].
pub(super) fn is_of_new_repository(work: &Work) -> bool {
    work.base().find(work.place()).is_err()
}

/// The directory of the nested repository to whose refs a path belongs.
fn nested_place(path: &TreePath) -> Option<TreePath> {
    let at = path.names().position(is_git_directory).filter(|at| *at > 0)?;
    let of_refs = matches!(path.names().nth(at + 1)?, b"refs" | b"packed-refs" | b"HEAD");
    of_refs.then(|| {
        path.components()
            .take(at + 1)
            .fold(TreePath::root(), |above, name| above.join(&name))
    })
}
