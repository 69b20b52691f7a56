//! A few threads for work that may wait: started on demand, ended when they have been idle for a while.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::session::SessionLog;
use crate::transport::start_ordinary;

/// As many concurrent reads as a disk or a network benefits from.
const THREADS_MAX: usize = 8;

/// How long an idle thread stays.
const IDLE: Duration = Duration::from_secs(10);

type DeferredWork = Box<dyn FnOnce() + Send>;

/// When this is dropped, threads finish their current work; work that has not begun is dropped.
pub(super) struct WorkerThreads {
    shared: Arc<PoolShared>,
}

struct PoolShared {
    queue: Mutex<WorkQueue>,
    bell: Condvar,
    log: SessionLog,
}

#[derive(Default)]
struct WorkQueue {
    work: VecDeque<DeferredWork>,
    threads: usize,
    /// The number of idle threads.
    idle: usize,
    is_closed: bool,
}

impl WorkerThreads {
    pub(super) fn new(log: SessionLog) -> WorkerThreads {
        let shared = PoolShared {
            queue: Mutex::default(),
            bell: Condvar::new(),
            log,
        };
        WorkerThreads {
            shared: Arc::new(shared),
        }
    }

    /// Runs work on one of the threads. If no thread can be started, the work is dropped.
    pub(super) fn run(&self, work: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.queue();
        queue.work.push_back(Box::new(work));
        if queue.idle >= queue.work.len() {
            drop(queue);
            return self.shared.bell.notify_one();
        }
        if queue.threads < THREADS_MAX {
            queue.threads += 1;
            drop(queue);
            self.start();
        }
    }

    fn start(&self) {
        let shared = Arc::clone(&self.shared);
        if let Err(error) = start_ordinary("fuse-read", move || shared.work()) {
            (self.shared.log)(&format!("starting a thread that reads: {error}"));
            let mut queue = self.shared.queue();
            queue.threads -= 1;
            if queue.threads == 0 {
                // No thread is left that could answer them: dropping them answers with an error.
                let lost = std::mem::take(&mut queue.work);
                drop(queue);
                drop(lost);
            }
        }
    }
}

impl Drop for WorkerThreads {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_closed = true;
        // Dropped outside of the lock: answering may queue more work.
        let lost = std::mem::take(&mut queue.work);
        drop(queue);
        drop(lost);
        self.shared.bell.notify_all();
    }
}

impl PoolShared {
    fn queue(&self) -> MutexGuard<'_, WorkQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(work) = self.next() {
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                (self.log)("answering a request that was put off has failed");
            }
        }
    }

    /// Waits for work; `None` if this thread is no longer needed.
    fn next(&self) -> Option<DeferredWork> {
        let mut queue = self.queue();
        if queue.work.is_empty() && !queue.is_closed {
            queue.idle += 1;
            let is_idle = |queue: &mut WorkQueue| queue.work.is_empty() && !queue.is_closed;
            let waited = self.bell.wait_timeout_while(queue, IDLE, is_idle);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.idle -= 1;
        }
        let work = queue.work.pop_front();
        if work.is_none() {
            queue.threads -= 1;
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn work_that_hangs_leaves_threads_for_other_work_until_there_are_too_many() {
        let threads = WorkerThreads::new(Arc::new(|_| {}));
        let (begun, beginnings) = channel();
        let gates: Vec<_> = (0..2 * THREADS_MAX)
            .map(|number| {
                let (open, gate) = channel::<()>();
                let begun = begun.clone();
                threads.run(move || {
                    begun.send(number).expect("the receiver is alive");
                    let _ = gate.recv();
                });
                open
            })
            .collect();
        let first: Vec<usize> = beginnings.iter().take(THREADS_MAX).collect();
        assert_eq!(threads.shared.queue().threads, THREADS_MAX);
        assert_eq!(threads.shared.queue().work.len(), THREADS_MAX);
        drop(gates);
        assert_eq!(
            beginnings.iter().take(THREADS_MAX).count() + first.len(),
            2 * THREADS_MAX
        );
    }

    #[test]
    fn a_panic_is_one_failed_piece_of_work() {
        let (log, lines) = channel();
        let log = Mutex::new(log);
        let log: SessionLog = Arc::new(move |line| {
            let _ = log.lock().expect("no panic").send(line.to_owned());
        });
        let threads = WorkerThreads::new(log);
        threads.run(|| panic!("in the middle of it"));
        assert!(lines.recv().expect("a line").contains("failed"));
        let (done, after) = channel();
        threads.run(move || done.send(()).expect("the receiver is alive"));
        after.recv().expect("the next one is done");
    }
}
