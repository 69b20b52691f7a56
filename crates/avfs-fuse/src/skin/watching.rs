//! Making the kernel forget what was changed through other doors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use avfs_tree::{Seen, Watcher};

use super::Skin;
use super::nodes::Nodes;
use crate::notify::Notifier;
use crate::reply::{Answered, Reply};

/// The way to the kernel, once there is one.
#[derive(Clone, Default)]
pub(super) struct Notices {
    notifier: Arc<OnceLock<Notifier>>,
    /// How often something was changed through another door.
    news: Arc<AtomicU64>,
}

impl Notices {
    /// Does something when the kernel has taken every notification that is under way now.
    pub fn then(&self, act: impl FnOnce() + Send + 'static) {
        match self.notifier.get() {
            Some(notifier) => notifier.then(act),
            None => act(),
        }
    }

    /// The kernel drops what it has of these bytes of a file; a `len` of zero means up to the end.
    pub fn contents(&self, node: u64, offset: u64, len: u64) {
        if let Some(notifier) = self.notifier.get() {
            notifier.inval_inode(node, offset as i64, len as i64);
        }
    }

    /// What the kernel has of a file from an offset on is wrong.
    pub fn contents_from(&self, node: u64, offset: u64) {
        self.contents(node, offset, 0);
    }

    /// A name is to be looked up again at its next use.
    pub fn name(&self, parent: u64, name: &[u8]) {
        if let Some(notifier) = self.notifier.get() {
            notifier.inval_entry(parent, name, true);
        }
    }

    /// What the kernel knows of the attributes of a file is wrong; when this returns, it has forgotten them.
    pub fn attributes_now(&self, node: u64) {
        if let Some(notifier) = self.notifier.get() {
            notifier.inval_attributes_now(node);
        }
    }

    /// Gives the kernel the contents of a file that nobody has open. Returns whether it has taken them.
    pub fn store(&self, node: u64, contents: &[u8]) -> bool {
        self.notifier.get().is_some_and(|notifier| notifier.store(node, contents).is_ok())
    }

    /// What has been heard of so far. An answer that was found out before more was heard must not be kept by the
    /// kernel: it was not told of what it did not know yet.
    pub fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// Whether the kernel has forgotten everything that others changed before.
    pub fn is_idle(&self) -> bool {
        self.notifier.get().is_none_or(Notifier::is_idle)
    }
}

/// What the tree tells of changes through other doors.
struct Watching {
    news: Arc<AtomicU64>,
    nodes: Arc<Nodes>,
    notifier: Notifier,
}

impl Watcher for Watching {
    fn seen(&self, seen: Seen) {
        self.news.fetch_add(1, Ordering::AcqRel);
        match seen {
            Seen::Name { parent, name } => {
                if let Some(parent) = self.nodes.known(parent) {
                    self.notifier.inval_entry(parent, name.as_bytes(), true);
                    // The listing that the kernel keeps is its contents.
                    self.notifier.inval_inode(parent, 0, 0);
                }
            }
            Seen::Attributes(ino) => {
                if let Some(node) = self.nodes.known(ino) {
                    self.notifier.inval_inode(node, -1, 0);
                }
            }
            Seen::Contents { ino, offset, len } => {
                if let Some(node) = self.nodes.known(ino) {
                    self.nodes.set_has_contents(node, false);
                    self.notifier.inval_inode(node, offset as i64, len as i64);
                }
            }
            Seen::Replaced(ino) => {
                if let Some(old) = self.nodes.replace(ino) {
                    self.notifier.inval_inode(old, 0, 0);
                }
            }
        }
    }
}

impl Skin {
    /// From now on the kernel is told of what is changed through other doors.
    pub fn watch(&self, notifier: &Notifier) {
        if self.notices.notifier.set(notifier.clone()).is_ok() {
            let nodes = Arc::clone(&self.nodes);
            self.tree.watch(Arc::new(Watching {
                news: self.notices.news.clone(),
                nodes,
                notifier: notifier.clone(),
            }));
        }
    }

    /// There is no kernel to be told any more. What watches holds the nodes, which hold the tree, which holds what
    /// watches: without this, none of them would ever go.
    pub fn unwatch(&self) {
        self.tree.unwatch();
    }

    pub(super) fn notices(&self) -> Notices {
        self.notices.clone()
    }

    /// Answers when the kernel has forgotten what others changed before; at once, if nobody did.
    pub(super) fn when_up_to_date(
        &self,
        reply: Reply<'_>,
        answer: impl FnOnce(Reply<'_>) -> Answered + Send + 'static,
    ) -> Answered {
        if self.notices.is_idle() {
            return answer(reply);
        }
        let (answered, reply) = reply.defer();
        self.notices.then(move || drop(answer(reply)));
        answered
    }
}
