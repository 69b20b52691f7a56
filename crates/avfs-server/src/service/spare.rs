//! Room on the disk that nobody uses: on a disk that is full, it lets something be deleted, which has to be written down.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

const SIZE: u64 = 2 << 20;

/// The spare room of a tenant.
pub(super) struct Spare(PathBuf);

impl Spare {
    pub fn in_directory(home: &Path) -> Spare {
        Spare(home.join("server.spare"))
    }

    /// Takes the room up, if it is not. Where there is none, it is tried again another time.
    pub fn keep(&self) {
        if self.0.exists() {
            return;
        }
        let Ok(file) = File::create(&self.0) else { return };
        if fallocate(&file, FallocateFlags::empty(), 0, SIZE).is_err() {
            // A file without room would stand for one that has some.
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Gives the room up. Returns whether there was some.
    pub fn give_up(&self) -> bool {
        std::fs::remove_file(&self.0).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn room_is_taken_up_until_it_is_needed() {
        let directory = tempfile::tempdir().unwrap();
        let spare = Spare::in_directory(directory.path());
        assert!(!spare.give_up());
        spare.keep();
        spare.keep();
        let file = directory.path().join("server.spare");
        assert_eq!(file.metadata().unwrap().blocks() * 512, SIZE);
        assert!(spare.give_up());
        assert!(!spare.give_up());
    }
}
