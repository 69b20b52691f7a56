//! Letting go of inodes that can be loaded again: memory holds what is in use or changed, not what was seen.

use crate::error::FsError;
use crate::inodes::Ino;
use crate::worktree::inode::Body;
use crate::worktree::state::State;

impl State {
    /// Gives holds back. What nobody needs in memory any more leaves it.
    pub fn release(&mut self, ino: Ino, count: u32) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        inode.holds = inode.holds.saturating_sub(count);
        inode.forgotten = inode.holds == 0;
        self.drop_if_unused(ino)?;
        self.evict(ino);
        Ok(())
    }

    /// Lets go of an inode, and of the directories above it that were loaded for its sake, if the store can
    /// bring them back as they are.
    pub fn evict(&mut self, ino: Ino) {
        let mut current = ino;
        while self.is_evictable(current) {
            let Some(inode) = self.inodes.remove(&current) else { return };
            let Some(place) = inode.place else { return };
            if let Ok(parent) = self.directory_mut(place.parent) {
                parent.children.remove(&place.name);
            }
            current = place.parent;
        }
    }

    fn is_evictable(&self, ino: Ino) -> bool {
        let Some(inode) = self.inodes.get(&ino) else { return false };
        // A linked file may be a child in several directories, and nobody knows in which.
        if !inode.forgotten || inode.dirty || inode.linked || inode.names == 0 || inode.incarnation > 0 {
            return false;
        }
        if let Body::Directory(directory) = &inode.body
            && !(directory.children.is_empty()
                && directory.changed.is_empty()
                && directory.settling.is_empty())
        {
            return false;
        }
        let Some(place) = &inode.place else { return false };
        let overlaid = self.directory(place.parent).map(|above| above.is_overlaid(place.name.as_bytes()));
        matches!(overlaid, Ok(false))
            && matches!(inode.body, Body::Stored { .. } | Body::Directory(_) | Body::Symlink(_))
    }
}
