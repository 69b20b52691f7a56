//! Where repositories are, found out without git.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::TreePath;

/// The directories of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
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
}

/// The path that a file holds behind `prefix`.
fn pointer(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let is_short = fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() <= POINTER_MAX);
    let text = is_short.then(|| fs::read(file).ok()).flatten()?;
    let path = text.strip_prefix(prefix)?.trim_ascii_end();
    (!path.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

/// The directories of a project's repository that lie outside of the project: those of a worktree or a submodule.
/// A program that works in the project needs them at these very paths. One inside another is not named.
pub fn outside_directories(project: &Path) -> Vec<PathBuf> {
    let (Ok(project), Some(place)) = (project.canonicalize(), Place::of(project)) else { return Vec::new() };
    let mut outside: Vec<PathBuf> = Vec::new();
    for directory in [place.common, place.own] {
        if !directory.starts_with(&project) && !outside.iter().any(|known| directory.starts_with(known)) {
            outside.push(directory);
        }
    }
    outside
}

/// Whether a path of a tree is a repository's own, and no file of a project: it is `.git`, however it is written, or
/// lies below one.
pub fn is_in_repository(path: &TreePath) -> bool {
    path.components().any(|name| name.as_bytes().eq_ignore_ascii_case(b".git"))
}
