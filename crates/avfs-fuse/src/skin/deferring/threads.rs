//! A few threads for work that may wait: started when there is work, ended when there has been none for a while.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::session::Log;
use crate::transport::start_ordinary;

/// As many reads as a disk or a network makes use of at a time.
const THREADS_MAX: usize = 8;

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

/// Dropped, it lets its threads finish what they are at; work that has not begun is dropped.
pub(super) struct Threads {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    bell: Condvar,
    log: Log,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    threads: usize,
    /// Those of the threads that wait for work.
    idle: usize,
    is_closed: bool,
}

impl Threads {
    pub fn new(log: Log) -> Threads {
        let shared = Shared { queue: Mutex::default(), bell: Condvar::new(), log };
        Threads { shared: Arc::new(shared) }
    }

    /// Has something done by one of the threads. Without a thread the work is dropped.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) {
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
                let lost = std::mem::take(&mut queue.work);
                drop(queue);
                drop(lost);
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_closed = true;
        let lost = std::mem::take(&mut queue.work);
        drop(queue);
        drop(lost);
        self.shared.bell.notify_all();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(work) = self.next() {
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                (self.log)("answering a request that was put off has failed");
            }
        }
    }

    /// Waits for work; `None` if this thread is not needed any more.
    fn next(&self) -> Option<Work> {
        let mut queue = self.queue();
        if queue.work.is_empty() && !queue.is_closed {
            queue.idle += 1;
            let is_idle = |queue: &mut Queue| queue.work.is_empty() && !queue.is_closed;
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
        let threads = Threads::new(Arc::new(|_| {}));
        let (begun, beginnings) = channel();
        let gates: Vec<_> = (0..2 * THREADS_MAX)
            .map(|number| {
                let (open, gate) = channel::<()>();
                let begun = begun.clone();
                threads.run(move || {
                    begun.send(number).expect("somebody listens");
                    let _ = gate.recv();
                });
                open
            })
            .collect();
        let first: Vec<usize> = beginnings.iter().take(THREADS_MAX).collect();
        assert_eq!(threads.shared.queue().threads, THREADS_MAX);
        assert_eq!(threads.shared.queue().work.len(), THREADS_MAX);
        drop(gates);
        assert_eq!(beginnings.iter().take(THREADS_MAX).count() + first.len(), 2 * THREADS_MAX);
    }

    #[test]
    fn a_panic_is_one_failed_piece_of_work() {
        let (log, lines) = channel();
        let log = Mutex::new(log);
        let log: Log = Arc::new(move |line| {
            let _ = log.lock().expect("no panic").send(line.to_owned());
        });
        let threads = Threads::new(log);
        threads.run(|| panic!("in the middle of it"));
        assert!(lines.recv().expect("a line").contains("failed"));
        let (done, after) = channel();
        threads.run(move || done.send(()).expect("somebody listens"));
        after.recv().expect("the next one is done");
    }
}
