//! The skin over a working tree: every request becomes a call of the tree, every result an answer. No state
//! but what the kernel remembers of us.
//!
//! The kernel may cache names, attributes, missing names and contents for a day, because nothing changes
//! behind its back without a notification.

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
use avfs_tree::{At, Ino, WorkTree};
use rustix::io::Errno;

use self::deferring::{Deferring, Outcome};
use self::directories::DirectoryHandles;
use self::error::SkinError;
use self::handles::Handles;
use self::locks::Waiting;
use self::nodes::Nodes;
use self::opens::{Held, Opens};
pub use self::owner::OneOwner;
use self::relisting::Listings;
use self::storing::may_write;
use self::syncing::Syncing;
use self::watching::Notices;
use crate::abi::flags::{init, open_out};
use crate::abi::{EntryOut, InitIn};
use crate::reply::{Answered, Reply};
use crate::request::Request;
use crate::service::{self, Service};
use crate::session::Log;

/// What may be done through a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Everything,
    /// No changes; others may make some.
    ReadOnly,
    /// Nobody changes the tree: the kernel opens files and directories without asking.
    Past,
}

/// What a mount is, beside its tree.
#[derive(Clone)]
pub struct SkinOptions {
    pub access: Access,
    /// Through which rules the tree is seen; `None`: as it is.
    pub rules: Option<Rules>,
    /// Whom everything seems to belong to; `None`: to whom it does.
    pub owner: Option<OneOwner>,
    /// No other mount shows the same tree: the kernel keeps locks itself, and opens and closes files and directories
    /// without asking. Rules may then hide things or leave them alone, and nothing between: what may not be written,
    /// the kernel would open for writing.
    pub alone: bool,
    /// The kernel leaves it to us to check what mode and owner allow. Not for a mount that is alone or of the past, where
    /// nobody asks before a file is opened.
    pub checks_modes: bool,
    /// How many bytes the disk under the store has left.
    pub free_bytes: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub log: Log,
}

pub struct Skin {
    /// For what is done later, by other threads.
    this: Weak<Skin>,
    /// A door through which nobody waits for the store.
    tree: Arc<WorkTree>,
    nodes: Arc<Nodes>,
    handles: Handles,
    opens: Opens,
    directories: DirectoryHandles,
    listings: Listings,
    waiting: Arc<Waiting>,
    notices: Notices,
    syncing: Syncing,
    deferring: Deferring,
    deferred: AtomicU64,
    /// The node of the file that the kernel was told of last.
    last_file: AtomicU64,
    /// The kernel is gone.
    has_ended: AtomicBool,
    /// Whether the tree is seen through rules: else nothing has to be asked before the tree is.
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
            nodes: Arc::new(Nodes::new(tree.clone())),
            handles: Handles::default(),
            opens: Opens::default(),
            directories: DirectoryHandles::default(),
            listings: Listings::default(),
            waiting: Arc::default(),
            notices: Notices::default(),
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

    /// From now on the tree is seen through other rules. What the kernel has to forget is on its way to it when
    /// this returns: whoever must be sure waits for its notifier.
    pub fn set_rules(&self, rules: Rules) {
        self.ruled.store(true, Ordering::Release);
        self.tree.set_rules(rules);
    }

    fn is_ruled(&self) -> bool {
        self.ruled.load(Ordering::Acquire)
    }

    /// Asks for what takes a level before anything is done.
    fn check(&self, ino: Ino, level: Level) -> Result<(), SkinError> {
        match self.is_ruled() {
            true => Ok(self.tree.check(ino, level)?),
            false => Ok(()),
        }
    }

    /// How often the rules of the tree were asked, by whomever.
    pub fn asked(&self) -> u64 {
        self.tree.asked()
    }

    /// How many files the kernel has open.
    pub fn open_files(&self) -> u64 {
        self.opens.total()
    }

    /// Whether the kernel may open what it knows without asking: nobody else changes it without a word, and nothing
    /// that it knows is forbidden.
    fn opens_itself(&self) -> bool {
        match self.options.access {
            Access::Past => self.options.rules.is_none(),
            Access::Everything | Access::ReadOnly => self.options.alone,
        }
    }

    /// Whether the kernel may list directories without opening them: nothing in them is forbidden or promised. Opening one
    /// is where nobody agrees on anything, so other mounts do not matter.
    fn lists_itself(&self) -> bool {
        self.opens_itself() || (self.options.rules.is_none() && !self.tree.may_promise())
    }

    /// Whether the kernel is told of a file only when what a source has promised of it is kept: where nobody asks before
    /// he reads, what was told of its size must be true already.
    fn keeps_early(&self) -> bool {
        self.opens_itself() && self.tree.may_promise()
    }

    /// The inode that a request is about.
    fn ino(&self, request: &Request<'_>) -> Result<Ino, SkinError> {
        self.nodes.ino(request.nodeid)
    }

    /// The inode that a request is about, as it is known now.
    fn at(&self, request: &Request<'_>) -> Result<At, SkinError> {
        self.nodes.at(request.nodeid)
    }

    /// Answers with a result or its errno; what an operator should know of is logged.
    fn answer<'a, T>(
        &self,
        request: &Request<'_>,
        reply: Reply<'a>,
        result: Result<T, SkinError>,
        say: impl FnOnce(Reply<'a>, T) -> Answered,
    ) -> Outcome<'a> {
        match result {
            Ok(value) => Ok(say(reply, value)),
            Err(error) => self.refuse(request, reply, error),
        }
    }

    fn errno(&self, request: &Request<'_>, error: SkinError) -> Errno {
        let errno = error.errno();
        if errno == Errno::IO {
            let (opcode, node) = (request.opcode, request.nodeid);
            (self.options.log)(&format!("{opcode:?} of node {node}: {}", avfs_core::with_causes(&error)));
        }
        errno
    }

    fn entry<'a>(
        &self,
        request: &Request<'_>,
        reply: Reply<'a>,
        as_of: u64,
        result: Result<EntryOut, SkinError>,
    ) -> Outcome<'a> {
        self.answer(request, reply, result, |reply, entry| reply.entry(&self.kept_if_true(entry, as_of)))
    }

    /// What the kernel may keep, unless something was changed through another door since `as_of`.
    fn kept_if_true(&self, entry: EntryOut, as_of: u64) -> EntryOut {
        match self.notices.news() == as_of {
            true => entry,
            false => EntryOut { entry_valid: 0, attr_valid: 0, ..entry },
        }
    }

    /// The handle of an open file, and what the kernel may do with it. Closing a descriptor that cannot write is
    /// not told, unless it could end a lock.
    fn opened(&self, held: Held<'_>, ino: Ino, flags: u32) -> (u64, u32) {
        // Whether its closing is told depends on whether the kernel has asked for an open yet.
        if self.opens_itself() {
            return (0, open_out::KEEP_CACHE);
        }
        if may_write(flags) {
            self.nodes.set_has_contents(held.node(), false);
        }
        held.open();
        let is_quiet = !may_write(flags) && !self.has_record_locks(ino);
        let quiet = if is_quiet { open_out::NOFLUSH } else { 0 };
        (self.handles.open(is_quiet, may_write(flags)), open_out::KEEP_CACHE | quiet)
    }

    fn done<'a>(
        &self,
        request: &Request<'_>,
        reply: Reply<'a>,
        result: Result<(), SkinError>,
    ) -> Outcome<'a> {
        self.answer(request, reply, result, |reply, ()| reply.ok())
    }
}

impl Service for Skin {
    fn init(&self, _kernel: &InitIn) -> u64 {
        match (self.opens_itself(), self.lists_itself()) {
            (true, _) => service::UNASKED,
            (false, true) => service::WRITABLE | init::NO_OPENDIR_SUPPORT,
            (false, false) => service::WRITABLE,
        }
    }

    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        self.syncing.begin_if_due();
        self.try_to_serve(request, reply).unwrap_or_else(|unanswered| self.put_off(request, unanswered))
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
