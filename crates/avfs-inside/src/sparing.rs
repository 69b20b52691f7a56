//! Which process is killed first when memory runs out: the command, before the stage that reports it.
//!
//! A process inherits the score of its parent. So the stage has the higher score for the moment in which it
//! starts the command, and then restores its own.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Added to the score of a command, in thousandths of the available memory.
const FIRST: i32 = 500;

/// The score of this process. Opened early: a process that is not dumpable can no longer open it.
pub(super) struct OomScore {
    /// Without it, the kernel may kill the stage first, and the report is less precise.
    file: Option<File>,
}

impl OomScore {
    pub(super) fn open() -> OomScore {
        OomScore {
            file: File::options()
                .read(true)
                .write(true)
                .open("/proc/self/oom_score_adj")
                .ok(),
        }
    }

    /// Starts a process with the higher score.
    pub(super) fn start_first<T>(&self, start: impl FnOnce() -> T) -> T {
        let own = self.read().unwrap_or(0);
        self.write(own.max(FIRST));
        let started = start();
        self.write(own);
        started
    }

    fn read(&self) -> Option<i32> {
        let mut bytes = [0; 16];
        let count = self.file.as_ref()?.read_at(&mut bytes, 0).ok()?;
        std::str::from_utf8(&bytes[..count]).ok()?.trim().parse().ok()
    }

    fn write(&self, score: i32) {
        if let Some(file) = &self.file {
            // A process that may raise its score may lower it again.
            let _ = file.write_at(score.to_string().as_bytes(), 0);
        }
    }
}
