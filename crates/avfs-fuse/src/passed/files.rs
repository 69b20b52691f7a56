//! Open files: each is one of the host's own.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::Passed;
use crate::abi::{FallocateIn, ReadIn, WriteIn};
use crate::reply::{Answered, Reply};
use crate::transport::run_anywhere;

struct Open {
    node: u64,
    file: Arc<OwnedFd>,
    is_writing: bool,
}

#[derive(Default)]
pub(super) struct Files {
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
}

impl Files {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, node: u64, file: OwnedFd, is_writing: bool) -> u64 {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.open().insert(handle, Open { node, file: Arc::new(file), is_writing });
        handle
    }

    pub(super) fn close(&self, handle: u64) {
        self.open().remove(&handle);
    }

    fn file(&self, handle: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.open().get(&handle).map(|open| open.file.clone()).ok_or(Errno::BADF)
    }

    pub(super) fn writable(&self, handle: u64) -> Option<Arc<OwnedFd>> {
        self.open().get(&handle).filter(|open| open.is_writing).map(|open| open.file.clone())
    }

    /// Somebody's open file of a node.
    pub(super) fn open_as(&self, node: u64) -> Option<Arc<OwnedFd>> {
        self.open().values().find(|open| open.node == node).map(|open| open.file.clone())
    }
}

impl Passed {
    pub(super) fn read(&self, read: &ReadIn, reply: Reply<'_>) -> Answered {
        let file = match self.files.file(read.fh) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        reply.read(read.size as usize, |buffer| {
            let mut filled = 0;
            while filled < buffer.len() {
                let offset = read.offset + filled as u64;
                match rustix::io::pread(&*file, &mut buffer[filled..], offset) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Ok(filled)
        })
    }

    /// A file that was opened to append appends, wherever the kernel believes its end to be.
    pub(super) fn write(&self, write: &WriteIn, data: &[u8]) -> Result<(), Errno> {
        let file = self.files.file(write.fh)?;
        let mut written = 0;
        while written < data.len() {
            match rustix::io::pwrite(&*file, &data[written..], write.offset + written as u64) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// On a thread of its own: others are served meanwhile.
    pub(super) fn sync(&self, handle: u64, reply: Reply<'_>) -> Answered {
        let file = match self.files.file(handle) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        let (answered, reply) = reply.defer();
        let thread = std::thread::Builder::new().name("fuse-sync".into());
        // Without a thread the reply is dropped, which answers it with EIO.
        let _ = thread.spawn(move || {
            let _ = run_anywhere();
            let _ = reply.done(rustix::fs::fsync(&*file));
        });
        answered
    }

    pub(super) fn allocate(&self, allocate: &FallocateIn) -> Result<(), Errno> {
        let file = self.files.writable(allocate.fh).ok_or(Errno::BADF)?;
        let mode = FallocateFlags::from_bits(allocate.mode).ok_or(Errno::OPNOTSUPP)?;
        rustix::fs::fallocate(&*file, mode, allocate.offset, allocate.length)
    }
}
