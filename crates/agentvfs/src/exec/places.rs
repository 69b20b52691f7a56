//! The directories of runs and sessions that are going on: where their mounts are, and how what a dead one left is found.

use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::workspace::host;
use super::{copied, home};
use crate::error::{Error, Result};
use crate::mount;
use crate::removal::remove_tree;
use crate::store::Store;

/// Below the store: a directory for each run that is going on.
pub(crate) const RUNS: &str = "runs";
/// Below the store: one for each session.
pub(crate) const SESSIONS: &str = "sessions";
/// Locked as long as the run goes on.
pub(crate) const LOCK: &str = "lock";
/// Where the vault is mounted.
const MOUNTPOINT: &str = "workspace";
/// The socket through which the run can ask.
const DOOR: &str = "door";
/// What a session has there beside: its socket, what it is, and what it and its shell talk by.
const OF_SESSION: [&str; 2] = ["control", RECORD];
pub(crate) const RECORD: &str = "session.json";
pub(crate) const TALK: &str = "talk";

/// The directory of a run. Nothing is left of it when this is dropped, and nothing stays mounted in it.
pub(crate) struct RunDirectory {
    place: PathBuf,
    _lock: File,
}

impl RunDirectory {
    /// Makes the directory of a run or a session, and clears away those of what died.
    pub fn make(store: &Store, kind: &str, id: &str) -> Result<RunDirectory> {
        let home = store.home().ok_or(Error::NoPlaceForRuns)?;
        let place = home.join(kind).join(id);
        // Until it is released, nobody takes a directory that is not locked yet for one of a run that died.
        let _turn = turn(home).map_err(|source| host("locking", home, source))?;
        clear_away_in_turn(home);
        let made = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(place.join(MOUNTPOINT))?;
            let lock = File::create(place.join(LOCK))?;
            rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            Ok(lock)
        };
        let lock = made().map_err(|source| host("making", &place, source))?;
        Ok(RunDirectory { place, _lock: lock })
    }

    pub fn mountpoint(&self) -> PathBuf {
        self.place.join(MOUNTPOINT)
    }

    pub fn door(&self) -> PathBuf {
        self.place.join(DOOR)
    }

    pub fn place(&self) -> &Path {
        &self.place
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        remove(&self.place);
    }
}

impl Store {
    /// Takes away what runs and sessions left that died, with their mounts.
    pub fn clear_away_runs(&self) {
        if let Some(home) = self.home() {
            clear_away(home);
        }
    }
}

/// Waits until nobody else makes a directory or clears some away.
fn turn(home: &Path) -> io::Result<File> {
    let runs = home.join(RUNS);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&runs)?;
    let directory = File::open(runs)?;
    rustix::fs::flock(&directory, FlockOperation::LockExclusive)?;
    Ok(directory)
}

/// Removes what killed runs and sessions left, with their mounts.
pub(crate) fn clear_away(home: &Path) {
    // Most of the time there is nothing, and then nothing is locked and nobody waited for.
    if places(home).next().is_some()
        && let Ok(_turn) = turn(home)
    {
        clear_away_in_turn(home);
    }
}

fn clear_away_in_turn(home: &Path) {
    for place in places(home).filter(|place| is_left(place)) {
        if let Some(run) = place.file_name().and_then(|name| name.to_str()) {
            copied::clear_away(run);
        }
        remove(&place);
    }
}

/// The directories of runs and sessions, also of those that go on.
fn places(home: &Path) -> impl Iterator<Item = PathBuf> {
    let listings = [RUNS, SESSIONS].map(|kind| std::fs::read_dir(home.join(kind)));
    listings.into_iter().flatten().flatten().flatten().map(|entry| entry.path())
}

/// Whether nobody has a directory any more. One without a lock is what is left of one that could not be removed: whoever
/// makes one has locked it when the turn is over.
fn is_left(place: &Path) -> bool {
    match File::open(place.join(LOCK)) {
        Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Never what is below a mountpoint: directories go only if they are empty.
fn remove(place: &Path) {
    // What cannot be removed now is removed by the next command.
    for mountpoint in [MOUNTPOINT, home::MOUNTPOINT].map(|name| place.join(name)) {
        // Asked of the kernel by the attempt itself: a mount that is dead answers nothing else.
        if std::fs::remove_dir(&mountpoint).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
            mount::detach(&mountpoint);
            let _ = std::fs::remove_dir(&mountpoint);
        }
    }
    // Nothing is mounted in it, and no link is followed.
    let _ = remove_tree(&place.join(home::PRIVATE));
    let _ = std::fs::remove_file(place.join(DOOR));
    for name in OF_SESSION {
        let _ = std::fs::remove_file(place.join(name));
    }
    // Nothing of a sandbox could ever make anything there.
    let _ = std::fs::remove_dir_all(place.join(TALK));
    let _ = std::fs::remove_file(place.join(LOCK));
    let _ = std::fs::remove_dir(place);
}
