//! Makes changes durable, on a separate thread: requests of the kernel continue meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use avfs_tree::WorkTree;
use rustix::io::Errno;

use crate::reply::{Answered, FuseReply};
use crate::session::SessionLog;
use crate::transport::start_ordinary;

/// All requests that arrive while the disk is busy share the next round.
pub(super) struct Syncing {
    tree: Arc<WorkTree>,
    log: SessionLog,
    /// The thread starts with the first request and ends with this. `None` is a round without a waiting
    /// request.
    queue: OnceLock<Mutex<Sender<Option<FuseReply<'static>>>>>,
    /// A round without a waiting request is on its way.
    is_begun: Arc<AtomicBool>,
}

impl Syncing {
    pub(super) fn new(tree: Arc<WorkTree>, log: SessionLog) -> Syncing {
        Syncing {
            tree,
            log,
            queue: OnceLock::new(),
            is_begun: Arc::default(),
        }
    }

    /// Begins to sync if it is due.
    pub(super) fn begin_if_due(&self) {
        if self.tree.is_sync_due() && !self.is_begun.swap(true, Ordering::AcqRel) {
            self.ask(None);
        }
    }

    /// Answers when everything that was done before is durable.
    pub(super) fn sync(&self, reply: FuseReply<'_>) -> Answered {
        let (answered, reply) = reply.defer();
        self.ask(Some(reply));
        answered
    }

    fn ask(&self, reply: Option<FuseReply<'static>>) {
        let queue = self.queue.get_or_init(|| Mutex::new(self.start()));
        let queue = queue.lock().expect("no panic happens while the lock is held");
        // Without a thread the reply is dropped, which answers it with EIO.
        let _ = queue.send(reply);
    }

    fn start(&self) -> Sender<Option<FuseReply<'static>>> {
        let (sender, receiver) = channel();
        let tree = self.tree.clone();
        let log = self.log.clone();
        let is_begun = self.is_begun.clone();
        let work = move || run(&tree, &log, &is_begun, &receiver);
        if let Err(error) = start_ordinary("fuse-sync", work) {
            (self.log)(&format!("starting the thread that syncs: {error}"));
        }
        sender
    }
}

fn run(
    tree: &WorkTree,
    log: &SessionLog,
    is_begun: &AtomicBool,
    queue: &Receiver<Option<FuseReply<'static>>>,
) {
    while let Ok(first) = queue.recv() {
        let waiting: Vec<FuseReply<'static>> =
            [first].into_iter().chain(queue.try_iter()).flatten().collect();
        let result = tree.sync().map_err(|error| {
            log(&format!("syncing: {}", avfs_core::with_causes(&error)));
            error.errno()
        });
        is_begun.store(false, Ordering::Release);
        waiting.into_iter().for_each(|reply| tell(reply, result));
    }
}

fn tell(reply: FuseReply<'static>, result: Result<(), Errno>) {
    // If the connection is gone, so is the program that waits for the answer.
    let _ = reply.done(result);
}
