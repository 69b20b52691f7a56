//! The local data of a store on this machine beside its objects and refs: locks, journals, sockets, mounts
//! and sandboxes in use, and the ledger of applies.
//!
//! Objects and refs may be anywhere; work is always local. A store in a directory keeps its work there. A
//! store in memory gets a temporary directory when it first needs one, and the directory is removed with the
//! store. Nothing in it outlives the process, so vaults of such a store have no journal, and this process
//! alone owns them.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use rustix::fs::FlockOperation;

use crate::error::{Error, Result};
use crate::ownership::{self, Ownership};
use crate::record::VaultId;
use crate::removal::remove_tree;
use crate::run_leftovers::{clear_away, has_runs};

/// In the directory of a vault: what its runs have written to the caches of tools.
pub(crate) const CACHES: &str = "caches";

/// The prefix of temporary directories.
const PREFIX: &str = "agentvfs-";
/// In a temporary place: locked by the process that works there.
const LOCK: &str = "in-use";

/// Where the work of one store is done.
pub(crate) enum LocalWork {
    /// In a directory that stays.
    Lasting(PathBuf),
    /// In a directory that is created on first use, and removed with the store.
    Temporary {
        place: OnceLock<TemporaryPlace>,
        /// The vaults that have an owner in this process.
        owned: Arc<Mutex<HashSet<VaultId>>>,
    },
}

pub(crate) struct TemporaryPlace {
    directory: PathBuf,
    _lock: File,
}

impl LocalWork {
    pub(crate) fn temporary() -> LocalWork {
        LocalWork::Temporary {
            place: OnceLock::new(),
            owned: Arc::default(),
        }
    }

    /// The directory, which is made if it does not exist yet.
    pub(crate) fn place(&self) -> Result<&Path> {
        match self {
            LocalWork::Lasting(place) => Ok(place),
            LocalWork::Temporary { place, .. } => match place.get() {
                Some(place) => Ok(place.directory.as_path()),
                None => {
                    let made = TemporaryPlace::make(&std::env::temp_dir())?;
                    // Another thread may have been faster; then its directory counts, and ours is removed.
                    Ok(place.get_or_init(|| made).directory.as_path())
                }
            },
        }
    }

    /// The directory, if there is one: without it, no work was ever begun.
    pub(crate) fn existing(&self) -> Option<&Path> {
        match self {
            LocalWork::Lasting(place) => Some(place),
            LocalWork::Temporary { place, .. } => place.get().map(|place| place.directory.as_path()),
        }
    }

    /// Where journals survive this process.
    pub(crate) fn lasting(&self) -> Option<&Path> {
        match self {
            LocalWork::Lasting(place) => Some(place),
            LocalWork::Temporary { .. } => None,
        }
    }

    /// The directory for the work on one vault, which is made if it does not exist yet.
    pub(crate) fn of_vault(&self, id: VaultId) -> Result<PathBuf> {
        let directory = ownership::work_directory(self.place()?, id);
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory);
        made.map_err(|source| Error::Host {
            action: "creating",
            place: directory.display().to_string(),
            source,
        })?;
        Ok(directory)
    }

    /// The directory for the work on one vault, if any vault has one.
    pub(crate) fn existing_of_vault(&self, id: VaultId) -> Option<PathBuf> {
        self.existing().map(|place| ownership::work_directory(place, id))
    }

    /// Takes ownership of a vault, or returns which process has it.
    pub(crate) fn own(&self, id: VaultId, name: &str) -> Result<Ownership> {
        match self {
            LocalWork::Lasting(place) => ownership::take(&ownership::work_directory(place, id), name),
            LocalWork::Temporary { owned, .. } => ownership::take_in_process(owned, id, name),
        }
    }
}

impl TemporaryPlace {
    fn make(below: &Path) -> Result<TemporaryPlace> {
        clear_away_abandoned(below);
        let made = || {
            // Removed by us: whatever else removes a directory would go on into the mounts below it.
            let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(below)?.keep();
            let lock = File::create(directory.join(LOCK))?;
            rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            Ok(TemporaryPlace {
                directory,
                _lock: lock,
            })
        };
        made().map_err(|source: io::Error| Error::Host {
            action: "making a directory for work in",
            place: below.display().to_string(),
            source,
        })
    }
}

impl Drop for TemporaryPlace {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// Removes a place, unless a run that was never ended (its handle was leaked) still has a mount in it.
fn remove(place: &Path) {
    clear_away(place);
    if !has_runs(place) {
        // If it cannot be removed now, the next process that needs a directory removes it.
        let _ = remove_tree(place);
    }
}

/// Removes the places of processes that were killed, with the mounts in them. Only those of this user can be removed,
/// and one without a lock file is just being made.
fn clear_away_abandoned(below: &Path) {
    let Ok(entries) = std::fs::read_dir(below) else {
        return;
    };
    for entry in entries.flatten() {
        let place = entry.path();
        let is_ours = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_ours {
            continue;
        }
        let Ok(lock) = File::open(place.join(LOCK)) else {
            continue;
        };
        // The lock is free only if the process that made the place has ended.
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_place_exists_only_once_it_is_needed_and_goes_with_its_store() {
        let work = LocalWork::temporary();
        assert_eq!(work.existing(), None);
        let place = work.place().unwrap().to_owned();
        assert!(place.is_dir());
        assert_eq!(work.place().unwrap(), place);
        drop(work);
        assert!(!place.exists());
    }

    #[test]
    fn places_of_killed_processes_are_removed_and_those_in_use_are_not() {
        let below = tempfile::tempdir().unwrap();
        let used = TemporaryPlace::make(below.path()).unwrap();
        let killed = below.path().join("agentvfs-killed");
        std::fs::create_dir_all(killed.join("runs")).unwrap();
        File::create(killed.join(LOCK)).unwrap();
        let elsewhere = below.path().join("other");
        std::fs::create_dir(&elsewhere).unwrap();
        File::create(elsewhere.join(LOCK)).unwrap();
        let second = TemporaryPlace::make(below.path()).unwrap();
        assert!(!killed.exists());
        assert!(elsewhere.exists());
        assert!(used.directory.as_path().is_dir() && second.directory.as_path().is_dir());
    }
}
