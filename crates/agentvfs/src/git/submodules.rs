//! The submodules and nested repositories of a project in which something was done with git.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Component;

use avfs_core::{EntryName, TreePath};

use super::error::GitError;
use super::place::is_in_repository;
use super::settings::files_of;
use super::work::Work;

/// A submodule or nested repository, and what was done in it.
pub struct Submodule {
    /// Where its files are.
    pub path: TreePath,
    pub work: Work,
}

impl Work {
    /// The submodules whose refs changed, in the order of their repositories, those of submodules too; then repositories
    /// that are no submodules. Costs what changed.
    pub fn submodules(&self) -> Result<Vec<Submodule>, GitError> {
        let mut found = Vec::new();
        for place in self.changed_repositories()? {
            if let Some(path) = self.files_of(&place) {
                let work = self.in_submodule(place, path.clone());
                found.push(Submodule { path, work });
            }
        }
        found.extend(self.nested()?);
        Ok(found)
    }

    /// The directories of submodules' repositories in which refs changed.
    fn changed_repositories(&self) -> Result<BTreeSet<TreePath>, GitError> {
        let modules = self.place().join(&name(b"modules"));
        let depth = modules.components().count();
        let mut repositories = BTreeSet::new();
        self.base().diff(self.head(), &modules, &mut |seen| {
            repositories.extend(repositories_of(&seen.change.path, depth));
            Ok(())
        })?;
        Ok(repositories)
    }

    /// Where the settings of a repository say that its files are, if that is in the tree.
    fn files_of(&self, place: &TreePath) -> Option<TreePath> {
        let settings = self.head().read(&place.join(&name(b"config"))).ok()?;
        let mut path: Vec<EntryName> = place.components().collect();
        for part in files_of(&settings)?.components() {
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
