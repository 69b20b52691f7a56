//! Where repositories are, found out without git.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::TreePath;

use super::repositories::is_git;

/// The directories of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Of this working directory: its HEAD and index.
    pub(super) own: PathBuf,
    /// Of all working directories: objects, refs and settings.
    pub(super) common: PathBuf,
}

/// A file that names a directory is short.
const POINTER_MAX: u64 = 64 << 10;

impl Place {
    /// The repository of the working directory `project`, or the one that is `project` itself. Directories above
    /// are not looked at.
    pub(super) fn of(project: &Path) -> Option<Place> {
        let inside = project.join(".git");
        let own = match fs::metadata(&inside) {
            Ok(found) if found.is_file() => project.join(pointer(&inside, b"gitdir: ")?),
            Ok(_) => inside,
            Err(_) => project.to_owned(),
        };
        let own = own.canonicalize().ok()?;
        let common = match pointer(&own.join("commondir"), b"") {
            Some(elsewhere) => own.join(elsewhere).canonicalize().ok()?,
            None => own.clone(),
        };
        let is_repository = own.join("HEAD").symlink_metadata().is_ok() && common.join("objects").is_dir();
        is_repository.then_some(Place { own, common })
    }

    /// The repository of a project, if nothing of it is in the project. One that keeps its refs in tables is left out
    /// if it has several working directories: what is of one of them cannot be told there.
    pub(crate) fn outside(project: &Path) -> Option<Place> {
        let (project, place) = (project.canonicalize().ok()?, Place::of(project)?);
        let is_apart = !place.own.starts_with(&project) && !place.common.starts_with(&project);
        let is_told = match place.own_below_common() {
            Some(_) => !place.common.join("reftable").exists(),
            None => place.own == place.common,
        };
        (is_apart && is_told).then_some(place)
    }

    /// Of everything that working directories share.
    pub(crate) fn common(&self) -> &Path {
        &self.common
    }

    /// Where in the common directory the one of this working directory is, if it is another one.
    pub(super) fn own_below_common(&self) -> Option<TreePath> {
        let below = self.own.strip_prefix(&self.common).ok()?;
        TreePath::parse(below.as_os_str().as_bytes()).ok().filter(|below| !below.is_root())
    }
}

/// The path that a file holds behind `prefix`.
fn pointer(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let is_short = fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() <= POINTER_MAX);
    let text = is_short.then(|| fs::read(file).ok()).flatten()?;
    let path = text.strip_prefix(prefix)?.trim_ascii_end();
    (!path.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

/// The git directory of a project that lies outside of it, with everything that its working directories share: of a
/// worktree, a submodule, or one that was put elsewhere.
pub fn outside_directory(project: &Path) -> Option<PathBuf> {
    Place::outside(project).map(|place| place.common)
}

/// Whether a path of a tree is a repository's own, and no file of a project: it is `.git`, however it is written, or
/// lies below one.
pub fn is_in_repository(path: &TreePath) -> bool {
    path.components().any(|name| is_git(&name))
}
