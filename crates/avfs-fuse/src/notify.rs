//! Telling the kernel that something changed behind its back.
//!
//! A notification waits for locks that the kernel holds while it waits for one of our answers, so it must
//! never come from a thread that serves requests, nor from one that holds a lock of the tree. Two are sent at once, by
//! whoever wants them sent: [`Notifier::store`] waits for the pages of one file alone, and its caller knows that
//! nobody has that file open, so that no request holds them; [`Notifier::inval_attributes_now`] waits for no page.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::flags::inval_entry;
use crate::abi::{DeleteOut, InvalEntryOut, InvalInodeOut, OutHeader, StoreOut, notification};
use crate::session::Log;

/// Queues notifications for the thread that sends them. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Notifier {
    queue: Sender<Notice>,
    /// How many notices are queued or being sent.
    pending: Arc<AtomicUsize>,
    connection: Weak<OwnedFd>,
}

#[derive(Debug)]
enum Notice {
    Inode {
        node: u64,
        offset: i64,
        len: i64,
    },
    Entry {
        parent: u64,
        name: Box<[u8]>,
        expire_only: bool,
    },
    Delete {
        parent: u64,
        child: u64,
        name: Box<[u8]>,
    },
    /// To be done when everything before has been sent.
    Then(Then),
}

struct Then(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Then {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Then")
    }
}

/// The queue was not emptied in time: the kernel holds a lock that a notification needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel has not taken every notification yet")]
pub struct NotFlushed;

impl Notifier {
    /// Starts the thread. It ends with the last clone, and lets the connection end before.
    pub fn start(connection: &Arc<OwnedFd>, log: Log) -> std::io::Result<Notifier> {
        let (queue, receiver) = channel();
        let connection = Arc::downgrade(connection);
        let thread = std::thread::Builder::new().name("fuse-notify".into());
        let pending = Arc::<AtomicUsize>::default();
        let (counter, way) = (pending.clone(), connection.clone());
        thread.spawn(move || run(&way, &log, &receiver, &counter))?;
        Ok(Notifier { queue, pending, connection })
    }

    /// The attributes of a node changed, and its contents from `offset` on; a `len` of zero means up to the
    /// end, a negative offset the attributes alone.
    pub fn inval_inode(&self, node: u64, offset: i64, len: i64) {
        self.push(Notice::Inode { node, offset, len });
    }

    /// The attributes of a node changed; the kernel knows when this returns. Must not wait for the queue: the kernel
    /// holds pages while it waits for the answer to a write, and a notice in the queue may wait for those.
    pub fn inval_attributes_now(&self, node: u64) {
        let body = InvalInodeOut { ino: node, off: -1, len: 0 };
        // A node that the kernel does not know has no attributes there.
        let _ = send(&self.connection, notification::INVAL_INODE, body.as_bytes(), [b"", b""]);
    }

    /// A name stands for something else now. With `expire_only` it is looked up again at its next use, but
    /// whoever is in that directory stays there.
    pub fn inval_entry(&self, parent: u64, name: &[u8], expire_only: bool) {
        self.push(Notice::Entry { parent, name: name.into(), expire_only });
    }

    /// A name is gone, with the node that it stood for.
    pub fn delete(&self, parent: u64, child: u64, name: &[u8]) {
        self.push(Notice::Delete { parent, child, name: name.into() });
    }

    /// Gives the kernel the whole contents of a file that nobody has open, and returns when it has them: it will not
    /// ask for them. What it has of the file is overwritten, and a file that it believes to be shorter grows.
    pub fn store(&self, node: u64, contents: &[u8]) -> Result<(), Errno> {
        let body = StoreOut { nodeid: node, offset: 0, size: contents.len() as u32, padding: 0 };
        send(&self.connection, notification::STORE, body.as_bytes(), [contents, b""])
    }

    /// Waits until the kernel has taken everything that was queued before.
    pub fn flush(&self, at_most: Duration) -> Result<(), NotFlushed> {
        let (done, wait) = channel();
        // Whoever asked may have stopped waiting.
        self.then(move || {
            let _ = done.send(());
        });
        match wait.recv_timeout(at_most) {
            // A thread that has ended has nobody to tell.
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(()),
            Err(RecvTimeoutError::Timeout) => Err(NotFlushed),
        }
    }

    /// Does something, on the thread that sends, when the kernel has taken everything that was queued before.
    pub fn then(&self, act: impl FnOnce() + Send + 'static) {
        self.push(Notice::Then(Then(Box::new(act))));
    }

    /// Whether the kernel has taken everything.
    pub fn is_idle(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0
    }

    fn push(&self, notice: Notice) {
        self.pending.fetch_add(1, Ordering::AcqRel);
        // Without a thread there is no mount whose caches could be wrong.
        let _ = self.queue.send(notice);
    }
}

/// What the kernel does not know may be in an answer that is on its way to it: it is told once more when that has
/// arrived.
const AGAIN_AFTER: Duration = Duration::from_millis(5);
/// How many are kept to be told once more.
const AGAIN_MAX: usize = 4096;

fn run(connection: &Weak<OwnedFd>, log: &Log, queue: &Receiver<Notice>, pending: &AtomicUsize) {
    let mut again: VecDeque<(Instant, Notice)> = VecDeque::new();
    loop {
        let next = match again.front() {
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some((due, _)) => queue.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match next {
            Ok(Notice::Then(Then(act))) => {
                // Before, so that whoever waited for this finds nothing under way.
                pending.fetch_sub(1, Ordering::AcqRel);
                act();
            }
            Ok(notice) => {
                if let Some(unknown) = deliver(connection, log, notice) {
                    again.push_back((Instant::now() + AGAIN_AFTER, unknown));
                }
                pending.fetch_sub(1, Ordering::AcqRel);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let is_due = |(due, _): &(Instant, Notice)| *due <= Instant::now();
        while again.front().is_some_and(is_due) || again.len() > AGAIN_MAX {
            let Some((_, notice)) = again.pop_front() else { break };
            // Known or not by now, it has nothing older on its way.
            drop(deliver(connection, log, notice));
        }
    }
}

/// Returns a notice of something that the kernel does not know.
fn deliver(connection: &Weak<OwnedFd>, log: &Log, notice: Notice) -> Option<Notice> {
    let sent = match &notice {
        Notice::Inode { node, offset, len } => {
            let body = InvalInodeOut { ino: *node, off: *offset, len: *len };
            send(connection, notification::INVAL_INODE, body.as_bytes(), [b"", b""])
        }
        Notice::Entry { parent, name, expire_only } => {
            let flags = if *expire_only { inval_entry::EXPIRE_ONLY } else { 0 };
            let body = InvalEntryOut { parent: *parent, namelen: name.len() as u32, flags };
            send(connection, notification::INVAL_ENTRY, body.as_bytes(), [name, END_OF_NAME])
        }
        Notice::Delete { parent, child, name } => {
            let namelen = name.len() as u32;
            let body = DeleteOut { parent: *parent, child: *child, namelen, padding: 0 };
            send(connection, notification::DELETE, body.as_bytes(), [name, END_OF_NAME])
        }
        // There is nothing to be told.
        Notice::Then(_) => Ok(()),
    };
    match sent {
        Ok(()) => None,
        Err(Errno::NOENT) => Some(notice),
        Err(error) => {
            log(&format!("telling the kernel {notice:?}: {error}"));
            None
        }
    }
}

const END_OF_NAME: &[u8] = b"\0";

fn send(connection: &Weak<OwnedFd>, code: i32, body: &[u8], [rest, end]: [&[u8]; 2]) -> Result<(), Errno> {
    let Some(connection) = connection.upgrade() else { return Ok(()) };
    let len = size_of::<OutHeader>() + body.len() + rest.len() + end.len();
    let header = OutHeader { len: len as u32, error: code, unique: 0 };
    let parts = [header.as_bytes(), body, rest, end].map(IoSlice::new);
    match rustix::io::writev(connection, &parts) {
        // Or the mount is gone.
        Ok(_) | Err(Errno::NODEV | Errno::CONNABORTED) => Ok(()),
        // The directory is not empty or in use: the name stays until that is over.
        Err(Errno::NOTEMPTY | Errno::BUSY) => Ok(()),
        Err(error) => Err(error),
    }
}
