//! Telling the kernel that something changed behind its back.
//!
//! A notification waits for locks that the kernel holds while it waits for one of our answers, so it must
//! never come from a thread that serves requests, nor from one that holds a lock of the tree.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::flags::inval_entry;
use crate::abi::{DeleteOut, InvalEntryOut, InvalInodeOut, OutHeader, notification};
use crate::session::Log;

/// Queues notifications for the thread that sends them. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Notifier {
    queue: Sender<Notice>,
}

/// Something that the kernel is told.
#[derive(Debug)]
pub(crate) enum Notice {
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
    /// What is to be told is found out by the thread that tells it, which holds no locks.
    Later(Later),
    /// Everything before has been sent when this is answered.
    Flush(Sender<()>),
}

impl Notice {
    /// Zero for what is not told itself.
    fn code(&self) -> i32 {
        match self {
            Notice::Inode { .. } => notification::INVAL_INODE,
            Notice::Entry { .. } => notification::INVAL_ENTRY,
            Notice::Delete { .. } => notification::DELETE,
            Notice::Later(_) | Notice::Flush(_) => 0,
        }
    }
}

pub(crate) struct Later(pub Box<dyn FnOnce() -> Vec<Notice> + Send>);

impl std::fmt::Debug for Later {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Later")
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
        thread.spawn(move || run(&connection, &log, &receiver))?;
        Ok(Notifier { queue })
    }

    /// The attributes of a node changed, and its contents from `offset` on; a `len` of zero means up to the
    /// end, a negative offset the attributes alone.
    pub fn inval_inode(&self, node: u64, offset: i64, len: i64) {
        self.push(Notice::Inode { node, offset, len });
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

    /// Waits until the kernel has taken everything that was queued before.
    pub fn flush(&self, at_most: Duration) -> Result<(), NotFlushed> {
        let (done, wait) = channel();
        self.push(Notice::Flush(done));
        match wait.recv_timeout(at_most) {
            // A thread that has ended has nobody to tell.
            Ok(()) | Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Ok(()),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Err(NotFlushed),
        }
    }

    pub(crate) fn push(&self, notice: Notice) {
        // Without a thread there is no mount whose caches could be wrong.
        let _ = self.queue.send(notice);
    }
}

fn run(connection: &Weak<OwnedFd>, log: &Log, queue: &Receiver<Notice>) {
    while let Ok(notice) = queue.recv() {
        tell(connection, log, notice);
    }
}

fn tell(connection: &Weak<OwnedFd>, log: &Log, notice: Notice) {
    let code = notice.code();
    let sent = match notice {
        Notice::Inode { node, offset, len } => {
            let body = InvalInodeOut { ino: node, off: offset, len };
            send(connection, code, body.as_bytes(), None)
        }
        Notice::Entry { parent, name, expire_only } => {
            let flags = if expire_only { inval_entry::EXPIRE_ONLY } else { 0 };
            let body = InvalEntryOut { parent, namelen: name.len() as u32, flags };
            send(connection, code, body.as_bytes(), Some(&name))
        }
        Notice::Delete { parent, child, name } => {
            let body = DeleteOut { parent, child, namelen: name.len() as u32, padding: 0 };
            send(connection, code, body.as_bytes(), Some(&name))
        }
        Notice::Later(Later(find_out)) => {
            find_out().into_iter().for_each(|notice| tell(connection, log, notice));
            Ok(())
        }
        // Whoever asked may have stopped waiting.
        Notice::Flush(done) => done.send(()).or(Ok(())),
    };
    if let Err(error) = sent {
        log(&format!("notification {code} to the kernel: {error}"));
    }
}

fn send(connection: &Weak<OwnedFd>, code: i32, body: &[u8], name: Option<&[u8]>) -> Result<(), Errno> {
    let Some(connection) = connection.upgrade() else { return Ok(()) };
    let end: &[u8] = if name.is_some() { b"\0" } else { b"" };
    let name = name.unwrap_or_default();
    let len = size_of::<OutHeader>() + body.len() + name.len() + end.len();
    let header = OutHeader { len: len as u32, error: code, unique: 0 };
    let parts = [header.as_bytes(), body, name, end].map(IoSlice::new);
    match rustix::io::writev(connection, &parts) {
        // The kernel does not know the node or the name, or the mount is gone.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
        // The directory is not empty or in use: the name stays until that is over.
        Err(Errno::NOTEMPTY | Errno::BUSY) => Ok(()),
        Err(error) => Err(error),
    }
}
