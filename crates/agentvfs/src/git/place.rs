//! Locates repositories without git.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::TreePath;
use avfs_core::spelling::is_git_directory;

/// The directories of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryPlace {
    /// Of this working directory: its HEAD and index.
    pub(super) own: PathBuf,
    /// Of all working directories: objects, refs and settings.
    pub(super) common: PathBuf,
}

/// A file that names a directory is short.
const POINTER_MAX: u64 = 64 << 10;

impl RepositoryPlace {
    /// The repository of the working directory `project`, or the one that is `project` itself. Parents are
    /// not searched.
    pub(super) fn of(project: &Path) -> Option<RepositoryPlace> {
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
        is_repository.then_some(RepositoryPlace { own, common })
    }

    /// The repository of a project, if it is entirely outside of the project. A repository that keeps its
    /// refs in tables is omitted if it has several working directories, because the refs of one of them
    /// cannot be distinguished there.
    pub(crate) fn outside(project: &Path) -> Option<RepositoryPlace> {
        let (project, place) = (project.canonicalize().ok()?, RepositoryPlace::of(project)?);
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
        TreePath::parse(below.as_os_str().as_bytes())
            .ok()
            .filter(|below| !below.is_root())
    }
}

/// The path in a file, after `prefix`.
fn pointer(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let is_short = fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() <= POINTER_MAX);
    let text = is_short.then(|| fs::read(file).ok()).flatten()?;
    let path = text.strip_prefix(prefix)?.trim_ascii_end();
    (!path.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

/// The git directory of a project that lies outside of it, with everything that its working directories share: of a
/// worktree, a submodule, or one that was put elsewhere.
pub fn outside_directory(project: &Path) -> Option<PathBuf> {
    RepositoryPlace::outside(project).map(|place| place.common)
}

/// Whether a path of a tree belongs to a repository, and not to a project's files: it is `.git`, in any
/// spelling, or lies below one.
pub fn is_in_repository(path: &TreePath) -> bool {
    path.names().any(is_git_directory)
}
