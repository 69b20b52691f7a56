//! Open files: each is one of the host's own.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::abi::{FallocateIn, ReadIn, WriteIn};
use crate::reply::{Answered, FuseReply};
use crate::transport::start_ordinary;

struct PassedFile {
    node: u64,
    file: Arc<OwnedFd>,
    is_writing: bool,
}

#[derive(Default)]
struct OpenFiles {
    by_handle: HashMap<u64, PassedFile>,
    of_node: HashMap<u64, Vec<u64>>,
}

#[derive(Default)]
pub(super) struct PassedFiles {
    open: Mutex<OpenFiles>,
    next: AtomicU64,
}

impl PassedFiles {
    fn open(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, node: u64, file: OwnedFd, is_writing: bool) -> u64 {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open();
        open.by_handle.insert(
            handle,
            PassedFile {
                node,
                file: Arc::new(file),
                is_writing,
            },
        );
        open.of_node.entry(node).or_default().push(handle);
        handle
    }

    pub(super) fn close(&self, handle: u64) {
        let mut open = self.open();
        let Some(PassedFile { node, .. }) = open.by_handle.remove(&handle) else {
            return;
        };
        if let Some(handles) = open.of_node.get_mut(&node) {
            handles.retain(|other| *other != handle);
            if handles.is_empty() {
                open.of_node.remove(&node);
            }
        }
    }

    fn file(&self, handle: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.open()
            .by_handle
            .get(&handle)
            .map(|open| open.file.clone())
            .ok_or(Errno::BADF)
    }

    pub(super) fn writable(&self, handle: u64) -> Option<Arc<OwnedFd>> {
        self.open()
            .by_handle
            .get(&handle)
            .filter(|open| open.is_writing)
            .map(|open| open.file.clone())
    }

    /// An open file of a node, opened by any program.
    pub(super) fn open_as(&self, node: u64) -> Option<Arc<OwnedFd>> {
        let open = self.open();
        let handle = open.of_node.get(&node)?.first()?;
        open.by_handle.get(handle).map(|open| open.file.clone())
    }

    /// Programs that have a node open use another open file from now on.
    pub(super) fn replace(
        &self,
        node: u64,
        another: impl Fn() -> Result<OwnedFd, Errno>,
    ) -> Result<(), Errno> {
        let mut open = self.open();
        let handles = open.of_node.get(&node).cloned().unwrap_or_default();
        for handle in handles {
            if let Some(open) = open.by_handle.get_mut(&handle) {
                open.file = Arc::new(another()?);
            }
        }
        Ok(())
    }
}

/// Operations on an open file, by its handle.
impl PassedFiles {
    pub(super) fn read(&self, read: &ReadIn, reply: FuseReply<'_>) -> Answered {
        let file = match self.file(read.fh) {
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

    /// A file that was opened for appending appends, wherever the kernel believes its end to be.
    pub(super) fn write(&self, write: &WriteIn, data: &[u8]) -> Result<(), Errno> {
        let file = self.file(write.fh)?;
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

    /// On a separate thread: other requests are served meanwhile.
    pub(super) fn sync(&self, handle: u64, reply: FuseReply<'_>) -> Answered {
        let file = match self.file(handle) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        let (answered, reply) = reply.defer();
        // Without a thread the reply is dropped, which answers it with EIO.
        let _ = start_ordinary("fuse-sync", move || {
            let _ = reply.done(rustix::fs::fsync(&*file));
        });
        answered
    }

    pub(super) fn allocate(&self, allocate: &FallocateIn) -> Result<(), Errno> {
        let file = self.writable(allocate.fh).ok_or(Errno::BADF)?;
        let mode = FallocateFlags::from_bits(allocate.mode).ok_or(Errno::OPNOTSUPP)?;
        rustix::fs::fallocate(&*file, mode, allocate.offset, allocate.length)
    }
}
