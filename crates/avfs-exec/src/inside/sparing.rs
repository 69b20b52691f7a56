//! Who goes first when memory runs out: the command, before the stage that reports it.
//!
//! A process hands on its score to what it starts. So the stage takes the higher one for the moment in which it starts the
//! command, and then its own again.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Added to what a command uses, in thousandths of the memory that there is for it.
const FIRST: i32 = 500;

/// The score of this process. Opened early: a process whose memory is nobody's business cannot open it any more.
pub(super) struct Score {
    /// A kernel without it only reports less well.
    file: Option<File>,
}

impl Score {
    pub(super) fn open() -> Score {
        Score { file: File::options().read(true).write(true).open("/proc/self/oom_score_adj").ok() }
    }

    /// Starts something that goes first.
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
            // Who may raise it may lower it again.
            let _ = file.write_at(score.to_string().as_bytes(), 0);
        }
    }
}
