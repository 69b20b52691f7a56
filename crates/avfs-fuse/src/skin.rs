//! The skin over a working tree: every request becomes a call of the tree, every result an answer. No state
//! but what the kernel remembers of us.
//!
//! The kernel may cache names, attributes, missing names and contents for a day, because nothing changes
//! behind its back without a notification.

mod attributes;
mod contents;
mod directories;
mod error;
mod missing;
mod names;
mod nodes;
mod space;
mod syncing;
mod xattrs;

use std::sync::Arc;

use avfs_tree::{Ino, WorkTree};
use rustix::io::Errno;

use self::directories::DirectoryHandles;
use self::error::SkinError;
use self::nodes::Nodes;
use self::syncing::Syncing;
use crate::abi::flags::open_out;
use crate::abi::{EntryOut, InitIn};
use crate::reply::{Answered, Reply};
use crate::request::{Operation, Request};
use crate::service::{self, Service};
use crate::session::Log;

/// What a mount is, beside its tree.
#[derive(Clone)]
pub struct SkinOptions {
    /// The tree never changes: the kernel opens files and directories without asking.
    pub read_only: bool,
    /// How many bytes the disk under the store has left.
    pub free_bytes: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub log: Log,
}

pub struct Skin {
    tree: Arc<WorkTree>,
    nodes: Nodes,
    directories: DirectoryHandles,
    syncing: Syncing,
    options: SkinOptions,
}

impl Skin {
    pub fn new(tree: Arc<WorkTree>, options: SkinOptions) -> Skin {
        Skin {
            nodes: Nodes::new(tree.clone()),
            directories: DirectoryHandles::default(),
            syncing: Syncing::new(tree.clone(), options.log.clone()),
            tree,
            options,
        }
    }

    /// The contents of a file changed behind the kernel. Whoever opens it from now on gets a new node; the
    /// old one, whose pages the kernel may still show, answers ESTALE. Returns the old node id if the kernel
    /// knows one, which is to be invalidated together with the file's names.
    pub fn replace(&self, ino: Ino) -> Option<u64> {
        self.nodes.replace(ino)
    }

    /// The node id under which the kernel knows an inode, if it does.
    pub fn known_node(&self, ino: Ino) -> Option<u64> {
        self.nodes.known(ino)
    }

    /// The inode that a request is about.
    fn ino(&self, request: &Request<'_>) -> Result<Ino, SkinError> {
        self.nodes.ino(request.nodeid)
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
            (self.options.log)(&format!("{opcode:?} of node {node}: {}", error::chain(&error)));
        }
        errno
    }

    fn entry(
        &self,
        request: &Request<'_>,
        reply: Reply<'_>,
        result: Result<EntryOut, SkinError>,
    ) -> Answered {
        self.answer(request, reply, result, |reply, entry| reply.entry(&entry))
    }

    fn done(&self, request: &Request<'_>, reply: Reply<'_>, result: Result<(), SkinError>) -> Answered {
        self.answer(request, reply, result, |reply, ()| reply.ok())
    }
}

impl Service for Skin {
    fn init(&self, _kernel: &InitIn) -> u64 {
        match self.options.read_only {
            true => service::READ_ONLY,
            false => service::USUAL | missing::LOCKS,
        }
    }

    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        match request.operation {
            Operation::Lookup { name } => self.entry(request, reply, self.lookup(request, name)),
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
                self.entry(request, reply, self.symlink(request, name, target))
            }
            Operation::MakeNode { node, name } => {
                self.entry(request, reply, self.make_node(request, &node, name))
            }
            Operation::MakeDirectory { directory, name } => {
                self.entry(request, reply, self.make_directory(request, directory.mode, name))
            }
            Operation::Unlink { name } => self.done(request, reply, self.unlink(request, name)),
            Operation::RemoveDirectory { name } => {
                self.done(request, reply, self.remove_directory(request, name))
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                self.done(request, reply, self.rename(request, name, new_parent, new_name, flags))
            }
            Operation::Link { node, name } => self.entry(request, reply, self.link(request, node, name)),
            // A file is kept alive by its node, so a handle would have nothing to say.
            Operation::Open(_) if self.options.read_only => reply.error(Errno::NOSYS),
            Operation::Open(open) => {
                let opened = self.open(request, &open);
                self.answer(request, reply, opened, |reply, ()| reply.open(0, open_out::KEEP_CACHE))
            }
            Operation::Create { create, name } => {
                let created = self.create(request, &create, name);
                self.answer(request, reply, created, |reply, entry| {
                    reply.create(&entry, 0, open_out::KEEP_CACHE)
                })
            }
            Operation::TemporaryFile(_) => reply.error(missing::TEMPORARY_FILE),
            Operation::Read(read) => self.read(request, &read, reply),
            Operation::Write { write, data } => {
                let written = self.write(request, &write, data);
                self.answer(request, reply, written, |reply, ()| reply.written(write.size))
            }
            Operation::Flush(_) => reply.error(missing::FLUSH),
            Operation::Release(_) => reply.ok(),
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
            Operation::OpenDirectory(_) if self.options.read_only => reply.error(Errno::NOSYS),
            Operation::OpenDirectory(_) => {
                let flags = open_out::CACHE_DIR | open_out::KEEP_CACHE;
                self.answer(request, reply, self.ino(request), |reply, _| {
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
            Operation::Interrupt { .. } => reply.nothing(),
            Operation::DeviceControl { .. } => reply.error(Errno::NOTTY),
            // Each is asked for once; then the kernel does what it can by itself.
            Operation::Access { .. }
            | Operation::Statx(_)
            | Operation::GetLock(_)
            | Operation::SetLock { .. }
            | Operation::BlockMap(_)
            | Operation::Poll(_) => reply.error(Errno::NOSYS),
            Operation::Init(_) | Operation::Destroy => reply.error(Errno::IO),
        }
    }

    fn destroy(&self) {
        self.directories.clear();
        self.nodes.forget_all();
    }
}
