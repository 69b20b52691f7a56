//! Requests that have to wait for something outside of the tree, on threads of their own: those that take
//! requests go on meanwhile.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::InHeader;
use crate::reply::{Answered, Reply};
use crate::request::Request;
use crate::service::{Service, Wait};
use crate::session::Log;
use crate::transport::uring::run_anywhere;

/// How many requests wait at the same time; others stand in line.
const THREADS: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that start when they are needed and end with this.
pub(crate) struct SlowLane {
    log: Log,
    line: Mutex<Option<Line>>,
}

struct Line {
    jobs: Sender<Job>,
    waiting: Arc<Mutex<Receiver<Job>>>,
    threads: usize,
}

impl SlowLane {
    pub fn new(log: Log) -> SlowLane {
        SlowLane { log, line: Mutex::default() }
    }

    /// Waits, and then has the request served.
    pub fn serve(
        &self,
        service: &Arc<dyn Service>,
        wait: Wait,
        header: &InHeader,
        parts: (&[u8], &[u8]),
        reply: Reply<'_>,
    ) -> Answered {
        let (answered, reply) = reply.defer();
        let (service, header) = (Arc::clone(service), *header);
        let (argument, payload) = (parts.0.to_vec(), parts.1.to_vec());
        self.add(Box::new(move || {
            wait();
            // It was decoded before; a reply that is dropped says EIO.
            if let Ok(request) = Request::decode(&header, &argument, &payload) {
                drop(service.serve(&request, reply));
            }
        }));
        answered
    }

    fn add(&self, job: Job) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let line = line.get_or_insert_with(|| {
            let (jobs, waiting) = channel();
            Line { jobs, waiting: Arc::new(Mutex::new(waiting)), threads: 0 }
        });
        if line.threads < THREADS {
            let waiting = Arc::clone(&line.waiting);
            let thread = std::thread::Builder::new().name(format!("fuse-slow-{}", line.threads));
            match thread.spawn(move || run(&waiting)) {
                Ok(_) => line.threads += 1,
                Err(error) => (self.log)(&format!("starting a thread for slow requests: {error}")),
            }
        }
        // Without a thread the reply is dropped, which answers it with EIO.
        if line.threads > 0 {
            let _ = line.jobs.send(job);
        }
    }
}

fn run(waiting: &Mutex<Receiver<Job>>) {
    // Started while a request is served. Where that is refused it waits as well.
    let _ = run_anywhere();
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // A request that panics is one failed request: its reply was dropped on the way and has said EIO.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    }
}
