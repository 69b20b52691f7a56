//! Space on the disk of the store for data that must be written after the directory has been changed: notes,
//! and the record in the database. It is allocated before the first change, so that a full disk stops an
//! apply there.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::ledger::Folder;
use super::step::ApplyJournal;
use crate::error::ApplyError;

/// Pages of the database and of its log for the record, the task and their audit entries.
const FOR_THE_DATABASE: u64 = 512 << 10;
/// Copies of the plan's size that an apply writes: `left.json`, `done.json`, the record in a page of the
/// database, in its log, and in the second copy of refs.
const COPIES_OF_THE_PLAN: u64 = 5;

impl Folder {
    const ROOM: &str = "room";

    /// Allocates the space for everything that is written after the first change.
    pub(super) fn take_room(&self, journal: &ApplyJournal) -> Result<(), ApplyError> {
        let plan = crate::record::encode(journal).len() as u64;
        let path = self.path.join(Self::ROOM);
        let taken = take(&path, FOR_THE_DATABASE + COPIES_OF_THE_PLAN * plan);
        taken.map_err(|source| {
            self.release_room();
            ApplyError::host("taking room for the record of the apply in", &self.path, source)
        })
    }

    /// Releases it for the writes that follow.
    pub(super) fn release_room(&self) {
        // If it does not exist, there is nothing to release.
        let _ = std::fs::remove_file(self.path.join(Self::ROOM));
    }
}

fn take(path: &std::path::Path, size: u64) -> std::io::Result<()> {
    let mut file = File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size) {
        // If space cannot be preallocated, it is allocated by writing.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let zeros = [0; 64 << 10];
            for _ in 0..size.div_ceil(zeros.len() as u64) {
                file.write_all(&zeros)?;
            }
            file.sync_all()
        }
        taken => Ok(taken?),
    }
}
