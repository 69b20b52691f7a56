//! Makes the kernel forget everything that was changed through other doors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use avfs_tree::{Invalidation, Watcher};

use super::Skin;
use super::nodes::KernelNodes;
use crate::notify::Notifier;
use crate::reply::{Answered, FuseReply};

/// The notifier of the kernel, once it exists.
#[derive(Clone, Default)]
pub(super) struct NoticeQueue {
    notifier: Arc<OnceLock<Notifier>>,
    /// The number of changes through other doors.
    news: Arc<AtomicU64>,
}

impl NoticeQueue {
    /// Runs an action when the kernel has processed every pending notification.
    pub(super) fn then(&self, act: impl FnOnce() + Send + 'static) {
        match self.notifier.get() {
            Some(notifier) => notifier.then(act),
            None => act(),
        }
    }

    /// The kernel drops its cache of these bytes of a file; a `len` of zero means up to the end.
    pub(super) fn contents(&self, node: u64, offset: u64, len: u64) {
        if let Some(notifier) = self.notifier.get() {
            notifier.inval_inode(node, offset as i64, len as i64);
        }
    }

    /// The kernel's cache of a file is wrong from an offset on.
    pub(super) fn contents_from(&self, node: u64, offset: u64) {
        self.contents(node, offset, 0);
    }

    /// A name must be looked up again at its next use.
    pub(super) fn name(&self, parent: u64, name: &[u8]) {
        if let Some(notifier) = self.notifier.get() {
            notifier.inval_entry(parent, name, true);
        }
    }

    /// The kernel's cached attributes of a file are wrong; when this returns, it has forgotten them.
    pub(super) fn attributes_now(&self, node: u64) {
        if let Some(notifier) = self.notifier.get() {
            notifier.inval_attributes_now(node);
        }
    }

    /// Gives the kernel the contents of a file that no program has open. Returns whether it has accepted
    /// them.
    pub(super) fn store(&self, node: u64, contents: &[u8]) -> bool {
        self.notifier
            .get()
            .is_some_and(|notifier| notifier.store(node, contents).is_ok())
    }

    /// The number of changes so far. An answer that was computed before a later change must not be cached by
    /// the kernel: the notification of that change could not cover it.
    pub(super) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// Whether the kernel has processed all earlier changes of other doors.
    pub(super) fn is_idle(&self) -> bool {
        self.notifier.get().is_none_or(Notifier::is_idle)
    }
}

/// Receives the tree's notifications of changes through other doors.
struct SkinWatcher {
    news: Arc<AtomicU64>,
    nodes: Arc<KernelNodes>,
    notifier: Notifier,
}

impl Watcher for SkinWatcher {
    fn invalidate(&self, invalidation: Invalidation) {
        self.news.fetch_add(1, Ordering::AcqRel);
        match invalidation {
            Invalidation::Name { parent, name } => {
                if let Some(parent) = self.nodes.known(parent) {
                    self.notifier.inval_entry(parent, name.as_bytes(), true);
                    // The listing that the kernel has cached is its contents.
                    self.notifier.inval_inode(parent, 0, 0);
                }
            }
            Invalidation::Attributes(ino) => {
                if let Some(node) = self.nodes.known(ino) {
                    self.notifier.inval_inode(node, -1, 0);
                }
            }
            Invalidation::Contents { ino, offset, len } => {
                if let Some(node) = self.nodes.known(ino) {
                    self.nodes.set_has_contents(node, false);
                    self.notifier.inval_inode(node, offset as i64, len as i64);
                }
            }
            Invalidation::Replaced(ino) => {
                if let Some(old) = self.nodes.replace(ino) {
                    self.notifier.inval_inode(old, 0, 0);
                }
            }
        }
    }
}

impl Skin {
    /// From now on the kernel is notified of changes through other doors.
    pub fn watch(&self, notifier: &Notifier) {
        if self.notices.notifier.set(notifier.clone()).is_ok() {
            let nodes = Arc::clone(&self.nodes);
            self.tree.watch(Arc::new(SkinWatcher {
                news: self.notices.news.clone(),
                nodes,
                notifier: notifier.clone(),
            }));
        }
    }

    /// There is no longer a kernel to notify. The watcher holds the nodes, which hold the tree, which holds
    /// the watcher: without this, none of them would ever be dropped.
    pub fn unwatch(&self) {
        self.tree.unwatch();
    }

    pub(super) fn notices(&self) -> NoticeQueue {
        self.notices.clone()
    }

    /// Answers when the kernel has processed all earlier changes of other doors; immediately, if there are
    /// none.
    pub(super) fn when_up_to_date(
        &self,
        reply: FuseReply<'_>,
        answer: impl FnOnce(FuseReply<'_>) -> Answered + Send + 'static,
    ) -> Answered {
        if self.notices.is_idle() {
            return answer(reply);
        }
        let (answered, reply) = reply.defer();
        self.notices.then(move || drop(answer(reply)));
        answered
    }
}
