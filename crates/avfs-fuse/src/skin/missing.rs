//! What the working tree does not offer yet, done as well as it can be from outside.

use avfs_core::Timestamp;
use avfs_tree::{Attr, FsError, Ino, WorkTree};
use rustix::io::Errno;

use super::error::SkinError;
use crate::abi::FallocateIn;

/// Which locks are asked of us; without any the kernel keeps those of this mount itself.
pub(super) const LOCKS: u64 = 0;

/// Closing matters only to locks. This answer makes the kernel never ask again.
pub(super) const FLUSH: Errno = Errno::NOSYS;

/// A file that never has a name cannot be made. This answer makes the kernel never ask again.
pub(super) const TEMPORARY_FILE: Errno = Errno::NOSYS;

/// Of `fallocate(2)`: a hole in a file whose size stays.
const PUNCH_HOLE: u32 = 0x01 | 0x02;

pub(super) fn atime(attr: &Attr) -> Timestamp {
    attr.meta.mtime
}

/// In units of 512 bytes; holes count as if they were none.
pub(super) fn blocks(attr: &Attr) -> u64 {
    attr.size.div_ceil(512)
}

/// One mount cannot append twice at the same time, because the kernel holds the inode; another door could.
pub(super) fn append(tree: &WorkTree, ino: Ino, data: &[u8]) -> Result<(), FsError> {
    tree.write(ino, tree.attr(ino)?.size, data)
}

pub(super) fn allocate(tree: &WorkTree, ino: Ino, range: &FallocateIn) -> Result<(), SkinError> {
    match range.mode {
        PUNCH_HOLE => {
            let size = tree.attr(ino)?.size;
            let end = range.offset.checked_add(range.length).ok_or(FsError::TooLarge)?.min(size);
            match end.checked_sub(range.offset) {
                Some(len) if len > 0 => Ok(tree.punch_hole(ino, range.offset, len)?),
                _ => Ok(()),
            }
        }
        _ => Err(Errno::OPNOTSUPP.into()),
    }
}

/// Copies a part of what was asked for; the caller comes back for more.
pub(super) fn copy_range(
    tree: &WorkTree,
    (from, from_offset): (Ino, u64),
    (to, to_offset): (Ino, u64),
    len: u64,
) -> Result<u64, SkinError> {
    const AT_ONCE: u64 = 1 << 20;
    let mut buffer = vec![0; len.min(AT_ONCE) as usize];
    let read = tree.read(from, from_offset, &mut buffer)?;
    tree.write(to, to_offset, &buffer[..read])?;
    Ok(read as u64)
}

/// The directory that a directory lies in; the root lies in itself.
pub(super) fn parent(tree: &WorkTree, directory: Ino) -> Result<Ino, FsError> {
    match tree.path(directory)?.and_then(|path| path.split_last()) {
        Some((parent, _)) => Ok(tree.resolve(&parent)?.ino),
        None => Ok(directory),
    }
}

/// Names of extended attributes, each with a NUL byte behind it.
pub(super) fn list_xattrs(tree: &WorkTree, ino: Ino) -> Result<Vec<u8>, FsError> {
    let meta = tree.attr(ino)?.meta;
    Ok(meta.xattrs.iter().flat_map(|(name, _)| name.iter().copied().chain([0])).collect())
}
