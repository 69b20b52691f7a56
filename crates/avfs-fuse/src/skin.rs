//! The skin over a working tree: every request becomes a call of the tree, every result an answer. Its only
//! state is what the kernel knows about inodes, handles and caches.
//!
//! The kernel may cache names, attributes, missing names and contents for a day, because it is notified of
//! every change that it did not make.

mod attributes;
mod contents;
mod deferring;
mod directories;
mod error;
mod handles;
mod locks;
mod modes;
mod names;
mod nodes;
mod opens;
mod owner;
mod privileges;
mod relisting;
mod serving;
mod space;
mod storing;
mod syncing;
mod watching;
mod xattrs;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use avfs_core::rules::{Level, Rules};
use avfs_tree::{Ino, KnownInode, WorkTree};
use rustix::io::Errno;

use self::attributes::AttributeRequests;
use self::contents::ContentRequests;
use self::deferring::{Deferring, ServeResult};
use self::directories::{DirectoryHandles, DirectoryRequests};
use self::error::SkinError;
use self::handles::LockHandles;
use self::locks::{LockRequests, LockWaits};
use self::modes::ModeChecks;
use self::names::NameRequests;
use self::nodes::KernelNodes;
use self::opens::{HeldNode, OpenHandles};
pub use self::owner::OneOwner;
use self::relisting::AttributeListings;
use self::storing::may_write;
use self::syncing::Syncing;
use self::watching::NoticeQueue;
use crate::abi::flags::{init, open_out};
use crate::abi::{EntryOut, InitIn};
use crate::reply::{Answered, FuseReply};
use crate::request::FuseRequest;
use crate::service::{self, FuseService};
use crate::session::SessionLog;

/// The access that a mount allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    /// All of the tree.
    Everything,
    /// No changes through this mount; other doors may make changes.
    ReadOnly,
    /// The tree never changes: the kernel opens files and directories without a request.
    Past,
}

/// The properties of a mount, beside its tree.
#[derive(Clone)]
pub struct SkinOptions {
    /// How much of the tree it shows.
    pub access: MountAccess,
    /// The rules through which the tree is seen; `None`: without rules.
    pub rules: Option<Rules>,
    /// The user who appears to own everything; `None`: the actual owners.
    pub owner: Option<OneOwner>,
    /// No other mount shows the same tree: the kernel keeps locks itself, and opens and closes files and
    /// directories without a request. Rules may then hide entries or allow everything, and nothing in
    /// between: the kernel would open a read-only file for writing.
    pub exclusive: bool,
    /// The kernel leaves it to us to check modes and owners. Not for an exclusive or immutable mount, where
    /// files are opened without a request.
    pub checks_modes: bool,
    /// The number of free bytes on the disk of the store.
    pub free_bytes: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Where messages for the operator go.
    pub log: SessionLog,
}

/// Serves a working tree: translates requests to its calls, and its notifications to the kernel's.
pub struct Skin {
    /// For work that other threads do later.
    this: Weak<Skin>,
    /// A door whose requests never wait for the store.
    tree: Arc<WorkTree>,
    nodes: Arc<KernelNodes>,
    handles: LockHandles,
    opens: OpenHandles,
    directories: DirectoryHandles,
    listings: AttributeListings,
    waiting: Arc<LockWaits>,
    notices: NoticeQueue,
    syncing: Syncing,
    deferring: Deferring,
    deferred: AtomicU64,
    /// The node of the file that was last reported to the kernel.
    last_file: AtomicU64,
    /// The kernel is gone.
    has_ended: AtomicBool,
    /// Whether the tree is seen through rules: otherwise checks before tree calls are skipped.
    ruled: AtomicBool,
    options: SkinOptions,
}

impl Skin {
    /// A skin with a door of its own to a tree.
    pub fn new(tree: &WorkTree, options: SkinOptions) -> Arc<Skin> {
        let tree = Arc::new(tree.holding_door().never_waiting());
        if let Some(rules) = options.rules.clone() {
            tree.set_rules(rules);
        }
        Arc::new_cyclic(|this| Skin {
            this: this.clone(),
            nodes: Arc::new(KernelNodes::new(tree.clone())),
            handles: LockHandles::default(),
            opens: OpenHandles::default(),
            directories: DirectoryHandles::default(),
            listings: AttributeListings::default(),
            waiting: Arc::default(),
            notices: NoticeQueue::default(),
            syncing: Syncing::new(tree.clone(), options.log.clone()),
            deferring: Deferring::new(options.log.clone()),
            deferred: AtomicU64::new(0),
            last_file: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            tree,
            ruled: AtomicBool::new(options.rules.is_some()),
            options,
        })
    }

    /// From now on the tree is seen through other rules. The notifications for the kernel are queued when
    /// this returns: a caller that must be sure waits for the notifier.
    pub fn set_rules(&self, rules: Rules) {
        // Set before the tree has them: a request in between then makes a superfluous check instead of
        // skipping a necessary one.
        self.ruled.store(true, Ordering::Release);
        self.tree.set_rules(rules);
    }

    fn is_ruled(&self) -> bool {
        self.ruled.load(Ordering::Acquire)
    }

    /// Checks a level before anything is done.
    fn check(&self, ino: Ino, level: Level) -> Result<(), SkinError> {
        if self.is_ruled() {
            Ok(self.tree.check(ino, level)?)
        } else {
            Ok(())
        }
    }

    /// How often the rules of the tree were checked, through all doors.
    pub fn asked(&self) -> u64 {
        self.tree.asked()
    }

    /// How many files the kernel has open.
    pub fn open_files(&self) -> u64 {
        self.opens.total()
    }

    /// Whether the kernel may open known files without a request: no other door changes them without a
    /// notification, and none of them is forbidden.
    fn opens_itself(&self) -> bool {
        match self.options.access {
            MountAccess::Past => self.options.rules.is_none(),
            MountAccess::Everything | MountAccess::ReadOnly => self.options.exclusive,
        }
    }

    /// Whether the kernel may list directories without opening them: nothing in them is forbidden or
    /// promised. Opening a directory coordinates nothing between mounts, so other mounts do not matter.
    fn lists_itself(&self) -> bool {
        self.opens_itself() || (self.options.rules.is_none() && !self.tree.may_promise())
    }

    /// Whether a promised file is resolved before it is reported to the kernel: if files are opened without a
    /// request, the reported size must be true already.
    fn keeps_early(&self) -> bool {
        self.opens_itself() && self.tree.may_promise()
    }

    /// The inode of a request.
    fn ino(&self, request: &FuseRequest<'_>) -> Result<Ino, SkinError> {
        self.nodes.ino(request.nodeid)
    }

    /// The inode of a request, as it is known now.
    fn at(&self, request: &FuseRequest<'_>) -> Result<KnownInode, SkinError> {
        self.nodes.at(request.nodeid)
    }

    /// Answers with a result or its errno; errors that concern the operator are logged.
    fn answer<'a, T>(
        &self,
        request: &FuseRequest<'_>,
        reply: FuseReply<'a>,
        result: Result<T, SkinError>,
        say: impl FnOnce(FuseReply<'a>, T) -> Answered,
    ) -> ServeResult<'a> {
        match result {
            Ok(value) => Ok(say(reply, value)),
            Err(error) => self.refuse(request, reply, error),
        }
    }

    fn errno(&self, request: &FuseRequest<'_>, error: SkinError) -> Errno {
        let errno = error.errno();
        if errno == Errno::IO {
            let opcode = request.opcode;
            let node = request.nodeid;
            (self.options.log)(&format!(
                "{opcode:?} of node {node}: {}",
                avfs_core::with_causes(&error)
            ));
        }
        errno
    }

    fn entry<'a>(
        &self,
        request: &FuseRequest<'_>,
        reply: FuseReply<'a>,
        as_of: u64,
        result: Result<EntryOut, SkinError>,
    ) -> ServeResult<'a> {
        self.answer(request, reply, result, |reply, entry| {
            reply.entry(&self.kept_if_true(entry, as_of))
        })
    }

    /// An entry that the kernel may cache, unless something was changed through another door since `as_of`.
    fn kept_if_true(&self, entry: EntryOut, as_of: u64) -> EntryOut {
        if self.notices.news() == as_of {
            entry
        } else {
            EntryOut {
                entry_valid: 0,
                attr_valid: 0,
                ..entry
            }
        }
    }

    /// The handle of an open file, and what the kernel may do with it. The kernel does not report the closing
    /// of a descriptor that cannot write, unless it could end a lock.
    fn opened(&self, held: HeldNode<'_>, ino: Ino, flags: u32) -> (u64, u32) {
        // Whether its closing is reported depends on whether the kernel has sent an open request yet.
        if self.opens_itself() {
            return (0, open_out::KEEP_CACHE);
        }
        if may_write(flags) {
            self.nodes.set_has_contents(held.node(), false);
        }
        held.open();
        let is_quiet = !may_write(flags) && !self.locking().has_record_locks(ino);
        let quiet = if is_quiet { open_out::NOFLUSH } else { 0 };
        (
            self.handles.open(is_quiet, may_write(flags)),
            open_out::KEEP_CACHE | quiet,
        )
    }

    fn done<'a>(
        &self,
        request: &FuseRequest<'_>,
        reply: FuseReply<'a>,
        result: Result<(), SkinError>,
    ) -> ServeResult<'a> {
        self.answer(request, reply, result, |reply, ()| reply.ok())
    }

    fn contents(&self) -> ContentRequests<'_> {
        ContentRequests { skin: self }
    }

    fn names(&self) -> NameRequests<'_> {
        NameRequests { skin: self }
    }

    fn attributes(&self) -> AttributeRequests<'_> {
        AttributeRequests { skin: self }
    }

    fn listing(&self) -> DirectoryRequests<'_> {
        DirectoryRequests { skin: self }
    }

    fn locking(&self) -> LockRequests<'_> {
        LockRequests { skin: self }
    }

    fn modes(&self) -> ModeChecks<'_> {
        ModeChecks { skin: self }
    }
}

impl FuseService for Skin {
    fn init(&self, _kernel: &InitIn) -> u64 {
        match (self.opens_itself(), self.lists_itself()) {
            (true, _) => service::UNASKED,
            (false, true) => service::WRITABLE | init::NO_OPENDIR_SUPPORT,
            (false, false) => service::WRITABLE,
        }
    }

    fn serve(&self, request: &FuseRequest<'_>, reply: FuseReply<'_>) -> Answered {
        self.syncing.begin_if_due();
        self.try_to_serve(request, reply)
            .unwrap_or_else(|unanswered| self.put_off(request, unanswered))
    }

    fn must_be_prompt(&self) -> bool {
        self.tree.locks().held() > 0
    }

    fn known_file(&self) -> Option<u64> {
        Some(self.last_file.load(Ordering::Relaxed)).filter(|node| *node != 0)
    }

    fn destroy(&self) {
        self.tree.locks().release_door(self.tree.door().0);
        self.directories.clear();
        self.has_ended.store(true, Ordering::Release);
        self.nodes.forget_all();
    }
}
