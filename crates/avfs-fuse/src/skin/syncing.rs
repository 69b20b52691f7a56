//! Making changes durable, on a thread of its own: requests of the kernel go on meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use avfs_tree::WorkTree;
use rustix::io::Errno;

use crate::reply::{Answered, Reply};
use crate::session::Log;
use crate::transport::start_ordinary;

/// Everyone who asks while the disk is busy is served by the next round together.
pub(super) struct Syncing {
    tree: Arc<WorkTree>,
    log: Log,
    /// The thread starts with the first request and ends with this. Nobody may wait for a round.
    queue: OnceLock<Mutex<Sender<Option<Reply<'static>>>>>,
    /// A round for which nobody waits is on its way.
    is_begun: Arc<AtomicBool>,
}

impl Syncing {
    pub fn new(tree: Arc<WorkTree>, log: Log) -> Syncing {
        Syncing { tree, log, queue: OnceLock::new(), is_begun: Arc::default() }
    }

    /// Begins to sync, if it is time to.
    pub fn begin_if_due(&self) {
        if self.tree.is_sync_due() && !self.is_begun.swap(true, Ordering::AcqRel) {
            self.ask(None);
        }
    }

    /// Answers when everything that was done before is durable.
    pub fn sync(&self, reply: Reply<'_>) -> Answered {
        let (answered, reply) = reply.defer();
        self.ask(Some(reply));
        answered
    }

    fn ask(&self, reply: Option<Reply<'static>>) {
        let queue = self.queue.get_or_init(|| Mutex::new(self.start()));
        let queue = queue.lock().expect("no panic happens while the lock is held");
        // Without a thread the reply is dropped, which answers it with EIO.
        let _ = queue.send(reply);
    }

    fn start(&self) -> Sender<Option<Reply<'static>>> {
        let (sender, receiver) = channel();
        let (tree, log, is_begun) = (self.tree.clone(), self.log.clone(), self.is_begun.clone());
        let work = move || run(&tree, &log, &is_begun, &receiver);
        if let Err(error) = start_ordinary("fuse-sync", work) {
            (self.log)(&format!("starting the thread that syncs: {error}"));
        }
        sender
    }
}

fn run(tree: &WorkTree, log: &Log, is_begun: &AtomicBool, queue: &Receiver<Option<Reply<'static>>>) {
    while let Ok(first) = queue.recv() {
        let waiting: Vec<Reply<'static>> = [first].into_iter().chain(queue.try_iter()).flatten().collect();
        let result = tree.sync().map_err(|error| {
            log(&format!("syncing: {}", avfs_core::with_causes(&error)));
            error.errno()
        });
        is_begun.store(false, Ordering::Release);
        waiting.into_iter().for_each(|reply| tell(reply, result));
    }
}

fn tell(reply: Reply<'static>, result: Result<(), Errno>) {
    let _ = reply.done(result);
}
