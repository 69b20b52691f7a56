//! Arguments of requests.

use super::{FileLock, kernel_structures};

kernel_structures! {
    ForgetIn { nlookup: u64, }
    ForgetOne { nodeid: u64, nlookup: u64, }
    BatchForgetIn { count: u32, dummy: u32, }
    GetattrIn { getattr_flags: u32, dummy: u32, fh: u64, }
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32, }
    MkdirIn { mode: u32, umask: u32, }
    RenameIn { newdir: u64, }
    Rename2In { newdir: u64, flags: u32, padding: u32, }
    LinkIn { oldnodeid: u64, }

    SetattrIn {
        /// Which fields are valid: `FATTR_…`.
        valid: u32,
        padding: u32,
        fh: u64,
        size: u64,
        lock_owner: u64,
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        unused4: u32,
        uid: u32,
        gid: u32,
        unused5: u32,
    }

    OpenIn {
        /// Of `open(2)`.
        flags: u32,
        /// `FUSE_OPEN_…`.
        open_flags: u32,
    }

    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64, }
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64, }

    /// Also for a directory, where `offset` is the cookie after which to continue.
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32, }

    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32, }

    /// The form of kernels before 7.33, and the beginning of the later form.
    SetxattrIn { size: u32, flags: u32, }
    GetxattrIn { size: u32, padding: u32, }
    LkIn { fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32, }
    AccessIn { mask: u32, padding: u32, }

    InitIn {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        /// Bits 32 to 63 of the flags.
        flags2: u32,
        unused: [u32; 11],
    }

    InterruptIn { unique: u64, }
    BmapIn { block: u64, blocksize: u32, padding: u32, }
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, }
    PollIn { fh: u64, kh: u64, flags: u32, events: u32, }
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, }
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32, }

    CopyFileRangeIn {
        fh_in: u64,
        off_in: u64,
        nodeid_out: u64,
        fh_out: u64,
        off_out: u64,
        len: u64,
        flags: u64,
    }

    SyncfsIn { padding: u64, }
    StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32, }
}

impl InitIn {
    /// The lengths of older forms: without the fields from `flags2` on.
    pub const SHORT: usize = 16;

    /// All 64 flags that the kernel offers.
    pub fn offered(&self) -> u64 {
        u64::from(self.flags) | u64::from(self.flags2) << 32
    }
}
