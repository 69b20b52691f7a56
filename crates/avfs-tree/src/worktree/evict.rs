//! Letting go of inodes that can be loaded again: memory holds what is in use or changed, not what was seen.

use crate::inodes::{Ino, give_room_back};
use crate::worktree::Moment;
use crate::worktree::inode::Body;
use crate::worktree::state::State;

impl State {
    /// Lets go of an inode that everybody has forgotten, and of the directories above it that were loaded for
    /// its sake, if the store can bring them back as they are.
    pub fn evict(&mut self, ino: Ino) {
        let mut current = Some(ino);
        while let Some(ino) = current {
            let is_forgotten = self.inodes.get(&ino).is_some_and(|inode| inode.forgotten);
            current = if is_forgotten && self.is_reloadable(ino) { self.unload(ino) } else { None };
        }
    }

    /// Takes an inode out of memory; returns the directory that it was in.
    pub fn unload(&mut self, ino: Ino) -> Option<Ino> {
        let place = self.inodes.remove(&ino)?.place?;
        give_room_back(&mut self.inodes);
        if let Ok(parent) = self.directory_mut(place.parent) {
            parent.children.remove(&place.name);
            give_room_back(&mut parent.children);
        }
        Some(place.parent)
    }

    /// Whether an inode would come back from the store as it is.
    pub fn is_reloadable(&self, ino: Ino) -> bool {
        let Some(inode) = self.inodes.get(&ino) else { return false };
        let body_is_stored = match &inode.body {
            Body::Stored { .. } | Body::Symlink(_) => true,
            Body::Directory(body) => {
                body.children.is_empty() && body.changed.is_empty() && body.settling.is_empty()
            }
            Body::Edited(_) | Body::Fifo | Body::Socket | Body::CharDevice(_) | Body::BlockDevice(_) => false,
        };
        // A linked file may be a child in several directories, and nobody knows in which.
        if !body_is_stored
            || inode.dirty
            || inode.linked
            || inode.names == 0
            || inode.replaced > Moment::default()
        {
            return false;
        }
        let Some(place) = &inode.place else { return false };
        matches!(self.directory(place.parent), Ok(above) if !above.is_overlaid(place.name.as_bytes()))
    }
}
