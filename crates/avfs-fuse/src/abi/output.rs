//! Results in answers, and notifications.

use super::{Attr, FileLock, kernel_structures};

kernel_structures! {
    EntryOut {
        nodeid: u64,
        generation: u64,
        /// How many seconds the name may be cached.
        entry_valid: u64,
        /// How many seconds the attributes may be cached.
        attr_valid: u64,
        entry_valid_nsec: u32,
        attr_valid_nsec: u32,
        attr: Attr,
    }

    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr, }
    OpenOut { fh: u64, open_flags: u32, backing_id: i32, }
    WriteOut { size: u32, padding: u32, }

    StatfsOut {
        blocks: u64,
        bfree: u64,
        bavail: u64,
        files: u64,
        ffree: u64,
        bsize: u32,
        namelen: u32,
        frsize: u32,
        padding: u32,
        spare: [u32; 6],
    }

    GetxattrOut { size: u32, padding: u32, }
    LkOut { lk: FileLock, }

    InitOut {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        max_background: u16,
        congestion_threshold: u16,
        max_write: u32,
        /// The granularity of times, in nanoseconds.
        time_gran: u32,
        max_pages: u16,
        map_alignment: u16,
        flags2: u32,
        max_stack_depth: u32,
        request_timeout: u16,
        unused: [u16; 11],
    }

    LseekOut { offset: u64, }
    CopyFileRangeOut { bytes_copied: u64, }
    PollOut { revents: u32, padding: u32, }
    StatxTime { tv_sec: i64, tv_nsec: u32, reserved: i32, }

    Statx {
        mask: u32,
        blksize: u32,
        attributes: u64,
        nlink: u32,
        uid: u32,
        gid: u32,
        mode: u16,
        spare0: u16,
        ino: u64,
        size: u64,
        blocks: u64,
        attributes_mask: u64,
        atime: StatxTime,
        btime: StatxTime,
        ctime: StatxTime,
        mtime: StatxTime,
        rdev_major: u32,
        rdev_minor: u32,
        dev_major: u32,
        dev_minor: u32,
        spare2: [u64; 14],
    }

    StatxOut { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx, }

    /// An entry of a directory; its name follows, padded to eight bytes.
    Dirent {
        ino: u64,
        /// The cookie after which reading continues.
        off: u64,
        namelen: u32,
        kind: u32,
    }

    InvalInodeOut { ino: u64, off: i64, len: i64, }
    InvalEntryOut { parent: u64, namelen: u32, flags: u32, }
    StoreOut { nodeid: u64, offset: u64, size: u32, padding: u32, }
    RetrieveOut {
        /// The number of the request that brings the contents.
        notify_unique: u64,
        nodeid: u64,
        offset: u64,
        size: u32,
        padding: u32,
    }

    DeleteOut { parent: u64, child: u64, namelen: u32, padding: u32, }
}

/// The codes of notifications, in the place where an answer has its errno.
pub mod notification {
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    pub const STORE: i32 = 4;
    pub const RETRIEVE: i32 = 5;
    pub const DELETE: i32 = 6;
    pub const RESEND: i32 = 7;
    pub const INC_EPOCH: i32 = 8;
}
