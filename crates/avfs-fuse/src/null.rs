//! An empty file system that serves requests at no cost: it measures the floor of a transport.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::flags::open_out;
use crate::abi::*;
use crate::reply::{Answered, FuseReply};
use crate::request::{FuseOperation, FuseRequest};
use crate::service::FuseService;

const DAY: u64 = 86_400;
const FILE: u64 = 2;
const DIRECTORY: u64 = 3;
/// Node ids of created files begin here.
const CREATED: u64 = 16;
/// The size of the fixed file.
pub const FILE_SIZE: u64 = 64 << 20;
/// How many entries the fixed directory lists.
pub const ENTRIES: u64 = 100;

/// A root with a file `file` of zeros and a directory `directory`. Created files are accepted and forgotten;
/// no other name exists.
#[derive(Default)]
pub struct NullFilesystem {
    created: AtomicU64,
    /// Whether the kernel may cache names and attributes.
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
        let valid = self.valid();
        let attr = self.attr(node);
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

    fn lookup(&self, parent: u64, name: &[u8], reply: FuseReply<'_>) -> Answered {
        match (parent, name) {
            (ROOT_ID, b"file") => reply.entry(&self.entry(FILE)),
            (ROOT_ID, b"directory") => reply.entry(&self.entry(DIRECTORY)),
            (_, b"panic") => panic!("asked for"),
            _ => reply.error(rustix::io::Errno::NOENT),
        }
    }
}

impl FuseService for NullFilesystem {
    fn serve(&self, request: &FuseRequest<'_>, reply: FuseReply<'_>) -> Answered {
        match request.operation {
            FuseOperation::Lookup { name } => self.lookup(request.nodeid, name, reply),
            FuseOperation::GetAttr(_) | FuseOperation::SetAttr(_) => {
                let attr_valid = self.valid();
                let attr = self.attr(request.nodeid);
                reply.attr(&AttrOut {
                    attr_valid,
                    attr_valid_nsec: 0,
                    dummy: 0,
                    attr,
                })
            }
            FuseOperation::Create { .. } => reply.create(&self.create(), 0, open_out::KEEP_CACHE),
            FuseOperation::Open(_) => reply.open(0, open_out::KEEP_CACHE),
            FuseOperation::OpenDirectory(_) => reply.open(0, 0),
            FuseOperation::Read(read) => read_zeros(request.nodeid, &read, reply),
            FuseOperation::Write { write, .. } => reply.written(write.size),
            FuseOperation::ReadDirectory(read) | FuseOperation::ReadDirectoryPlus(read) => {
                reply.directory(read.size as usize, |listing| {
                    let end = if request.nodeid == DIRECTORY { ENTRIES } else { 0 };
                    let mut name = Vec::new();
                    for cookie in read.offset + 1..=end {
                        name.clear();
                        name.extend_from_slice(format!("entry {cookie}").as_bytes());
                        let fits = match request.operation {
                            FuseOperation::ReadDirectory(_) => listing.add(cookie, cookie, 8, &name),
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
            FuseOperation::Unlink { .. }
            | FuseOperation::Flush(_)
            | FuseOperation::Release(_)
            | FuseOperation::ReleaseDirectory(_)
            | FuseOperation::Access { .. } => reply.ok(),
            FuseOperation::Forget { .. }
            | FuseOperation::BatchForget { .. }
            | FuseOperation::Interrupt { .. } => reply.nothing(),
            _ => reply.error(rustix::io::Errno::NOSYS),
        }
    }
}

fn read_zeros(node: u64, read: &ReadIn, reply: FuseReply<'_>) -> Answered {
    let size = if node == FILE { FILE_SIZE } else { 0 };
    let len = size.saturating_sub(read.offset).min(u64::from(read.size)) as usize;
    // The buffer holds what was sent before; a real file system fills it too.
    reply.read(len, |buffer| {
        buffer.fill(0);
        Ok(len)
    })
}
