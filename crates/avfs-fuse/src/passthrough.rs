//! A live, partial view of a directory of the host: visible names are the host's own files at every moment;
//! every other name refers to a private file that only this view has.
//!
//! A name whose level is above `none` is *shared*: it is looked up in the host's directory, and can be
//! changed if its level is `write`. A name in a cache of the host is *cached*: it can be read there, and
//! changes go to a layer over it (`caches.rs`). All other names are in a private directory beside it, where
//! everything is allowed. A directory on the way to a shared or cached path is private, and also shows those
//! paths below it.
//!
//! The kernel caches nothing that is shared, because other programs change the host's files too. It caches
//! the contents of caches for a moment, because tools replace files there instead of changing them; and
//! private directories, which no other program changes. No link is ever followed here; a link that the kernel
//! reads is followed by the kernel in the mount namespace of the caller. Links and special files can be
//! created only in the private part: a shared link could lead programs of the host astray.

mod attributes;
mod caches;
mod files;
mod listing;
mod names;
mod nodes;
mod places;
mod removing;

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use avfs_core::rules::Rules;
use rustix::io::Errno;

use self::caches::CachePlaces;
pub use self::caches::{CacheOptions, CachedPlace, LAYER_FILES};
use self::files::PassedFiles;
use self::listing::OpenListings;
use self::nodes::PathNodes;
use self::places::{HostPlaces, RuledPlace};
use crate::abi::InitIn;
use crate::abi::flags::init;
use crate::reply::{Answered, FuseReply};
use crate::request::{FuseOperation, FuseRequest};
use crate::service::{self, FuseService};
use crate::skin::OneOwner;

/// The directories and rules of a view.
pub struct PassthroughOptions {
    /// The directory of the host.
    pub shared: OwnedFd,
    /// The directory for everything else.
    pub private: OwnedFd,
    /// The rules through which it is seen.
    pub rules: Rules,
    /// What is cached; `None`: nothing.
    pub caches: Option<CacheOptions>,
    /// The user who appears to own our files; `None`: us.
    pub owner: Option<OneOwner>,
}

/// Serves a directory of the host, seen through rules.
pub struct PassthroughFs {
    places: HostPlaces,
    nodes: Mutex<PathNodes>,
    files: PassedFiles,
    listings: OpenListings,
    owner: Option<OneOwner>,
}

impl PassthroughFs {
    /// Fails if the layer of its caches cannot be used.
    pub fn new(options: PassthroughOptions) -> std::io::Result<PassthroughFs> {
        let PassthroughOptions {
            shared,
            private,
            rules,
            caches,
            owner,
        } = options;
        let caches = caches.map(CachePlaces::new).transpose()?;
        Ok(PassthroughFs {
            places: HostPlaces::new(shared, private, rules, caches),
            nodes: Mutex::default(),
            files: PassedFiles::default(),
            listings: OpenListings::default(),
            owner,
        })
    }

    fn nodes(&self) -> MutexGuard<'_, PathNodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current place of a node.
    fn at(&self, node: u64) -> Result<RuledPlace, Errno> {
        let names = self.nodes().names(node)?;
        Ok(self.places.standpoint(&names))
    }

    /// The place of an existing or possible entry of a directory.
    fn child(&self, directory: u64, name: &[u8]) -> Result<RuledPlace, Errno> {
        Ok(self.places.child(&self.at(directory)?, name))
    }
}

impl FuseService for PassthroughFs {
    /// The kernel drops cached data of a file whose time or size has changed, and removes privileges when a
    /// file is written. It manages locks itself: they hold within this mount.
    fn init(&self, _kernel: &InitIn) -> u64 {
        let cached = init::DO_READDIRPLUS | init::READDIRPLUS_AUTO | init::CACHE_SYMLINKS;
        // Pages that are read during an asynchronous direct write would not be invalidated here.
        let unserved = init::HANDLE_KILLPRIV_V2 | init::ASYNC_DIO;
        (service::USUAL | init::AUTO_INVAL_DATA) & !(cached | unserved)
    }

    fn serve(&self, request: &FuseRequest<'_>, reply: FuseReply<'_>) -> Answered {
        let node = request.nodeid;
        match request.operation {
            FuseOperation::Lookup { name } => entry(reply, self.lookup(node, name)),
            FuseOperation::Forget { lookups } => {
                self.nodes().forget(node, lookups);
                reply.nothing()
            }
            FuseOperation::BatchForget { nodes } => {
                let mut known = self.nodes();
                nodes.iter().for_each(|one| known.forget(one.nodeid, one.nlookup));
                reply.nothing()
            }
            FuseOperation::GetAttr(_) => attr(reply, self.get_attr(node)),
            FuseOperation::SetAttr(set) => attr(reply, self.set_attr(node, &set)),
            FuseOperation::ReadLink => match self.read_link(node) {
                Ok(target) => reply.bytes(&target),
                Err(errno) => reply.error(errno),
            },
            FuseOperation::Symlink { name, target } => entry(reply, self.symlink(node, name, target)),
            FuseOperation::MakeNode { node: made, name } => entry(reply, self.make_node(node, &made, name)),
            FuseOperation::MakeDirectory { directory, name } => entry(
                reply,
                self.make_directory(node, directory.mode & !directory.umask, name),
            ),
            FuseOperation::Unlink { name } => reply.done(self.unlink(node, name)),
            FuseOperation::RemoveDirectory { name } => reply.done(self.remove_directory(node, name)),
            FuseOperation::Rename {
                name,
                new_parent,
                new_name,
                flags,
            } => reply.done(self.rename((node, name), (new_parent, new_name), flags)),
            FuseOperation::Link { node: old, name } => entry(reply, self.link(old, node, name)),
            FuseOperation::Open(open) => match self.open(node, open.flags) {
                Ok((handle, flags)) => reply.open(handle, flags),
                Err(errno) => reply.error(errno),
            },
            FuseOperation::Create { create, name } => match self.create(node, &create, name) {
                Ok((entry, handle)) => reply.create(&entry, handle, 0),
                Err(errno) => reply.error(errno),
            },
            FuseOperation::Read(read) => self.files.read(&read, reply),
            FuseOperation::Write { write, data } => match self.files.write(&write, data) {
                Ok(()) => reply.written(write.size),
                Err(errno) => reply.error(errno),
            },
            FuseOperation::Sync(sync) => self.files.sync(sync.fh, reply),
            FuseOperation::Release(release) => {
                self.files.close(release.fh);
                reply.ok()
            }
            FuseOperation::Allocate(allocate) => reply.done(self.files.allocate(&allocate)),
            FuseOperation::OpenDirectory(_) => {
                match self
                    .at(node)
                    .and_then(|at| self.listings.open_directory(&self.places, &at))
                {
                    Ok(handle) => reply.open(handle, 0),
                    Err(errno) => reply.error(errno),
                }
            }
            FuseOperation::ReadDirectory(read) => self.listings.read_directory(&read, reply),
            FuseOperation::ReleaseDirectory(release) => {
                self.listings.close(release.fh);
                reply.ok()
            }
            FuseOperation::StatFilesystem => match self.stat_filesystem() {
                Ok(stat) => reply.statfs(&stat),
                Err(errno) => reply.error(errno),
            },
            FuseOperation::Interrupt { .. } => reply.nothing(),
            FuseOperation::DeviceControl { .. } => reply.error(Errno::NOTTY),
            // Each is requested once; then the kernel uses its own fallback.
            FuseOperation::Flush(_)
            | FuseOperation::Access { .. }
            | FuseOperation::Statx(_)
            | FuseOperation::BlockMap(_)
            | FuseOperation::Poll(_)
            | FuseOperation::TemporaryFile(_)
            | FuseOperation::SyncDirectory(_)
            | FuseOperation::SyncFilesystem
            | FuseOperation::SetXattr { .. }
            | FuseOperation::GetXattr { .. }
            | FuseOperation::ListXattr { .. }
            | FuseOperation::RemoveXattr { .. }
            | FuseOperation::Seek(_)
            | FuseOperation::CopyRange { .. }
            | FuseOperation::GetLock(_)
            | FuseOperation::SetLock { .. }
            | FuseOperation::ReadDirectoryPlus(_) => reply.error(Errno::NOSYS),
            FuseOperation::Init(_) | FuseOperation::Destroy => reply.error(Errno::IO),
        }
    }
}

fn entry(reply: FuseReply<'_>, result: Result<crate::abi::EntryOut, Errno>) -> Answered {
    match result {
        Ok(entry) => reply.entry(&entry),
        Err(errno) => reply.error(errno),
    }
}

fn attr(reply: FuseReply<'_>, result: Result<crate::abi::AttrOut, Errno>) -> Answered {
    match result {
        Ok(attr) => reply.attr(&attr),
        Err(errno) => reply.error(errno),
    }
}
