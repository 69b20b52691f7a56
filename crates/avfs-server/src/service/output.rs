//! What a process writes, for any number of listeners. They take no thread, and none of them is waited for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How much of the output of a process is kept for listeners that come later or are slow.
const KEPT_BYTES: usize = 1 << 20;

/// Some output of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputPiece {
    /// Standard output, or that of the terminal.
    Stdout(Arc<[u8]>),
    /// Standard error.
    Stderr(Arc<[u8]>),
}

impl OutputPiece {
    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        match self {
            OutputPiece::Stdout(bytes) | OutputPiece::Stderr(bytes) => bytes,
        }
    }
}

/// What a listener hears next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Output, and its number: a listener that is cut off goes on after it.
    Piece(u64, OutputPiece),
    /// The listener was too slow or came too late, and so many pieces are not kept any more.
    Skipped(u64),
}

/// The last output of a process.
#[derive(Default)]
pub struct OutputLog {
    kept: Mutex<Kept>,
    changed: Notify,
}

#[derive(Default)]
struct Kept {
    pieces: VecDeque<OutputPiece>,
    bytes: usize,
    /// The number of the first of them. Numbers begin at 1.
    first: u64,
    is_over: bool,
}

impl OutputLog {
    pub(super) fn add(&self, piece: OutputPiece) {
        let mut kept = self.lock();
        kept.bytes += piece.bytes().len();
        kept.pieces.push_back(piece);
        // The last piece is always kept, however long it is.
        while kept.bytes > KEPT_BYTES && kept.pieces.len() > 1 {
            if let Some(oldest) = kept.pieces.pop_front() {
                kept.bytes -= oldest.bytes().len();
                kept.first += 1;
            }
        }
        drop(kept);
        self.changed.notify_waiters();
    }

    /// How much is kept.
    pub(super) fn kept_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears the output of a process from one piece on.
pub struct OutputListener {
    log: Arc<OutputLog>,
    next: u64,
}

impl OutputListener {
    /// Hears everything after the piece with this number; 0 means all that is kept.
    pub fn new(log: Arc<OutputLog>, after: u64) -> OutputListener {
        OutputListener { log, next: after }
    }

    /// Waits for more; nothing, if the process has ended.
    pub async fn next(&mut self) -> Option<Heard> {
        let log = Arc::clone(&self.log);
        loop {
            let changed = log.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            {
                let kept = log.lock();
                if self.next < kept.first {
                    let skipped = kept.first - self.next;
                    self.next = kept.first;
                    return Some(Heard::Skipped(skipped));
                }
                let index = usize::try_from(self.next - kept.first).unwrap_or(usize::MAX);
                if let Some(piece) = kept.pieces.get(index) {
                    self.next += 1;
                    return Some(Heard::Piece(self.next, piece.clone()));
                }
                if kept.is_over {
                    return None;
                }
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(bytes: &[u8]) -> OutputPiece {
        OutputPiece::Stdout(bytes.into())
    }

    #[tokio::test]
    async fn listeners_hear_everything_from_where_they_were() {
        let log = Arc::new(OutputLog::default());
        log.add(piece(b"a"));
        let mut early = OutputListener::new(Arc::clone(&log), 0);
        assert_eq!(early.next().await, Some(Heard::Piece(1, piece(b"a"))));
        let waiting = tokio::spawn(async move { early.next().await });
        log.add(piece(b"b"));
        assert_eq!(waiting.await.unwrap(), Some(Heard::Piece(2, piece(b"b"))));
        let mut again = OutputListener::new(Arc::clone(&log), 1);
        assert_eq!(again.next().await, Some(Heard::Piece(2, piece(b"b"))));
        log.end();
        assert_eq!(again.next().await, None);
    }

    #[tokio::test]
    async fn a_slow_listener_is_told_what_it_missed() {
        let log = Arc::new(OutputLog::default());
        let mut slow = OutputListener::new(Arc::clone(&log), 0);
        for _ in 0..5 {
            log.add(piece(&vec![0; KEPT_BYTES / 2]));
        }
        assert_eq!(slow.next().await, Some(Heard::Skipped(3)));
        assert!(matches!(slow.next().await, Some(Heard::Piece(4, _))));
        // A number that was never given is that of a process of another time.
        let mut ahead = OutputListener::new(Arc::clone(&log), 100);
        log.end();
        assert_eq!(ahead.next().await, None);
    }
}
