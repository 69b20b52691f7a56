//! The skin over a working tree: every request becomes a call of the tree, every result an answer. No state
//! but what the kernel remembers of us.
//!
//! The kernel may cache names, attributes, missing names and contents for a day, because nothing changes
//! behind its back without a notification.

mod attributes;
mod contents;
mod directories;
mod error;
mod handles;
mod locks;
mod names;
mod nodes;
mod owed;
mod owner;
mod space;
mod syncing;
mod watching;
mod xattrs;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use avfs_core::rules::{Level, Rules};
use avfs_tree::{At, Ino, WorkTree};
use rustix::fs::OFlags;
use rustix::io::Errno;

use self::directories::DirectoryHandles;
use self::error::SkinError;
use self::handles::Handles;
use self::locks::Waiting;
use self::nodes::Nodes;
pub use self::owner::OneOwner;
use self::syncing::Syncing;
use self::watching::Notices;
use crate::abi::flags::open_out;
use crate::abi::{EntryOut, InitIn};
use crate::reply::{Answered, Reply};
use crate::request::{Operation, Request};
use crate::service::{self, Service, Wait};
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
    /// How many bytes the disk under the store has left.
    pub free_bytes: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub log: Log,
}

pub struct Skin {
    tree: Arc<WorkTree>,
    nodes: Arc<Nodes>,
    handles: Handles,
    directories: DirectoryHandles,
    waiting: Arc<Waiting>,
    notices: Notices,
    syncing: Syncing,
    /// Whether the tree is seen through rules: else nothing has to be asked before the tree is.
    ruled: AtomicBool,
    options: SkinOptions,
}

impl Skin {
    /// A skin with a door of its own to a tree.
    pub fn new(tree: &WorkTree, options: SkinOptions) -> Skin {
        let tree = Arc::new(tree.holding_door());
        if let Some(rules) = options.rules.clone() {
            tree.set_rules(rules);
        }
        Skin {
            nodes: Arc::new(Nodes::new(tree.clone())),
            handles: Handles::default(),
            directories: DirectoryHandles::default(),
            waiting: Arc::default(),
            notices: Notices::default(),
            syncing: Syncing::new(tree.clone(), options.log.clone()),
            tree,
            ruled: AtomicBool::new(options.rules.is_some()),
            options,
        }
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

    /// Whether the kernel may open what it knows without asking: nothing changes, and nothing is forbidden.
    fn opens_itself(&self) -> bool {
        self.options.access == Access::Past && self.options.rules.is_none()
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
    fn answer<T>(
        &self,
        request: &Request<'_>,
        reply: Reply<'_>,
        result: Result<T, SkinError>,
        say: impl FnOnce(Reply<'_>, T) -> Answered,
    ) -> Answered {
        match result {
            Ok(value) => say(reply, value),
            Err(error) => reply.error(self.errno(request, error)),
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

    fn entry(
        &self,
        request: &Request<'_>,
        reply: Reply<'_>,
        as_of: u64,
        result: Result<EntryOut, SkinError>,
    ) -> Answered {
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
    fn opened(&self, ino: Ino, flags: u32) -> (u64, u32) {
        let is_quiet = flags & OFlags::RWMODE.bits() == OFlags::RDONLY.bits() && !self.has_record_locks(ino);
        let quiet = if is_quiet { open_out::NOFLUSH } else { 0 };
        (self.handles.open(is_quiet), open_out::KEEP_CACHE | quiet)
    }

    fn done(&self, request: &Request<'_>, reply: Reply<'_>, result: Result<(), SkinError>) -> Answered {
        self.answer(request, reply, result, |reply, ()| reply.ok())
    }
}

impl Service for Skin {
    fn init(&self, _kernel: &InitIn) -> u64 {
        match self.options.access {
            Access::Past if self.opens_itself() => service::READ_ONLY,
            Access::Past | Access::Everything | Access::ReadOnly => service::WRITABLE,
        }
    }

    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        // The kernel refuses changes of a read-only mount itself, until somebody remounts it.
        if self.options.access != Access::Everything && request.operation.is_change() {
            return reply.error(Errno::ROFS);
        }
        let as_of = self.notices.news();
        match request.operation {
            Operation::Lookup { name } => self.entry(request, reply, as_of, self.lookup(request, name)),
            Operation::Forget { lookups } => {
                self.forget(request.nodeid, lookups);
                reply.nothing()
            }
            Operation::BatchForget { nodes } => {
                nodes.iter().for_each(|one| self.forget(one.nodeid, one.nlookup));
                reply.nothing()
            }
            Operation::GetAttr(_) => {
                self.answer(request, reply, self.get_attr(request), |reply, attr| reply.attr(&attr))
            }
            Operation::SetAttr(set) => {
                self.answer(request, reply, self.set_attr(request, &set), |reply, attr| reply.attr(&attr))
            }
            Operation::ReadLink => {
                self.answer(request, reply, self.read_link(request), |reply, target| reply.bytes(&target))
            }
            Operation::Symlink { name, target } => {
                self.entry(request, reply, as_of, self.symlink(request, name, target))
            }
            Operation::MakeNode { node, name } => {
                self.entry(request, reply, as_of, self.make_node(request, &node, name))
            }
            Operation::MakeDirectory { directory, name } => {
                self.entry(request, reply, as_of, self.make_directory(request, directory.mode, name))
            }
            Operation::Unlink { name } => self.done(request, reply, self.unlink(request, name)),
            Operation::RemoveDirectory { name } => {
                self.done(request, reply, self.remove_directory(request, name))
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                self.done(request, reply, self.rename(request, name, new_parent, new_name, flags))
            }
            Operation::Link { node, name } => {
                self.entry(request, reply, as_of, self.link(request, node, name))
            }
            // A file is kept alive by its node, so a handle would have nothing to say.
            Operation::Open(_) if self.opens_itself() => reply.error(Errno::NOSYS),
            Operation::Open(open) => {
                let (handle, flags) = self.opened(self.nodes.meant(request.nodeid), open.flags);
                match self.open(request, &open) {
                    Ok(()) => self.when_up_to_date(reply, move |reply| reply.open(handle, flags)),
                    Err(error) => reply.error(self.errno(request, error)),
                }
            }
            Operation::Create { create, name } => {
                let created = self.create(request, &create, name);
                self.answer(request, reply, created, |reply, entry| {
                    let (handle, flags) = self.opened(Ino(entry.attr.ino), create.flags);
                    reply.create(&self.kept_if_true(entry, as_of), handle, flags)
                })
            }
            // A file that never has a name cannot be made. This answer makes the kernel never ask again.
            Operation::TemporaryFile(_) => reply.error(Errno::NOSYS),
            Operation::Read(read) => self.read(request, &read, reply),
            Operation::Write { write, data } => {
                let written = self.write(request, &write, data);
                self.answer(request, reply, written, |reply, ()| reply.written(write.size))
            }
            Operation::Flush(flush) => self.done(request, reply, self.flush(request, &flush)),
            Operation::Release(release) => {
                self.release_file(request, &release);
                reply.ok()
            }
            Operation::Sync(_) | Operation::SyncDirectory(_) | Operation::SyncFilesystem => {
                self.syncing.sync(reply)
            }
            Operation::StatFilesystem => reply.statfs(&self.stat_filesystem()),
            Operation::SetXattr { name, value, flags } => {
                self.done(request, reply, self.set_xattr(request, name, value, flags))
            }
            Operation::GetXattr { name, size } => {
                self.answer(request, reply, self.get_xattr(request, name), |reply, value| {
                    reply.xattr(&value, size)
                })
            }
            Operation::ListXattr { size } => {
                self.answer(request, reply, self.list_xattrs(request), |reply, list| reply.xattr(&list, size))
            }
            Operation::RemoveXattr { name } => self.done(request, reply, self.remove_xattr(request, name)),
            Operation::OpenDirectory(_) if self.opens_itself() => reply.error(Errno::NOSYS),
            Operation::OpenDirectory(_) => {
                let flags = open_out::CACHE_DIR | open_out::KEEP_CACHE;
                self.answer(request, reply, self.open_directory(request), |reply, ()| {
                    reply.open(self.directories.open(), flags)
                })
            }
            Operation::ReadDirectory(read) => self.read_directory(request, &read, false, reply),
            Operation::ReadDirectoryPlus(read) => self.read_directory(request, &read, true, reply),
            Operation::ReleaseDirectory(release) => {
                self.directories.release(release.fh);
                reply.ok()
            }
            Operation::Allocate(allocate) => self.done(request, reply, self.allocate(request, &allocate)),
            Operation::Seek(seek) => {
                self.answer(request, reply, self.seek(request, &seek), |reply, offset| reply.seek(offset))
            }
            Operation::CopyRange { copy, wide } => {
                let copied = self.copy_range(request, &copy);
                self.answer(request, reply, copied, |reply, bytes| reply.copied(bytes, wide))
            }
            Operation::GetLock(lock) => {
                self.answer(request, reply, self.get_lock(request, &lock), |reply, lock| reply.lock(lock))
            }
            Operation::SetLock { lock, wait } => self.set_lock(request, &lock, wait, reply),
            Operation::Interrupt { unique } => {
                self.interrupt(unique);
                reply.nothing()
            }
            Operation::DeviceControl { .. } => reply.error(Errno::NOTTY),
            // Each is asked for once; then the kernel does what it can by itself.
            Operation::Access { .. } if !self.is_ruled() => reply.error(Errno::NOSYS),
            Operation::Access { mask } => self.done(request, reply, self.access(request, mask)),
            Operation::Statx(_) | Operation::BlockMap(_) | Operation::Poll(_) => reply.error(Errno::NOSYS),
            Operation::Init(_) | Operation::Destroy => reply.error(Errno::IO),
        }
    }

    fn wait_for(&self, request: &Request<'_>) -> Option<Wait> {
        self.owed_to(request)
    }

    fn destroy(&self) {
        self.tree.locks().release_door(self.tree.door().0);
        self.directories.clear();
        self.nodes.forget_all();
    }
}
