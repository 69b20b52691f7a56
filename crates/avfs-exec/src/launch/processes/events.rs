//! The output of a process, past and future, for any number of listeners.
//!
//! Listeners have no queues of their own: the most recent output is kept once, and each listener has a position in it. A
//! slow listener misses output and is told how much; it never delays the process or other listeners.

use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::process::{ProcessHandle, ProcessPhase, ProcessRecord};
use super::{ProcessEnd, lock};
use crate::output::CapturedOutput;

/// How far a listener may fall behind.
const LIVE_BYTES: u64 = 256 << 10;

/// The kept part of a process's output until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputSoFar {
    /// The terminal's output, if it has one.
    pub stdout: CapturedOutput,
    /// Standard error; empty with a terminal.
    pub stderr: CapturedOutput,
}

/// An event for a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// The terminal's output, if it has one.
    Stdout(Arc<[u8]>),
    /// Standard error.
    Stderr(Arc<[u8]>),
    /// The listener was too slow and missed this many bytes, of both streams together.
    Skipped {
        /// How many bytes it missed.
        bytes: u64,
    },
    /// The process has ended. Processes that it has started may still write to the same streams.
    Ended(ProcessEnd),
}

/// Everything that a process writes from one moment on. The events end when the process has ended and its streams are
/// closed. Background processes may keep the streams open for longer, so a caller that is interested in the process alone
/// stops at [`OutputEvent::Ended`].
#[derive(Debug)]
pub struct OutputEvents {
    process: Arc<ProcessHandle>,
    so_far: OutputSoFar,
    at: u64,
    is_end_told: bool,
}

impl OutputEvents {
    pub(crate) fn new(process: Arc<ProcessHandle>) -> Self {
        let (so_far, at) = {
            let mut record = lock(&process.record);
            // Under the lock together with the captured part: events begin exactly where that part ends.
            record.live.listeners += 1;
            (record.so_far(), record.live.total)
        };
        Self {
            process,
            so_far,
            at,
            is_end_told: false,
        }
    }

    /// The output before the first event. No output is missing or repeated between the two.
    pub fn so_far(&self) -> &OutputSoFar {
        &self.so_far
    }

    /// Waits for the next event, at most for the timeout if one is given.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<OutputEvent, RecvTimeoutError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let process = Arc::clone(&self.process);
        let mut record = lock(&process.record);
        loop {
            if let Some(event) = self.take(&record) {
                return Ok(event);
            }
            // Its streams may stay open after the process has ended, as long as another process has them.
            if self.is_end_told && record.is_silent() || matches!(record.phase, ProcessPhase::Failed { .. }) {
                return Err(RecvTimeoutError::Disconnected);
            }
            record = match deadline {
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(RecvTimeoutError::Timeout);
                    }
                    let waited = process.changed.wait_timeout(record, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = process.changed.wait(record);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    fn take(&mut self, record: &ProcessRecord) -> Option<OutputEvent> {
        let live = &record.live;
        if let (ProcessPhase::Ended(end), false) = (record.phase, self.is_end_told)
            // Everything that it wrote before its end is told first.
            && live.end.is_none_or(|end| self.at >= end)
        {
            self.is_end_told = true;
            return Some(OutputEvent::Ended(end));
        }
        // This listener was too slow, and the oldest pieces were dropped.
        if self.at < live.first() {
            let bytes = live.first() - self.at;
            self.at = live.first();
            return Some(OutputEvent::Skipped { bytes });
        }
        let index = live.pieces.partition_point(|piece| piece.at < self.at);
        let piece = live.pieces.get(index)?;
        self.at = piece.at + piece.bytes.len() as u64;
        let bytes = Arc::clone(&piece.bytes);
        Some(if piece.is_stderr {
            OutputEvent::Stderr(bytes)
        } else {
            OutputEvent::Stdout(bytes)
        })
    }
}

impl Iterator for OutputEvents {
    type Item = OutputEvent;

    fn next(&mut self) -> Option<OutputEvent> {
        self.receive(None).ok()
    }
}

impl Drop for OutputEvents {
    fn drop(&mut self) {
        let mut record = lock(&self.process.record);
        record.live.listeners -= 1;
        if record.live.listeners == 0 {
            // No listener is left; the captured output is kept elsewhere.
            record.live.pieces.clear();
        }
    }
}

/// The recent output, while there are listeners.
#[derive(Debug, Default)]
pub(super) struct LiveOutput {
    pieces: VecDeque<LivePiece>,
    /// The number of bytes that were ever written.
    total: u64,
    /// That number at the end of the process.
    end: Option<u64>,
    listeners: usize,
}

#[derive(Debug)]
struct LivePiece {
    /// The number of bytes before it.
    at: u64,
    is_stderr: bool,
    bytes: Arc<[u8]>,
}

impl LiveOutput {
    pub(super) fn add(&mut self, is_stderr: bool, bytes: &[u8]) {
        // Positions are counted in any case, so that a later listener knows where it begins.
        if self.listeners > 0 {
            self.pieces.push_back(LivePiece {
                at: self.total,
                is_stderr,
                bytes: bytes.into(),
            });
        }
        self.total += bytes.len() as u64;
        while self.total - self.first() > LIVE_BYTES {
            self.pieces.pop_front();
        }
    }

    pub(super) fn end(&mut self) {
        self.end = Some(self.total);
    }

    /// The position of the first kept byte.
    fn first(&self) -> u64 {
        self.pieces.front().map_or(self.total, |piece| piece.at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ProcessEnds;
    use super::super::poller::Poller;
    use super::*;
    use crate::launch::CommandEnd;

    fn process() -> Arc<ProcessHandle> {
        let poller = Arc::new(Poller::new().unwrap());
        Arc::new(ProcessHandle::new(
            1,
            vec!["x".into()],
            None,
            1 << 10,
            ProcessEnds::default(),
            poller,
        ))
    }

    fn add(process: &ProcessHandle, bytes: &[u8]) {
        lock(&process.record).live.add(false, bytes);
    }

    fn now(events: &mut OutputEvents) -> Result<OutputEvent, RecvTimeoutError> {
        events.receive(Some(Duration::ZERO))
    }

    #[test]
    fn slow_listener_skips_output_and_learns_how_much() {
        let process = process();
        let (mut slow, mut quick) = (
            OutputEvents::new(Arc::clone(&process)),
            OutputEvents::new(Arc::clone(&process)),
        );
        let piece = vec![b'x'; 1 << 10];
        let extra = 3;
        for _ in 0..LIVE_BYTES / 1024 + extra {
            add(&process, &piece);
            assert_eq!(now(&mut quick), Ok(OutputEvent::Stdout(piece.as_slice().into())));
        }
        assert_eq!(now(&mut quick), Err(RecvTimeoutError::Timeout));
        let bytes = extra * 1024;
        assert_eq!(now(&mut slow), Ok(OutputEvent::Skipped { bytes }));
        let mut heard = 0;
        while let Ok(OutputEvent::Stdout(bytes)) = now(&mut slow) {
            heard += bytes.len() as u64;
        }
        assert_eq!(heard, LIVE_BYTES);
    }

    #[test]
    fn end_event_comes_after_the_process_own_output_and_before_later_output_of_others() {
        let process = process();
        let mut events = OutputEvents::new(Arc::clone(&process));
        add(&process, b"before");
        process.hear_ended(CommandEnd::Exited(3));
        add(&process, b"later");
        assert_eq!(
            now(&mut events),
            Ok(OutputEvent::Stdout(b"before".as_slice().into()))
        );
        let Ok(OutputEvent::Ended(end)) = now(&mut events) else {
            panic!("no end")
        };
        assert_eq!(end.end, CommandEnd::Exited(3));
        assert_eq!(
            now(&mut events),
            Ok(OutputEvent::Stdout(b"later".as_slice().into()))
        );
        assert_eq!(now(&mut events), Err(RecvTimeoutError::Disconnected));
        // A late listener receives the end, too.
        let late: Vec<_> = OutputEvents::new(process).collect();
        assert_eq!(late, [OutputEvent::Ended(end)]);
    }

    #[test]
    fn nothing_is_kept_without_listeners() {
        let process = process();
        add(&process, b"unheard");
        let events = OutputEvents::new(Arc::clone(&process));
        add(&process, b"heard");
        assert_eq!(lock(&process.record).live.pieces.len(), 1);
        drop(events);
        assert_eq!(lock(&process.record).live.pieces.len(), 0);
    }
}
