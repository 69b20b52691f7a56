//! The lock of a working tree: exactly one process owns it.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::error::{Error, OwnerError, Result};
use crate::record::VaultId;

/// Held by the owner of a working tree; dropping it lets the next one in.
#[derive(Debug)]
pub(crate) enum Ownership {
    File(#[allow(dead_code, reason = "held for its lock")] File),
    /// For a vault that cannot be changed, shared with other processes. Without a file if it never had an
    /// owner.
    Shared(#[allow(dead_code, reason = "held for its lock")] Option<File>),
    Process {
        taken: Arc<Mutex<HashSet<VaultId>>>,
        id: VaultId,
    },
}

impl Drop for Ownership {
    fn drop(&mut self) {
        if let Ownership::Process { taken, id } = self {
            taken
                .lock()
                .expect("no panic happens while the lock is held")
                .remove(id);
        }
    }
}

/// Where the owner of a vault works: its lock and its journals.
pub(crate) fn work_directory(home: &Path, id: VaultId) -> PathBuf {
    home.join("work").join(id.to_string())
}

/// Takes ownership of a vault in a directory, or returns which process has it.
pub(crate) fn take(directory: &Path, vault: &str) -> Result<Ownership> {
    let host = |action, source| Error::Host {
        action,
        place: directory.display().to_string(),
        source,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|source| host("creating", source))?;
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(true)
        // Not before it is locked: it names the present owner.
        .truncate(false)
        .mode(0o600);
    let mut file = options
        .open(directory.join("lock"))
        .map_err(|source| host("opening the lock in", source))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(busy(&mut file, vault)),
        Err(TryLockError::Error(source)) => return Err(host("locking", source)),
    }
    // Only for the message to other processes; a failure to write it does no harm.
    let _ = file
        .set_len(0)
        .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
    Ok(Ownership::File(file))
}

/// Shares a vault on a read-only disk. A process that wants to own it, once it is writable, must wait.
pub(crate) fn share(directory: &Path, vault: &str) -> Result<Ownership> {
    let host = |action, source| Error::Host {
        action,
        place: directory.display().to_string(),
        source,
    };
    let mut file = match File::open(directory.join("lock")) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ownership::Shared(None)),
        Err(source) => return Err(host("opening the lock in", source)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Ownership::Shared(Some(file))),
        Err(TryLockError::WouldBlock) => Err(busy(&mut file, vault)),
        Err(TryLockError::Error(source)) => Err(host("locking", source)),
    }
}

fn busy(file: &mut File, vault: &str) -> Error {
    let mut owner = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(32).read_to_string(&mut owner));
    if read.is_err() || owner.is_empty() {
        owner = "unknown".into();
    }
    Error::Owner(OwnerError::Busy {
        vault: vault.to_owned(),
        owner,
        by: None,
    })
}

/// Takes ownership of a vault of a store that lives in this process alone.
pub(crate) fn take_in_process(
    taken: &Arc<Mutex<HashSet<VaultId>>>,
    id: VaultId,
    vault: &str,
) -> Result<Ownership> {
    let free = taken
        .lock()
        .expect("no panic happens while the lock is held")
        .insert(id);
    if !free {
        return Err(Error::Owner(OwnerError::Busy {
            vault: vault.to_owned(),
            owner: std::process::id().to_string(),
            by: None,
        }));
    }
    Ok(Ownership::Process {
        taken: Arc::clone(taken),
        id,
    })
}
