//! A file system of nothing: what a request costs when serving it costs nothing. The floor of a transport.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::flags::open_out;
use crate::abi::*;
use crate::reply::{Answered, Reply};
use crate::request::{Operation, Request};
use crate::service::Service;

const DAY: u64 = 86_400;
const FILE: u64 = 2;
const DIRECTORY: u64 = 3;
/// Node ids of created files begin here.
const CREATED: u64 = 16;
/// The size of the fixed file.
pub const FILE_SIZE: u64 = 64 << 20;
/// How many entries the fixed directory lists.
pub const ENTRIES: u64 = 100;

/// A root with a file `file` of zeros and a directory `directory`. What is created is accepted and
/// forgotten; no other name exists.
#[derive(Default)]
pub struct NullFilesystem {
    created: AtomicU64,
    /// Whether the kernel may remember names and attributes.
    pub cached: bool,
}

impl NullFilesystem {
    fn attr(&self, node: u64) -> Attr {
        let (mode, size) = match node {
            ROOT_ID | DIRECTORY => (0o40755, 0),
            FILE => (0o100644, FILE_SIZE),
            _ => (0o100644, 0),
        };
        Attr {
            ino: node,
            size,
            blocks: size / 512,
            atime: 0,
            mtime: 0,
            ctime: 0,
            atimensec: 0,
            mtimensec: 0,
            ctimensec: 0,
            mode,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn valid(&self) -> u64 {
        if self.cached { DAY } else { 0 }
    }

    fn entry(&self, node: u64) -> EntryOut {
        let (valid, attr) = (self.valid(), self.attr(node));
        EntryOut {
            nodeid: node,
            generation: 0,
            entry_valid: valid,
            attr_valid: valid,
            entry_valid_nsec: 0,
            attr_valid_nsec: 0,
            attr,
        }
    }

    fn create(&self) -> EntryOut {
        self.entry(CREATED + self.created.fetch_add(1, Ordering::Relaxed))
    }

    fn lookup(&self, parent: u64, name: &[u8], reply: Reply<'_>) -> Answered {
        match (parent, name) {
            (ROOT_ID, b"file") => reply.entry(&self.entry(FILE)),
            (ROOT_ID, b"directory") => reply.entry(&self.entry(DIRECTORY)),
            (_, b"panic") => panic!("asked for"),
            _ => reply.error(rustix::io::Errno::NOENT),
        }
    }
}

impl Service for NullFilesystem {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        match request.operation {
            Operation::Lookup { name } => self.lookup(request.nodeid, name, reply),
            Operation::GetAttr(_) | Operation::SetAttr(_) => {
                let (attr_valid, attr) = (self.valid(), self.attr(request.nodeid));
                reply.attr(&AttrOut { attr_valid, attr_valid_nsec: 0, dummy: 0, attr })
            }
            Operation::Create { .. } => reply.create(&self.create(), 0, open_out::KEEP_CACHE),
            Operation::Open(_) => reply.open(0, open_out::KEEP_CACHE),
            Operation::OpenDirectory(_) => reply.open(0, 0),
            Operation::Read(read) => read_zeros(request.nodeid, &read, reply),
            Operation::Write { write, .. } => reply.written(write.size),
            Operation::ReadDirectory(read) | Operation::ReadDirectoryPlus(read) => {
                reply.directory(read.size as usize, |listing| {
                    let end = if request.nodeid == DIRECTORY { ENTRIES } else { 0 };
                    let mut name = Vec::new();
                    for cookie in read.offset + 1..=end {
                        name.clear();
                        name.extend_from_slice(format!("entry {cookie}").as_bytes());
                        let fits = match request.operation {
                            Operation::ReadDirectory(_) => listing.add(cookie, cookie, 8, &name),
                            _ => {
                                listing.has_room_plus(&name)
                                    && listing.add_plus(cookie, cookie, 8, &name, &self.create())
                            }
                        };
                        if !fits {
                            break;
                        }
                    }
                    Ok(())
                })
            }
            Operation::Unlink { .. }
            | Operation::Flush(_)
            | Operation::Release(_)
            | Operation::ReleaseDirectory(_)
            | Operation::Access { .. } => reply.ok(),
            Operation::Forget { .. } | Operation::BatchForget { .. } | Operation::Interrupt { .. } => {
                reply.nothing()
            }
            _ => reply.error(rustix::io::Errno::NOSYS),
        }
    }
}

fn read_zeros(node: u64, read: &ReadIn, reply: Reply<'_>) -> Answered {
    let size = if node == FILE { FILE_SIZE } else { 0 };
    let len = size.saturating_sub(read.offset).min(u64::from(read.size)) as usize;
    // The buffer holds what was sent before; filling it is what a real file system does too.
    reply.read(len, |buffer| {
        buffer.fill(0);
        Ok(len)
    })
}
