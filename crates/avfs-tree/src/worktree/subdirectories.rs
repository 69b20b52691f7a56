//! How many names a directory has: its own, `.`, and `..` in each directory below it.

use avfs_core::map;
use avfs_core::{Entry, EntryKind, Promise, Slot};

use crate::error::FsError;
use crate::inodes::Ino;
use crate::worktree::inode::Body;
use crate::worktree::state::State;

/// A directory with more stored entries is not counted. It has one name then, which tells programs that it
/// was not.
const COUNTED: usize = 10_000;
const NOT_COUNTED: u32 = u32::MAX;

impl State {
    /// The link count that `stat` shows.
    pub fn link_count(&mut self, ino: Ino) -> Result<u32, FsError> {
        let inode = self.inode(ino)?;
        let Body::Directory(directory) = &inode.body else { return Ok(inode.names) };
        let is_gone = inode.names == 0 && ino != Ino::ROOT;
        let count = match directory.directories {
            _ if is_gone => return Ok(0),
            Some(count) => count,
            None => {
                let count = self.count_directories(ino)?;
                self.directory_mut(ino)?.directories = Some(count);
                count
            }
        };
        Ok(if count >= NOT_COUNTED / 2 { 1 } else { 2 + count })
    }

    fn count_directories(&self, ino: Ino) -> Result<u32, FsError> {
        // It may be promised, and whoever asks for attributes does not want it listed.
        if self.directory(ino)?.below == Promise::BELOW && self.objects.may_promise() {
            return Ok(NOT_COUNTED / 2 + NOT_COUNTED / 4);
        }
        let directory = self.directory(ino)?;
        let mut count = 0;
        for name in directory.changed.union(&directory.settling) {
            if let Some(child) = directory.children.get(name) {
                count += u32::from(self.inode(*child)?.is_directory());
            }
        }
        let mut walk = map::walk_after(&self.objects, directory.base, None)?;
        let mut seen = 0;
        while let Some((name, slot)) = walk.advance()? {
            seen += 1;
            if seen > COUNTED {
                return Ok(NOT_COUNTED / 2 + NOT_COUNTED / 4);
            }
            let is_directory = matches!(slot, Slot::Own(Entry { kind: EntryKind::Directory { .. }, .. }));
            count += u32::from(is_directory && !directory.is_overlaid(&name));
        }
        Ok(count)
    }
}
