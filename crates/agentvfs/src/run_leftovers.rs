//! What runs and sessions have in their directories, and how the leftovers of dead ones are found and removed.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use avfs_fuse::mounting::{self, UnmountMode};
use rustix::fs::FlockOperation;

use crate::removal::remove_tree;

/// Below the store: a directory for each run that is going on.
pub(crate) const RUNS: &str = "runs";
/// Below the store: one for each session.
pub(crate) const SESSIONS: &str = "sessions";
/// Locked during the run.
pub(crate) const LOCK: &str = "lock";
/// Where the vault is mounted.
pub(crate) const MOUNTPOINT: &str = "workspace";
/// The socket through which the run can ask.
pub(crate) const DOOR: &str = "door";
/// What the runtimes of containers write.
pub(crate) const BUNDLES: &str = "containers";
/// Where a view of the home is mounted, and where its private part is.
pub(crate) const HOME_MOUNTPOINT: &str = "home";
pub(crate) const HOME_PRIVATE: &str = "private";
/// What the directories of copies are called, before the id of their run.
const COPY: &str = "avfs-copy-";
/// What a session has there beside: its socket, what it is, and what it and its shell talk by.
const OF_SESSION: [&str; 2] = ["control", RECORD];
pub(crate) const RECORD: &str = "session.json";
pub(crate) const TALK: &str = "talk";

/// The directories of this process that go on. It need not ask for their locks, and there may be many. A forked child
/// has a copy of the list, and takes none of those away either.
static OWN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

pub(crate) fn own() -> MutexGuard<'static, HashSet<PathBuf>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a plain copy for a run, which every user of the machine can reach.
pub(crate) fn copy_of(run: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{COPY}{run}"))
}

/// Waits until nobody else makes a directory or clears some away.
pub(crate) fn turn(home: &Path) -> io::Result<File> {
    let runs = home.join(RUNS);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&runs)?;
    let directory = File::open(runs)?;
    rustix::fs::flock(&directory, FlockOperation::LockExclusive)?;
    Ok(directory)
}

/// Removes the leftovers of killed runs and sessions, with their mounts.
pub(crate) fn clear_away(home: &Path) {
    // Usually there are none, and then no lock is taken.
    if has_runs(home)
        && let Ok(_turn) = turn(home)
    {
        clear_away_in_turn(home);
    }
}

/// Whether there are runs or sessions, active or not yet removed.
pub(crate) fn has_runs(home: &Path) -> bool {
    places(home).next().is_some()
}

pub(crate) fn clear_away_in_turn(home: &Path) {
    for place in places(home).filter(|place| is_left(place)) {
        if let Some(run) = place.file_name().and_then(|name| name.to_str()) {
            // A copy is outside of the store: it is removed by its name, not with the directory.
            let _ = remove_tree(&copy_of(run));
        }
        remove(&place);
    }
}

/// The directories of runs and sessions, also of those that go on.
fn places(home: &Path) -> impl Iterator<Item = PathBuf> {
    let listings = [RUNS, SESSIONS].map(|kind| std::fs::read_dir(home.join(kind)));
    listings
        .into_iter()
        .flatten()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}

/// Whether a directory is a leftover. A directory without a lock could not be removed completely: a process
/// that creates a directory has locked it before it releases the turn.
fn is_left(place: &Path) -> bool {
    if own().contains(place) {
        return false;
    }
    match File::open(place.join(LOCK)) {
        Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Never removes anything below a mount point: directories are removed only if they are empty.
pub(crate) fn remove(place: &Path) {
    // What cannot be removed now is removed by the next command.
    for mountpoint in [MOUNTPOINT, HOME_MOUNTPOINT].map(|name| place.join(name)) {
        // Asked of the kernel by the attempt itself: a mount that is dead answers nothing else.
        if std::fs::remove_dir(&mountpoint).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
            // If it is no longer there, that is fine.
            let _ = mounting::unmount(&mountpoint, UnmountMode::Detach);
            let _ = std::fs::remove_dir(&mountpoint);
        }
    }
    // Nothing is mounted in it, and no link is followed.
    let _ = remove_tree(&place.join(HOME_PRIVATE));
    let _ = remove_tree(&place.join(BUNDLES));
    let _ = std::fs::remove_file(place.join(DOOR));
    for name in OF_SESSION {
        let _ = std::fs::remove_file(place.join(name));
    }
    // Nothing of a sandbox could ever make anything there.
    let _ = std::fs::remove_dir_all(place.join(TALK));
    let _ = std::fs::remove_file(place.join(LOCK));
    // The lock goes last but one: without it, a directory counts as a leftover, and the next command continues
    // here.
    let _ = std::fs::remove_dir(place);
}
