//! The locations of the files of a store, and which directories can hold one.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::door::StoreError;
use crate::embedded::failure::io_failure;

/// The files of one store.
#[derive(Clone, Debug)]
pub(crate) struct StoreLayout {
    dir: PathBuf,
}

impl StoreLayout {
    /// Finds the directory, or creates it if `create` is set. A directory on a file system that cannot keep a
    /// store's guarantees is refused before anything is created there.
    pub(crate) fn open(dir: &Path, create: bool) -> Result<StoreLayout, StoreError> {
        let dir =
            std::path::absolute(dir).map_err(|e| io_failure("finding", dir.display().to_string(), e))?;
        refuse_unsuitable(&dir)?;
        let layout = StoreLayout { dir };
        if !layout.database().exists() {
            if !create {
                return Err(unsuitable(&layout.dir, "there is no store in it"));
            }
            layout.make_directories()?;
        }
        Ok(layout)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join("store.db")
    }

    pub(crate) fn write_ahead_log(&self) -> PathBuf {
        self.dir.join("store.db-wal")
    }

    /// The note of the log's contents at the last acknowledged commit.
    pub(crate) fn log_note(&self) -> PathBuf {
        self.dir.join("store.db-wal.sum")
    }

    /// SQLite's index of the log.
    pub(crate) fn shared_memory(&self) -> PathBuf {
        self.dir.join("store.db-shm")
    }

    /// The second copy of refs.
    pub(crate) fn ref_log(&self) -> PathBuf {
        self.dir.join("refs.log")
    }

    /// Space that is reserved for freeing space.
    pub(crate) fn reserve(&self) -> PathBuf {
        self.dir.join("reserve")
    }

    pub(crate) fn packs(&self) -> PathBuf {
        self.dir.join("packs")
    }

    pub(crate) fn pack(&self, number: u32) -> PathBuf {
        self.dir.join(pack_name(number))
    }

    /// Opens the file whose lock blocks garbage collection, created on first use.
    pub(crate) fn open_gc_lock(&self) -> Result<File, StoreError> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            // Its contents do not matter: only locks on it do.
            .truncate(false)
            .mode(0o600);
        let place = self.dir.join("gc.lock");
        let opened = match options.open(&place) {
            // A lock can also be taken on a file that is open for reading only.
            Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem => File::open(&place),
            opened => opened,
        };
        opened.map_err(|e| io_failure("opening", "gc.lock", e))
    }

    /// The numbers of all pack files, ascending. Files with other names are not ours and are ignored.
    pub(crate) fn pack_numbers(&self) -> Result<Vec<u32>, StoreError> {
        let fail = |e| io_failure("listing", "packs", e);
        let mut numbers = Vec::new();
        let entries = match std::fs::read_dir(self.packs()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(no_packs()),
            listed => listed.map_err(fail)?,
        };
        for entry in entries {
            let name = entry.map_err(fail)?.file_name();
            numbers.extend(name.to_str().and_then(pack_number));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Recreates the directory of packs if it is missing.
    pub(crate) fn restore_packs(&self) -> Result<(), StoreError> {
        make_private_dir(&self.packs())
            .and_then(|()| sync_dir(&self.dir))
            .map_err(|e| io_failure("making", "packs", e))
    }

    fn make_directories(&self) -> Result<(), StoreError> {
        let parent = self.dir.parent().unwrap_or(&self.dir);
        let fail = |e| io_failure("making", self.dir.display().to_string(), e);
        std::fs::create_dir_all(parent).map_err(fail)?;
        make_private_dir(&self.dir).map_err(fail)?;
        make_private_dir(&self.packs()).map_err(fail)?;
        sync_dir(parent).map_err(fail)
    }
}

/// The path of a pack relative to the store's directory, as it also appears in messages.
pub(crate) fn pack_name(number: u32) -> String {
    format!("packs/{number:08}.pack")
}

/// The directory of packs is created before the database, so it cannot be missing beside one.
fn no_packs() -> StoreError {
    StoreError::Damaged {
        place: "packs".to_owned(),
        detail: "the directory is missing".to_owned(),
    }
}

fn pack_number(file_name: &str) -> Option<u32> {
    let digits = file_name.strip_suffix(".pack")?;
    let canonical = digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit());
    canonical.then(|| digits.parse().ok()).flatten()
}

fn make_private_dir(path: &Path) -> io::Result<()> {
    // A store holds what its user may read, and other users may not.
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn unsuitable(dir: &Path, reason: impl Into<String>) -> StoreError {
    StoreError::Unsuitable {
        place: dir.to_owned(),
        reason: reason.into(),
    }
}

fn refuse_unsuitable(dir: &Path) -> Result<(), StoreError> {
    let existing = dir
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    let info = rustix::fs::statfs(existing).map_err(|e| {
        io_failure(
            "asking the filesystem of",
            existing.display().to_string(),
            e.into(),
        )
    })?;
    match refusal(info.f_type as u64 & 0xffff_ffff) {
        Some(reason) => Err(unsuitable(dir, reason)),
        None => Ok(()),
    }
}

/// Why a file system of this type (`f_type` of statfs) cannot hold a store.
fn refusal(filesystem: u64) -> Option<&'static str> {
    match filesystem {
        0x6969 => Some("it is on NFS, where locks and syncs cannot be relied on; use a local disk"),
        0x517B | 0xFF53_4D42 | 0xFE53_4D42 => {
            Some("it is on an SMB share, where locks and syncs cannot be relied on; use a local disk")
        }
        0x0102_1997 => Some("it is on 9p, where locks and syncs cannot be relied on; use a local disk"),
        0x5346_414F | 0x6B41_4653 => {
            Some("it is on AFS, where locks and syncs cannot be relied on; use a local disk")
        }
        0x00C3_6400 => Some("it is on Ceph, where locks and syncs cannot be relied on; use a local disk"),
        0x6573_5546 => Some("it is on FUSE, and a store cannot live inside a mount; use a local disk"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_filesystems_and_fuse_are_refused_with_the_reason() {
        for (filesystem, word) in [
            (0x6969, "NFS"),
            (0xFE53_4D42, "SMB"),
            (0x0102_1997, "9p"),
            (0x6B41_4653, "AFS"),
            (0x00C3_6400, "Ceph"),
            (0x6573_5546, "inside a mount"),
        ] {
            assert!(refusal(filesystem).unwrap().contains(word));
        }
        for local in [0xEF53, 0x9123_683E, 0x5846_5342, 0x0102_1994, 0x2FC1_2FC1] {
            assert_eq!(refusal(local), None);
        }
    }

    #[test]
    fn only_our_own_names_are_packs() {
        assert_eq!(pack_number("00000012.pack"), Some(12));
        for other in [
            "12.pack",
            "00000012.pack.bak",
            "0000001x.pack",
            "+0000012.pack",
            "99999999999.pack",
        ] {
            assert_eq!(pack_number(other), None);
        }
    }
}
