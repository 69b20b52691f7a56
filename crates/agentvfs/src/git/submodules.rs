//! The submodules and nested repositories of a project in which something was done with git.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Component;

use avfs_core::{EntryName, TreePath};

use super::place::is_in_repository;
use super::settings;
use super::work::Work;
use crate::error::GitError;

/// A submodule or nested repository, and its work.
pub struct Submodule {
    /// Where its files are.
    pub path: TreePath,
    /// The work in it.
    pub work: Work,
}

/// [`Work::submodules`].
pub(super) fn submodules(work: &Work) -> Result<Vec<Submodule>, GitError> {
    let mut found = Vec::new();
    for place in changed_repositories(work)? {
        if let Some(path) = files_of(work, &place) {
            let work = work.in_submodule(place, path.clone());
            found.push(Submodule { path, work });
        }
    }
    found.extend(work.nested()?);
    Ok(found)
}

/// The directories of submodules' repositories in which refs changed.
fn changed_repositories(work: &Work) -> Result<BTreeSet<TreePath>, GitError> {
    let modules = work.place().join(&name(b"modules"));
    let depth = modules.components().count();
    let mut repositories = BTreeSet::new();
    work.base().diff(work.head(), &modules, &mut |seen| {
        repositories.extend(repositories_of(&seen.change.path, depth));
        Ok(())
    })?;
    Ok(repositories)
}

/// Where the settings of a repository say that its files are, if that is in the tree.
fn files_of(work: &Work, place: &TreePath) -> Option<TreePath> {
    let text = work.head().read(&place.join(&name(b"config"))).ok()?;
    let mut path: Vec<EntryName> = place.components().collect();
    for part in settings::files_of(&text)?.components() {
        match part {
            Component::ParentDir => drop(path.pop()?),
            Component::CurDir => {}
            Component::Normal(part) => path.push(EntryName::new(part.as_bytes()).ok()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let path = path.iter().fold(TreePath::root(), |above, name| above.join(name));
    Some(path).filter(|path| !path.is_root() && !is_in_repository(path))
}

/// The repositories that a changed file or directory may belong to, if it is one of refs. Names of submodules, which may
/// be anything, have `depth` names above them.
fn repositories_of(path: &TreePath, depth: usize) -> Vec<TreePath> {
    let is_of_refs = |name: &EntryName| matches!(name.as_bytes(), b"refs" | b"packed-refs" | b"HEAD");
    let mut repositories = Vec::new();
    let mut above = TreePath::root();
    for (at, name) in path.components().enumerate() {
        if at > depth && is_of_refs(&name) {
            repositories.push(above.clone());
        }
        above.push(&name);
    }
    repositories
}

fn name(bytes: &[u8]) -> EntryName {
    EntryName::new(bytes).expect("names of git are good names")
}
