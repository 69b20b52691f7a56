//! Where a store keeps what is being applied, and what was replaced.
//!
//! ```text
//! applies/lock          held by whoever applies or takes back
//! applies/pending/ID/   one that is not done: plan.json, staged.json, done.json, kept/N, aside/N
//! applies/ID/           one that is done, with the files that it replaced or removed, and about.json
//! ```
//!
//! `plan.json` is there before anything changes, `staged.json` before anything in the directory has another
//! name, and `done.json` when everything has: one without it is taken back, one with it is only put away.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::ApplyError;
use super::record::ApplyId;
use crate::approvals::raw::Raw;
use crate::store::Store;

pub(super) struct Ledger {
    place: PathBuf,
}

/// Held while something is applied or taken back.
pub(super) struct Turn(#[allow(dead_code, reason = "held for its lock")] File);

impl Ledger {
    pub fn of(store: &Store) -> Result<Ledger, ApplyError> {
        let home = store.home().ok_or(ApplyError::NoPlace)?;
        Ok(Ledger { place: home.join("applies") })
    }

    fn pending(&self) -> PathBuf {
        self.place.join("pending")
    }

    /// Waits for its turn.
    pub fn turn(&self, patience: Duration) -> Result<Turn, ApplyError> {
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

    /// `None`: somebody else has it.
    pub fn turn_at_once(&self) -> Result<Option<Turn>, ApplyError> {
        make_directory(&self.pending())?;
        let path = self.place.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(|source| failed("opening", &path, source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Turn(lock))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(source)) => Err(failed("locking", &path, source)),
        }
    }

    /// The applies that are not done. Costs next to nothing when there are none.
    pub fn unfinished(&self) -> Result<Vec<ApplyId>, ApplyError> {
        numbers(&self.pending())
    }

    /// Begins a new apply.
    pub fn begin(&self, id: ApplyId) -> Result<Folder, ApplyError> {
        let folder = self.open_pending(id);
        make_directory(&folder.path.join("kept"))?;
        make_directory(&folder.path.join("aside"))?;
        Ok(folder)
    }

    pub fn open_pending(&self, id: ApplyId) -> Folder {
        Folder { id, path: self.pending().join(id.to_string()) }
    }

    /// The folder of an apply that is done.
    pub fn open_done(&self, id: ApplyId) -> Folder {
        Folder { id, path: self.place.join(id.to_string()) }
    }

    /// Puts a folder to those that are done, in the place of old ones of the same directory.
    pub fn put_away(&self, folder: &Folder, directory: &Raw) -> Result<Folder, ApplyError> {
        folder.note_what_is_kept(directory);
        let done = self.open_done(folder.id);
        let moved = std::fs::rename(&folder.path, &done.path);
        moved.map_err(|source| failed("moving", &folder.path, source))?;
        self.forget_old(directory)?;
        Ok(done)
    }

    /// The applies that are done and keep something, oldest first.
    pub fn done(&self) -> Result<Vec<ApplyId>, ApplyError> {
        numbers(&self.place)
    }

    pub fn place(&self) -> &Path {
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
        ids.extend(entry.file_name().to_str().and_then(|name| name.parse().ok()).map(ApplyId));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// What is known of one apply, and what it keeps.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub id: ApplyId,
    pub path: PathBuf,
}

impl Folder {
    pub const PLAN: &str = "plan.json";
    pub const STAGED: &str = "staged.json";
    pub const LEFT: &str = "left.json";
    pub const DONE: &str = "done.json";

    /// Keeps a note; it is durable when this returns.
    pub fn write(&self, name: &str, note: &impl Serialize) -> Result<(), ApplyError> {
        let (path, draft) = (self.path.join(name), self.path.join(format!("{name}.draft")));
        let write = || {
            let mut file =
                File::options().create(true).truncate(true).write(true).mode(0o600).open(&draft)?;
            file.write_all(&crate::record::encode(note))?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|source| failed("writing", &path, source))
    }

    /// `None`: there is no such note.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ApplyError> {
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

    pub fn kept(&self) -> Result<OwnedFd, ApplyError> {
        self.open("kept")
    }

    /// Where entries of ours go that are taken back.
    pub fn aside(&self) -> Result<OwnedFd, ApplyError> {
        self.open("aside")
    }

    /// Whether an entry of ours had been in its place.
    pub fn has_put_aside(&self) -> Result<bool, ApplyError> {
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

    pub fn kept_path(&self, number: usize) -> PathBuf {
        self.path.join("kept").join(number.to_string())
    }

    pub fn remove(&self) -> Result<(), ApplyError> {
        match std::fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(failed("removing", &self.path, error))
            }
            _ => Ok(()),
        }
    }
}

fn make_directory(path: &Path) -> Result<(), ApplyError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| failed("creating", path, source))
}

fn failed(action: &'static str, path: &Path, source: std::io::Error) -> ApplyError {
    ApplyError::Host { action, path: path.to_owned(), source }
}
