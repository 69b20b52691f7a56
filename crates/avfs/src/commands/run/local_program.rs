//! Programs that a project keeps for itself, where no `PATH` finds them: in an environment that is not activated, or
//! among the packages that npm installed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where projects keep programs.
const DIRECTORIES: &[&str] = &[".venv/bin", "venv/bin", "node_modules/.bin", "vendor/bin"];

/// The place of a program below the working directory or its project, if it was given by its name alone.
pub fn find(root: &Path, name: &OsStr) -> Option<PathBuf> {
    if name.is_empty() || name.as_bytes().contains(&b'/') {
        return None;
    }
    let here = std::env::current_dir().ok()?;
    let tops = here.ancestors().take_while(|top| top.starts_with(root));
    for top in tops {
        let mut places = DIRECTORIES.iter().map(|directory| top.join(directory).join(name));
        if let Some(found) = places.find(|place| is_program(place)) {
            // As one types it from here, where that is short.
            return Some(found.strip_prefix(&here).map(PathBuf::from).unwrap_or(found));
        }
    }
    None
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
