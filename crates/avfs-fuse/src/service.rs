//! Serves requests, whichever transport they came by.

use crate::abi::InitIn;
use crate::abi::flags::init;
use crate::reply::{Answered, FuseReply};
use crate::request::FuseRequest;

/// A server of requests.
pub trait FuseService: Send + Sync {
    /// Serves one request. Called from several threads at a time; requests that may take long are deferred
    /// with [`FuseReply::defer`]. A panic is answered with EIO and the mount lives on.
    ///
    /// A thread that is started here inherits the CPU binding of the request's thread, and possibly its idle
    /// priority, unless it is started by [`start_ordinary`](crate::transport::start_ordinary).
    fn serve(&self, request: &FuseRequest<'_>, reply: FuseReply<'_>) -> Answered;

    /// Selects the wanted capabilities among those that the kernel offers.
    fn init(&self, _kernel: &InitIn) -> u64 {
        WRITABLE
    }

    /// Whether another process may wait for a request although its own caller does not: closing a file ends
    /// locks.
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

/// The capabilities that every mount wants. Not WRITEBACK_CACHE: each write must be known when it returns.
/// Not AUTO_INVAL_DATA: changes of contents that the kernel did not make are notified. Not
/// EXPLICIT_INVAL_DATA either: without it the kernel drops its cached pages of a file when it learns of
/// another size, which may happen before the notification of the contents; with it, the kernel would show
/// zeros up to the new end. Not ATOMIC_O_TRUNC: opening a running program with O_RDONLY and O_TRUNC would
/// empty it before the kernel refuses.
///
/// With ASYNC_DIO, the kernel drops the pages that an asynchronous write with O_DIRECT covers when the write
/// begins, and not when it ends: a service that wants ASYNC_DIO must invalidate the pages that were read in
/// between.
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

/// A writable mount whose locks are shared with all other users of the same tree.
pub const WRITABLE: u64 = USUAL | init::POSIX_LOCKS | init::FLOCK_LOCKS;

/// A mount that shares its tree with no other: the kernel keeps locks itself and opens files without a
/// request.
pub const UNASKED: u64 = USUAL | init::NO_OPEN_SUPPORT | init::NO_OPENDIR_SUPPORT;
