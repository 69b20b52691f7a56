//! What the working tree does not offer yet, done as well as it can be from outside.

use avfs_tree::{At, Attr, FsError, Ino, WorkTree};
use rustix::io::Errno;

use super::error::SkinError;

/// A file that never has a name cannot be made. This answer makes the kernel never ask again.
pub(super) const TEMPORARY_FILE: Errno = Errno::NOSYS;

/// In units of 512 bytes; holes count as if they were none.
pub(super) fn blocks(attr: &Attr) -> u64 {
    attr.size.div_ceil(512)
}

/// Copies a part of what was asked for; the caller comes back for more.
pub(super) fn copy_range(
    tree: &WorkTree,
    (from, from_offset): (At, u64),
    (to, to_offset): (At, u64),
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
