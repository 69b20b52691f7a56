//! The link count of a directory: its own name, `.`, and `..` in each subdirectory.

use avfs_core::map;
use avfs_core::{Entry, EntryKind, Promise, Slot};

use crate::error::FsError;
use crate::inodes::Ino;
use crate::worktree::inode::InodeBody;
use crate::worktree::state::TreeState;

/// A directory with more stored entries is not counted. Its link count is then 1, which tells programs that
/// it was not counted.
const COUNTED: usize = 10_000;
const NOT_COUNTED: u32 = u32::MAX;

/// The link count that `stat` shows.
pub(crate) fn link_count(state: &mut TreeState, ino: Ino) -> Result<u32, FsError> {
    let inode = state.inode(ino)?;
    let InodeBody::Directory(directory) = &inode.body else {
        return Ok(inode.names);
    };
    let is_gone = inode.names == 0 && ino != Ino::ROOT;
    let count = match directory.directories {
        _ if is_gone => return Ok(0),
        Some(count) => count,
        None => {
            let count = count_directories(state, ino)?;
            state.directory_mut(ino)?.directories = Some(count);
            count
        }
    };
    Ok(if count >= NOT_COUNTED / 2 { 1 } else { 2 + count })
}

fn count_directories(state: &TreeState, ino: Ino) -> Result<u32, FsError> {
    // It may be promised, and a caller that reads attributes should not cause it to be listed.
    if state.directory(ino)?.below == Promise::BELOW && state.objects.may_promise() {
        return Ok(NOT_COUNTED / 2 + NOT_COUNTED / 4);
    }
    let directory = state.directory(ino)?;
    let mut count = 0;
    for name in directory.changed.union(&directory.settling) {
        if let Some(child) = directory.children.get(name) {
            count += u32::from(state.inode(*child)?.is_directory());
        }
    }
    let mut walk = map::walk_after(&state.objects, directory.base, None)?;
    let mut seen = 0;
    while let Some((name, slot)) = walk.advance()? {
        seen += 1;
        if seen > COUNTED {
            return Ok(NOT_COUNTED / 2 + NOT_COUNTED / 4);
        }
        let is_directory = matches!(
            slot,
            Slot::Own(Entry {
                kind: EntryKind::Directory { .. },
                ..
            })
        );
        count += u32::from(is_directory && !directory.is_overlaid(&name));
    }
    Ok(count)
}
