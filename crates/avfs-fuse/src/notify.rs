//! Notifies the kernel of changes that it has not made itself.
//!
//! A notification waits for locks that the kernel holds while it waits for one of our answers, so it must
//! never be sent by a thread that serves requests, nor by one that holds a lock of the tree. Two are sent by
//! the calling thread: [`Notifier::store`] waits only for the pages of one file, and its caller ensures that
//! no program has that file open, so that no request holds them; [`Notifier::inval_attributes_now`] waits for
//! no page.

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
use crate::session::SessionLog;

/// Queues notifications for the thread that sends them. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Notifier {
    queue: Sender<KernelNotice>,
    /// How many notices are queued or being sent.
    pending: Arc<AtomicUsize>,
    connection: Weak<OwnedFd>,
}

#[derive(Debug)]
enum KernelNotice {
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
    /// An action to run when everything before it has been sent.
    Then(AfterNotice),
}

struct AfterNotice(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for AfterNotice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Then")
    }
}

/// The queue was not emptied in time: the kernel holds a lock that a notification needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel has not taken every notification yet")]
pub struct NotFlushed;

impl Notifier {
    /// Starts the thread. It ends with the last clone, and does not keep the connection open.
    pub fn start(connection: &Arc<OwnedFd>, log: SessionLog) -> std::io::Result<Notifier> {
        let (queue, receiver) = channel();
        let connection = Arc::downgrade(connection);
        let thread = std::thread::Builder::new().name("fuse-notify".into());
        let pending = Arc::<AtomicUsize>::default();
        let counter = pending.clone();
        let way = connection.clone();
        thread.spawn(move || run(&way, &log, &receiver, &counter))?;
        Ok(Notifier {
            queue,
            pending,
            connection,
        })
    }

    /// The attributes of a node changed, and its contents from `offset` on; a `len` of zero means up to the
    /// end, a negative offset only the attributes.
    pub fn inval_inode(&self, node: u64, offset: i64, len: i64) {
        self.push(KernelNotice::Inode { node, offset, len });
    }

    /// The attributes of a node changed; the kernel knows when this returns. Must not wait for the queue: the
    /// kernel holds pages while it waits for the answer to a write, and a notification in the queue may wait
    /// for those pages.
    pub fn inval_attributes_now(&self, node: u64) {
        let body = InvalInodeOut {
            ino: node,
            off: -1,
            len: 0,
        };
        // If the kernel does not know the node, it has no attributes to forget.
        let _ = send(
            &self.connection,
            notification::INVAL_INODE,
            body.as_bytes(),
            [b"", b""],
        );
    }

    /// A name refers to a different node now. With `expire_only` it is looked up again at its next use, but
    /// processes in that directory stay there.
    pub fn inval_entry(&self, parent: u64, name: &[u8], expire_only: bool) {
        self.push(KernelNotice::Entry {
            parent,
            name: name.into(),
            expire_only,
        });
    }

    /// A name was removed, with its node.
    pub fn delete(&self, parent: u64, child: u64, name: &[u8]) {
        self.push(KernelNotice::Delete {
            parent,
            child,
            name: name.into(),
        });
    }

    /// Gives the kernel the whole contents of a file that no program has open, and returns when it has them:
    /// it will not request them. Its cached contents are overwritten, and a file that it believes to be
    /// shorter grows.
    pub fn store(&self, node: u64, contents: &[u8]) -> Result<(), Errno> {
        let body = StoreOut {
            nodeid: node,
            offset: 0,
            size: contents.len() as u32,
            padding: 0,
        };
        send(
            &self.connection,
            notification::STORE,
            body.as_bytes(),
            [contents, b""],
        )
    }

    /// Waits until the kernel has processed everything that was queued before.
    pub fn flush(&self, at_most: Duration) -> Result<(), NotFlushed> {
        let (done, wait) = channel();
        // The caller may have stopped waiting.
        self.then(move || {
            let _ = done.send(());
        });
        match wait.recv_timeout(at_most) {
            // The thread has ended, so there is no kernel to notify.
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(()),
            Err(RecvTimeoutError::Timeout) => Err(NotFlushed),
        }
    }

    /// Runs an action on the sending thread when the kernel has processed everything that was queued before.
    pub fn then(&self, act: impl FnOnce() + Send + 'static) {
        self.push(KernelNotice::Then(AfterNotice(Box::new(act))));
    }

    /// Whether the kernel has processed everything.
    pub fn is_idle(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0
    }

    fn push(&self, notice: KernelNotice) {
        // Counted before it is sent, or `is_idle` could miss it.
        self.pending.fetch_add(1, Ordering::AcqRel);
        // Without a thread there is no mount whose caches could be wrong.
        let _ = self.queue.send(notice);
    }
}

/// A node or name that the kernel does not know may be in an answer that is on its way: the notification is
/// repeated when that answer has arrived.
const AGAIN_AFTER: Duration = Duration::from_millis(5);
/// How many notifications are kept to be repeated.
const AGAIN_MAX: usize = 4096;

fn run(connection: &Weak<OwnedFd>, log: &SessionLog, queue: &Receiver<KernelNotice>, pending: &AtomicUsize) {
    let mut again: VecDeque<(Instant, KernelNotice)> = VecDeque::new();
    loop {
        let next = match again.front() {
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some((due, _)) => queue.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match next {
            Ok(KernelNotice::Then(AfterNotice(act))) => {
                // Before the action, so that a caller that waited for it finds the queue idle.
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
        let is_due = |(due, _): &(Instant, KernelNotice)| *due <= Instant::now();
        while again.front().is_some_and(is_due) || again.len() > AGAIN_MAX {
            let Some((_, notice)) = again.pop_front() else {
                break;
            };
            // Whether it is known or not by now, no older answer about it is on its way.
            drop(deliver(connection, log, notice));
        }
    }
}

/// Sends a notification; returns it if the kernel does not know its node or name.
fn deliver(connection: &Weak<OwnedFd>, log: &SessionLog, notice: KernelNotice) -> Option<KernelNotice> {
    let sent = match &notice {
        KernelNotice::Inode { node, offset, len } => {
            let body = InvalInodeOut {
                ino: *node,
                off: *offset,
                len: *len,
            };
            send(connection, notification::INVAL_INODE, body.as_bytes(), [b"", b""])
        }
        KernelNotice::Entry {
            parent,
            name,
            expire_only,
        } => {
            let flags = if *expire_only { inval_entry::EXPIRE_ONLY } else { 0 };
            let body = InvalEntryOut {
                parent: *parent,
                namelen: name.len() as u32,
                flags,
            };
            send(
                connection,
                notification::INVAL_ENTRY,
                body.as_bytes(),
                [name, END_OF_NAME],
            )
        }
        KernelNotice::Delete { parent, child, name } => {
            let namelen = name.len() as u32;
            let body = DeleteOut {
                parent: *parent,
                child: *child,
                namelen,
                padding: 0,
            };
            send(
                connection,
                notification::DELETE,
                body.as_bytes(),
                [name, END_OF_NAME],
            )
        }
        // Nothing to send.
        KernelNotice::Then(_) => Ok(()),
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
    let Some(connection) = connection.upgrade() else {
        return Ok(());
    };
    let len = size_of::<OutHeader>() + body.len() + rest.len() + end.len();
    let header = OutHeader {
        len: len as u32,
        error: code,
        unique: 0,
    };
    let parts = [header.as_bytes(), body, rest, end].map(IoSlice::new);
    match rustix::io::writev(connection, &parts) {
        // Or the mount is gone.
        Ok(_) | Err(Errno::NODEV | Errno::CONNABORTED) => Ok(()),
        // The directory is not empty or in use: the name stays until that changes.
        Err(Errno::NOTEMPTY | Errno::BUSY) => Ok(()),
        Err(error) => Err(error),
    }
}
