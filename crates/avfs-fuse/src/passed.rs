//! A directory of the host seen in part, live: what rules show is the host's own file, now and at every moment; every
//! other name is a private one that is nobody else's.
//!
//! A name whose level is above `none` is *shared*: it is looked for in the host's directory, and can be changed if its
//! level is `write`. A name in a cache of the host is *cached*: it can be read there, and changes go to a layer over it
//! (`caches.rs`). All other names are in a private directory beside it, where everything can be done. A directory on
//! the way to something shared or cached is private, and shows what is below it as well.
//!
//! The kernel caches nothing of what is shared: others change the host's files too. Of caches it does, for a moment:
//! tools make new files there instead of changing them. No link is ever followed here; a link that the
//! kernel reads, it follows in the mount namespace of whoever asks. Links and special files can be made in the private
//! part only: a link in the shared one would lead programs of the host astray.

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

use self::caches::Caches;
pub use self::caches::{Cache, CacheOptions, LAYER_FILES};
use self::files::Files;
use self::listing::Listings;
use self::nodes::Nodes;
use self::places::{Places, Standpoint};
use crate::abi::InitIn;
use crate::abi::flags::init;
use crate::reply::{Answered, Reply};
use crate::request::{Operation, Request};
use crate::service::{self, Service};
use crate::skin::OneOwner;

/// What is shown, and of what.
pub struct PassedOptions {
    /// The directory of the host.
    pub shared: OwnedFd,
    /// The directory with everything else.
    pub private: OwnedFd,
    pub rules: Rules,
    /// What is cached; `None`: nothing.
    pub caches: Option<CacheOptions>,
    /// Who our own files seem to belong to; `None`: to us.
    pub owner: Option<OneOwner>,
}

/// Serves a directory of the host, seen through rules.
pub struct Passed {
    places: Places,
    nodes: Mutex<Nodes>,
    files: Files,
    listings: Listings,
    owner: Option<OneOwner>,
}

impl Passed {
    /// Fails if the layer of its caches cannot be used.
    pub fn new(options: PassedOptions) -> std::io::Result<Passed> {
        let PassedOptions { shared, private, rules, caches, owner } = options;
        let caches = caches.map(Caches::new).transpose()?;
        Ok(Passed {
            places: Places::new(shared, private, rules, caches),
            nodes: Mutex::default(),
            files: Files::default(),
            listings: Listings::default(),
            owner,
        })
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a node is now.
    fn at(&self, node: u64) -> Result<Standpoint, Errno> {
        let names = self.nodes().names(node)?;
        Ok(self.places.standpoint(&names))
    }

    /// Where an entry of a directory is, or would be.
    fn child(&self, directory: u64, name: &[u8]) -> Result<Standpoint, Errno> {
        Ok(self.places.child(&self.at(directory)?, name))
    }
}

impl Service for Passed {
    /// The kernel drops what it has of a file that has another time or size than it knew, and takes privileges away that
    /// a written file gives. Locks are the kernel's own: they hold inside.
    fn init(&self, _kernel: &InitIn) -> u64 {
        let cached = init::DO_READDIRPLUS | init::READDIRPLUS_AUTO | init::CACHE_SYMLINKS;
        // Nothing here would drop the pages that are read during an asynchronous direct write.
        let unserved = init::HANDLE_KILLPRIV_V2 | init::ASYNC_DIO;
        (service::USUAL | init::AUTO_INVAL_DATA) & !(cached | unserved)
    }

    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        let node = request.nodeid;
        match request.operation {
            Operation::Lookup { name } => entry(reply, self.lookup(node, name)),
            Operation::Forget { lookups } => {
                self.nodes().forget(node, lookups);
                reply.nothing()
            }
            Operation::BatchForget { nodes } => {
                let mut known = self.nodes();
                nodes.iter().for_each(|one| known.forget(one.nodeid, one.nlookup));
                reply.nothing()
            }
            Operation::GetAttr(_) => attr(reply, self.get_attr(node)),
            Operation::SetAttr(set) => attr(reply, self.set_attr(node, &set)),
            Operation::ReadLink => match self.read_link(node) {
                Ok(target) => reply.bytes(&target),
                Err(errno) => reply.error(errno),
            },
            Operation::Symlink { name, target } => entry(reply, self.symlink(node, name, target)),
            Operation::MakeNode { node: made, name } => entry(reply, self.make_node(node, &made, name)),
            Operation::MakeDirectory { directory, name } => {
                entry(reply, self.make_directory(node, directory.mode & !directory.umask, name))
            }
            Operation::Unlink { name } => reply.done(self.unlink(node, name)),
            Operation::RemoveDirectory { name } => reply.done(self.remove_directory(node, name)),
            Operation::Rename { name, new_parent, new_name, flags } => {
                reply.done(self.rename((node, name), (new_parent, new_name), flags))
            }
            Operation::Link { node: old, name } => entry(reply, self.link(old, node, name)),
            Operation::Open(open) => match self.open(node, open.flags) {
                Ok((handle, flags)) => reply.open(handle, flags),
                Err(errno) => reply.error(errno),
            },
            Operation::Create { create, name } => match self.create(node, &create, name) {
                Ok((entry, handle)) => reply.create(&entry, handle, 0),
                Err(errno) => reply.error(errno),
            },
            Operation::Read(read) => self.read(&read, reply),
            Operation::Write { write, data } => match self.write(&write, data) {
                Ok(()) => reply.written(write.size),
                Err(errno) => reply.error(errno),
            },
            Operation::Sync(sync) => self.sync(sync.fh, reply),
            Operation::Release(release) => {
                self.files.close(release.fh);
                reply.ok()
            }
            Operation::Allocate(allocate) => reply.done(self.allocate(&allocate)),
            Operation::OpenDirectory(_) => match self.open_directory(node) {
                Ok(handle) => reply.open(handle, 0),
                Err(errno) => reply.error(errno),
            },
            Operation::ReadDirectory(read) => self.read_directory(&read, reply),
            Operation::ReleaseDirectory(release) => {
                self.listings.close(release.fh);
                reply.ok()
            }
            Operation::StatFilesystem => match self.stat_filesystem() {
                Ok(stat) => reply.statfs(&stat),
                Err(errno) => reply.error(errno),
            },
            Operation::Interrupt { .. } => reply.nothing(),
            Operation::DeviceControl { .. } => reply.error(Errno::NOTTY),
            // Each is asked for once; then the kernel does what it can by itself.
            Operation::Flush(_)
            | Operation::Access { .. }
            | Operation::Statx(_)
            | Operation::BlockMap(_)
            | Operation::Poll(_)
            | Operation::TemporaryFile(_)
            | Operation::SyncDirectory(_)
            | Operation::SyncFilesystem
            | Operation::SetXattr { .. }
            | Operation::GetXattr { .. }
            | Operation::ListXattr { .. }
            | Operation::RemoveXattr { .. }
            | Operation::Seek(_)
            | Operation::CopyRange { .. }
            | Operation::GetLock(_)
            | Operation::SetLock { .. }
            | Operation::ReadDirectoryPlus(_) => reply.error(Errno::NOSYS),
            Operation::Init(_) | Operation::Destroy => reply.error(Errno::IO),
        }
    }
}

fn entry(reply: Reply<'_>, result: Result<crate::abi::EntryOut, Errno>) -> Answered {
    match result {
        Ok(entry) => reply.entry(&entry),
        Err(errno) => reply.error(errno),
    }
}

fn attr(reply: Reply<'_>, result: Result<crate::abi::AttrOut, Errno>) -> Answered {
    match result {
        Ok(attr) => reply.attr(&attr),
        Err(errno) => reply.error(errno),
    }
}
