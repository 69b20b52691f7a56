//! Allocates space for the file that all connections to a database share (`store.db-shm`), which SQLite maps
//! into memory.
//!
//! SQLite extends that file by writing one byte in each 4096. If the blocks of a file system are smaller,
//! that leaves holes, and on a full disk the first store into a hole kills the process (SIGBUS). So every
//! part that SQLite is about to map for writing is allocated first: then a full disk is an error.
//!
//! SQLite truncates the file whenever no other process has the database open, and extends it in the same call
//! that maps it. The only point in between is the system call itself, which SQLite allows to be replaced.

#![allow(unsafe_code, reason = "SQLite is given another mmap")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use rusqlite::ffi::{SQLITE_OK, sqlite3_initialize, sqlite3_syscall_ptr, sqlite3_vfs_find};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

type Mmap = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;

/// The same on all Linux architectures.
const PROT_WRITE: c_int = 2;
const MAP_FAILED: isize = -1;

/// SQLite's original call, once it has been replaced.
static ORIGINAL: OnceLock<Option<Mmap>> = OnceLock::new();

thread_local! {
    /// Whether the last mapping of this thread failed for lack of space.
    static WAS_FULL: Cell<bool> = const { Cell::new(false) };
}

/// From now on, maps files only after their space has been allocated, in the whole process. Must be called
/// before a database is opened.
pub(crate) fn take_room_before_mapping() {
    // If the call cannot be replaced, SQLite works as it always has.
    ORIGINAL.get_or_init(replace);
}

/// Whether the last mapping of this thread failed for lack of space.
pub(crate) fn was_full() -> bool {
    WAS_FULL.get()
}

fn replace() -> Option<Mmap> {
    // SAFETY: the VFS that is found lives as long as the process, and its system calls are looked up through
    // its own functions. The result is either SQLite's `mmap`, which has this type, or nothing.
    unsafe {
        if sqlite3_initialize() != SQLITE_OK {
            return None;
        }
        let vfs = sqlite3_vfs_find(std::ptr::null());
        let (get, set) = (vfs.as_ref()?.xGetSystemCall?, vfs.as_ref()?.xSetSystemCall?);
        let original = std::mem::transmute::<sqlite3_syscall_ptr, Option<Mmap>>(get(vfs, c"mmap".as_ptr()))?;
        let ours = std::mem::transmute::<Mmap, sqlite3_syscall_ptr>(mmap);
        // Stored before our replacement can be called.
        (set(vfs, c"mmap".as_ptr(), ours) == SQLITE_OK).then_some(original)
    }
}

unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    WAS_FULL.set(false);
    if protection & PROT_WRITE != 0 && !has_room(file, offset, length) {
        WAS_FULL.set(true);
        return std::ptr::without_provenance_mut(MAP_FAILED as usize);
    }
    // Another thread can call this before `replace` has returned.
    match ORIGINAL.wait() {
        // SAFETY: these are the arguments that SQLite passed to this call.
        Some(original) => unsafe { original(address, length, protection, flags, file, offset) },
        None => std::ptr::without_provenance_mut(MAP_FAILED as usize),
    }
}

/// Allocates the space of a part of a file. If the file system does not support that, the space is assumed to
/// be available.
fn has_room(file: c_int, offset: i64, length: usize) -> bool {
    let Ok(offset) = u64::try_from(offset) else {
        return true;
    };
    if file < 0 {
        return true;
    }
    // SAFETY: SQLite has the file open during this call.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    let taken = rustix::fs::fallocate(file, FallocateFlags::empty(), offset, length as u64);
    // Other failures mean that the file system cannot allocate, and then it is tried without.
    !matches!(taken, Err(Errno::NOSPC | Errno::DQUOT))
}
