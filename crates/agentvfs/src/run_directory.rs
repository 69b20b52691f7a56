//! The directories of active runs and sessions: where their mounts and sockets are.

use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::error::{Error, Result};
use crate::run_leftovers::{BUNDLES, DOOR, MOUNTPOINT, clear_away_in_turn, own, remove, turn};
pub(crate) use crate::run_leftovers::{
    HOME_MOUNTPOINT, HOME_PRIVATE, LOCK, RECORD, RUNS, SESSIONS, TALK, clear_away, copy_of,
};
use crate::store::Store;

/// The directory of a run. Nothing is left of it when this is dropped, and nothing stays mounted in it.
pub(crate) struct RunDirectory {
    place: PathBuf,
    _lock: File,
}

impl RunDirectory {
    /// Creates the directory of a run or a session, and removes those of dead ones.
    pub(crate) fn make(store: &Store, kind: &str, id: &str) -> Result<RunDirectory> {
        let home = store.work().place()?;
        let place = home.join(kind).join(id);
        // Until it is released, no process mistakes a directory that is not locked yet for one of a dead run.
        let _turn = turn(home).map_err(|source| host("locking", home, source))?;
        clear_away_in_turn(home);
        let made = || {
            std::fs::DirBuilder::new()
                .recursive(true)
                // Sockets and a private home are in it: no other user may even list it.
                .mode(0o700)
                .create(place.join(MOUNTPOINT))?;
            let lock = File::create(place.join(LOCK))?;
            rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            Ok(lock)
        };
        let lock = made().map_err(|source| host("making", &place, source))?;
        own().insert(place.clone());
        Ok(RunDirectory { place, _lock: lock })
    }

    pub(crate) fn mountpoint(&self) -> PathBuf {
        self.place.join(MOUNTPOINT)
    }

    pub(crate) fn door(&self) -> PathBuf {
        self.place.join(DOOR)
    }

    /// Where the bundles of containers are.
    pub(crate) fn bundles(&self) -> PathBuf {
        self.place.join(BUNDLES)
    }

    pub(crate) fn place(&self) -> &Path {
        &self.place
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        remove(&self.place);
        own().remove(&self.place);
    }
}

fn host(action: &'static str, place: &Path, source: io::Error) -> Error {
    Error::Host {
        action,
        place: place.display().to_string(),
        source,
    }
}
