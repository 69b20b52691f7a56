//! The number of commits that the user does not have, cached: counting them takes several processes.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::host::HostRepository;

/// The file of a task that remembers it.
const FILE: &str = "commits.json";

#[derive(Serialize, Deserialize)]
struct Counted {
    /// The digest of all that the count depends on.
    of: String,
    commits: usize,
}

/// A file for one count. If it cannot be read or written, commits are counted again.
pub(super) struct Memory {
    directory: PathBuf,
    of: String,
}

impl Memory {
    /// `states` are those of the task. `None`: it is unknown when the count would change.
    pub(super) fn new<'a>(
        directory: PathBuf,
        states: &[String],
        hosts: impl Iterator<Item = &'a HostRepository>,
    ) -> Option<Memory> {
        let mut hasher = blake3::Hasher::new();
        for state in states {
            hasher.update(state.as_bytes());
        }
        for host in hosts {
            add_refs(host, &mut hasher).ok()?;
        }
        Some(Memory {
            directory,
            of: hasher.finalize().to_hex().to_string(),
        })
    }

    pub(super) fn recall(&self) -> Option<usize> {
        let text = fs::read(self.directory.join(FILE)).ok()?;
        let counted: Counted = serde_json::from_slice(&text).ok()?;
        (counted.of == self.of).then_some(counted.commits)
    }

    pub(super) fn keep(&self, commits: usize) {
        let text = crate::record::encode(&Counted {
            of: self.of.clone(),
            commits,
        });
        let written = tempfile::NamedTempFile::new_in(&self.directory).and_then(|file| {
            fs::write(file.path(), text)?;
            Ok(file.persist(self.directory.join(FILE))?)
        });
        drop(written);
    }
}

/// Everything that names commits in a repository, by the versions of its files: git replaces them, and never writes
/// into one.
fn add_refs(host: &HostRepository, hasher: &mut blake3::Hasher) -> std::io::Result<()> {
    let mut open: Vec<PathBuf> = Vec::new();
    for directory in [host.place(), host.common()] {
        open.extend(["HEAD", "packed-refs", "shallow", "refs", "reftable"].map(|name| directory.join(name)));
    }
    while let Some(path) = open.pop() {
        let found = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            found => found?,
        };
        if found.is_dir() {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
            open.sort();
        }
        add_version(&path, &found, hasher);
    }
    Ok(())
}

fn add_version(path: &Path, found: &fs::Metadata, hasher: &mut blake3::Hasher) {
    hasher.update(path.as_os_str().as_bytes());
    for number in [
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ] {
        hasher.update(&number.to_le_bytes());
    }
    for number in [found.ino(), found.size(), u64::from(found.mode())] {
        hasher.update(&number.to_le_bytes());
    }
}
