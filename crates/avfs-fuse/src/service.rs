//! What serves requests, whatever transport they came by.

use crate::abi::InitIn;
use crate::abi::flags::init;
use crate::reply::{Answered, Reply};
use crate::request::Request;

pub trait Service: Send + Sync {
    /// Serves one request. Called from several threads at a time; what may take long is put off with
    /// [`Reply::defer`]. A panic is answered with EIO and the mount lives on.
    ///
    /// A thread that is started here is bound to the CPU of the request, and may come last, unless it is started by
    /// [`start_ordinary`](crate::transport::start_ordinary).
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered;

    /// Which capabilities are wanted of those that the kernel offers.
    fn init(&self, _kernel: &InitIn) -> u64 {
        WRITABLE
    }

    /// Whether somebody may wait for a request for which its own caller does not wait: closing a file ends locks.
    fn must_be_prompt(&self) -> bool {
        false
    }

    /// The node of a file that the kernel probably knows.
    fn known_file(&self) -> Option<u64> {
        None
    }

    /// The mount is gone; called once, after the last request.
    fn destroy(&self) {}
}

/// What every mount wants. Not WRITEBACK_CACHE: each write is to be known when it returns. Not
/// AUTO_INVAL_DATA: whoever changes contents behind the kernel says so. Not EXPLICIT_INVAL_DATA either: without
/// it the kernel drops what it has of a file when it learns of another size, which it may do before it is told
/// of the contents; it would show zeros up to the new end. Not ATOMIC_O_TRUNC: opening a running program with
/// O_RDONLY and O_TRUNC would empty it before the kernel refuses.
///
/// With ASYNC_DIO, the kernel drops the pages that an asynchronous write with O_DIRECT covers when the write begins, and
/// not when it ends: a service that asks for it invalidates the pages that were read in between.
pub const USUAL: u64 = init::ASYNC_READ
    | init::BIG_WRITES
    | init::PARALLEL_DIROPS
    | init::MAX_PAGES
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::CACHE_SYMLINKS
    | init::HANDLE_KILLPRIV_V2
    | init::HAS_EXPIRE_ONLY
    | init::INIT_EXT
    | init::ASYNC_DIO;

/// A mount that can be written to, whose locks hold for all that use the same tree.
pub const WRITABLE: u64 = USUAL | init::POSIX_LOCKS | init::FLOCK_LOCKS;

/// A mount that agrees with no other: the kernel keeps locks itself and opens without asking.
pub const UNASKED: u64 = USUAL | init::NO_OPEN_SUPPORT | init::NO_OPENDIR_SUPPORT;
