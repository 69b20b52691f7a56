//! The changes of a task whose project directory was deleted: they are applied to a new directory.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use agentvfs::Task;
use anyhow::{Context as _, Result};

use crate::escape::printable_path;

/// A directory that holds nothing, for the work of a task that has no directory any longer.
pub struct Rescue {
    /// Created for this, and removed if it stays empty.
    made: Option<PathBuf>,
}

impl Rescue {
    /// `None`: the directory of the project is there, or this one holds something. The directory is made if the one above it
    /// is there.
    pub fn into(task: &Task, directory: &Path) -> Result<Option<Rescue>> {
        if task.root().is_dir() || directory == task.root() {
            return Ok(None);
        }
        match fs::create_dir(directory) {
            Ok(()) => {
                let rescue = Rescue {
                    made: Some(directory.to_owned()),
                };
                give_to_owner_above(directory)
                    .with_context(|| format!("making {}", printable_path(directory)))?;
                Ok(Some(rescue))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let is_empty = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
                Ok(is_empty.then_some(Rescue { made: None }))
            }
            // The next access to the directory reports the reason.
            Err(_) => Ok(None),
        }
    }
}

impl Drop for Rescue {
    fn drop(&mut self) {
        if let Some(directory) = &self.made {
            // A directory that is not empty stays.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// As root, new files belong to the owner of their directory.
fn give_to_owner_above(directory: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
    let above = fs::metadata(above.unwrap_or(Path::new(".")))?;
    lchown(directory, Some(above.uid()), Some(above.gid()))
}
