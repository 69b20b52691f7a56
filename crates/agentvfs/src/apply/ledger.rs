//! Where a store keeps applies in progress, and replaced entries.
//!
//! ```text
//! applies/lock          held by the process that applies or rolls back
//! applies/pending/ID/   one that is not done: plan.json, staged.json, done.json, room, kept/N, aside/N
//! applies/ID/           one that is done, with the files that it replaced or removed, and about.json
//! ```
//!
//! `plan.json` exists before anything changes, `staged.json` before anything in the directory is renamed, and
//! `done.json` after everything was: an apply without it is rolled back, one with it only needs to be put
//! away. `room` exists between the last two.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ApplyError;
use crate::error::ApplyId;
use crate::store::Store;
use crate::stored_bytes::StoredBytes;

pub(super) struct Ledger {
    place: PathBuf,
}

/// Held while something is applied or undone.
pub(super) struct ApplyTurn(#[allow(dead_code, reason = "held for its lock")] File);

impl Ledger {
    pub(super) fn of(store: &Store) -> crate::error::Result<Ledger> {
        Ok(Ledger::at(store.work().place()?))
    }

    pub(super) fn at(work: &Path) -> Ledger {
        Ledger {
            place: work.join("applies"),
        }
    }

    fn pending(&self) -> PathBuf {
        self.place.join("pending")
    }

    /// Waits for its turn.
    pub(super) fn turn(&self, patience: Duration) -> Result<ApplyTurn, ApplyError> {
        let start = Instant::now();
        loop {
            if let Some(turn) = self.turn_at_once()? {
                return Ok(turn);
            }
            if start.elapsed() >= patience {
                return Err(ApplyError::Busy);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// `None`: another process has it.
    pub(super) fn turn_at_once(&self) -> Result<Option<ApplyTurn>, ApplyError> {
        make_directory(&self.pending())?;
        let path = self.place.join("lock");
        let lock = File::options()
            .create(true)
            // Others may hold the lock, and the file itself is never read.
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path);
        let lock = lock.map_err(|source| failed("opening", &path, source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(ApplyTurn(lock))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(source)) => Err(failed("locking", &path, source)),
        }
    }

    /// The unfinished applies. Nearly free when there are none.
    pub(super) fn unfinished(&self) -> Result<Vec<ApplyId>, ApplyError> {
        numbers(&self.pending())
    }

    /// Begins a new apply.
    pub(super) fn begin(&self, id: ApplyId) -> Result<Folder, ApplyError> {
        let folder = self.open_pending(id);
        // Before the plan is written, which says that something may be in them.
        make_directory(&folder.path.join("kept"))?;
        make_directory(&folder.path.join("aside"))?;
        Ok(folder)
    }

    pub(super) fn open_pending(&self, id: ApplyId) -> Folder {
        Folder {
            id,
            path: self.pending().join(id.to_string()),
        }
    }

    /// The folder of an apply that is done.
    pub(super) fn open_done(&self, id: ApplyId) -> Folder {
        Folder {
            id,
            path: self.place.join(id.to_string()),
        }
    }

    /// Puts a folder to those that are done, in the place of old ones of the same directory.
    pub(super) fn put_away(&self, folder: &Folder, directory: &StoredBytes) -> Result<Folder, ApplyError> {
        // While it still is among the pending ones: after the rename, others may count or remove it.
        folder.note_what_is_kept(directory);
        let done = self.open_done(folder.id);
        let moved = std::fs::rename(&folder.path, &done.path);
        moved.map_err(|source| failed("moving", &folder.path, source))?;
        self.forget_old(directory)?;
        Ok(done)
    }

    /// The applies that are done and keep something, oldest first.
    pub(super) fn done(&self) -> Result<Vec<ApplyId>, ApplyError> {
        numbers(&self.place)
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }
}

fn numbers(place: &Path) -> Result<Vec<ApplyId>, ApplyError> {
    let entries = match std::fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed("reading", place, source)),
    };
    let mut ids = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| failed("reading", place, source))?;
        ids.extend(
            entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
                .map(ApplyId),
        );
    }
    // A directory is read in no order, and ids grow with time.
    ids.sort_unstable();
    Ok(ids)
}

/// The notes about one apply, and the data that it keeps.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub id: ApplyId,
    pub path: PathBuf,
}

impl Folder {
    pub(super) const PLAN: &str = "plan.json";
    pub(super) const STAGED: &str = "staged.json";
    pub(super) const LEFT: &str = "left.json";
    pub(super) const DONE: &str = "done.json";

    /// Keeps a note; it is durable when this returns.
    pub(super) fn write(&self, name: &str, note: &impl Serialize) -> Result<(), ApplyError> {
        let (path, draft) = (self.path.join(name), self.path.join(format!("{name}.draft")));
        let write = || {
            let mut file = File::options()
                .create(true)
                .truncate(true)
                .write(true)
                // It names files that other users may not see.
                .mode(0o600)
                .open(&draft)?;
            file.write_all(&crate::record::encode(note))?;
            file.sync_all()?;
            // A note is there whole or not at all: the bytes are durable first, then the name, then the
            // directory.
            std::fs::rename(&draft, &path)?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|source| failed("writing", &path, source))
    }

    /// Takes a note away, for good when this returns.
    pub(super) fn withdraw(&self, name: &str) -> Result<(), ApplyError> {
        let path = self.path.join(name);
        let withdrawn = std::fs::remove_file(&path).and_then(|()| File::open(&self.path)?.sync_all());
        withdrawn.map_err(|source| failed("removing", &path, source))
    }

    /// `None`: there is no such note.
    pub(super) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ApplyError> {
        let path = self.path.join(name);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("reading", &path, source)),
        };
        let damaged = |error: serde_json::Error| ApplyError::Damaged {
            id: self.id.to_string(),
            reason: format!("{name}: {error}"),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    pub(super) fn kept(&self) -> Result<OwnedFd, ApplyError> {
        self.open("kept")
    }

    /// The directory for our own entries that are rolled back.
    pub(super) fn aside(&self) -> Result<OwnedFd, ApplyError> {
        self.open("aside")
    }

    /// Whether an entry of ours had reached its place.
    pub(super) fn has_put_aside(&self) -> Result<bool, ApplyError> {
        let place = self.path.join("aside");
        let mut entries = std::fs::read_dir(&place).map_err(|source| failed("reading", &place, source))?;
        Ok(entries.next().is_some())
    }

    fn open(&self, name: &str) -> Result<OwnedFd, ApplyError> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::empty());
        opened.map_err(|errno| ApplyError::host("opening", path, errno))
    }

    pub(super) fn kept_path(&self, number: usize) -> PathBuf {
        self.path.join("kept").join(number.to_string())
    }

    pub(super) fn remove(&self) -> Result<(), ApplyError> {
        match std::fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(failed("removing", &self.path, error))
            }
            _ => Ok(()),
        }
    }
}

fn make_directory(path: &Path) -> Result<(), ApplyError> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|source| failed("creating", path, source))
}

fn failed(action: &'static str, path: &Path, source: std::io::Error) -> ApplyError {
    ApplyError::Host {
        action,
        path: path.to_owned(),
        source,
    }
}
