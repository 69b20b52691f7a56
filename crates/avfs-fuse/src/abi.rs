//! The protocol of the kernel as declared in its header `linux/fuse.h`, version 7.45: little more than
//! numbers.
//!
//! Structures are read and written by value through `zerocopy`, so neither the alignment of a buffer nor its
//! length matters.

pub mod flags;
mod input;
mod opcode;
mod output;
pub mod uring;

pub use input::*;
pub use opcode::Opcode;
pub use output::*;

/// The protocol version of these structures.
pub const MAJOR: u32 = 7;
pub const MINOR: u32 = 45;
/// The oldest minor version that is served (Linux 5.4).
pub const MINOR_OLDEST: u32 = 31;
/// The node id of the root.
pub const ROOT_ID: u64 = 1;
/// The minimum size of a buffer for requests.
pub const MIN_READ_BUFFER: usize = 8192;

/// A structure of the kernel: plain numbers without padding, readable from any bytes.
macro_rules! kernel_structures {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable)]
        #[repr(C)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind,)* }
    )*};
}
use kernel_structures;

kernel_structures! {
    /// The header of every request.
    InHeader {
        len: u32,
        opcode: u32,
        unique: u64,
        nodeid: u64,
        uid: u32,
        gid: u32,
        pid: u32,
        /// The length of extensions after the arguments, in units of eight bytes.
        total_extlen: u16,
        padding: u16,
    }

    /// The header of every answer and every notification.
    OutHeader {
        len: u32,
        /// Zero or a negative errno; in a notification its code.
        error: i32,
        unique: u64,
    }

    /// The attributes that `stat` shows.
    Attr {
        ino: u64,
        size: u64,
        /// In units of 512 bytes.
        blocks: u64,
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        nlink: u32,
        uid: u32,
        gid: u32,
        rdev: u32,
        blksize: u32,
        flags: u32,
    }

    /// A lock on a range of a file, both ends included.
    FileLock {
        start: u64,
        end: u64,
        kind: u32,
        pid: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_kernel() {
        let sizes = [
            (size_of::<InHeader>(), 40),
            (size_of::<OutHeader>(), 16),
            (size_of::<Attr>(), 88),
            (size_of::<InitIn>(), 64),
            (size_of::<InitOut>(), 64),
            (size_of::<EntryOut>(), 128),
            (size_of::<AttrOut>(), 104),
            (size_of::<SetattrIn>(), 88),
            (size_of::<WriteIn>(), 40),
            (size_of::<ReadIn>(), 40),
            (size_of::<LkIn>(), 48),
            (size_of::<CopyFileRangeIn>(), 56),
            (size_of::<StatfsOut>(), 80),
            (size_of::<StatxOut>(), 288),
            (size_of::<Dirent>(), 24),
        ];
        for (ours, kernel) in sizes {
            assert_eq!(ours, kernel);
        }
    }
}
