//! Unloads inodes that can be loaded again: memory holds inodes in use or with changes, not everything that
//! was visited.

use crate::inodes::{Ino, give_room_back};
use crate::worktree::TreeMoment;
use crate::worktree::inode::InodeBody;
use crate::worktree::state::TreeState;

impl TreeState {
    /// Unloads an inode that all doors have forgotten, and the directories above it that were loaded for its
    /// sake, if the store can restore them unchanged.
    pub(crate) fn evict(&mut self, ino: Ino) {
        let mut current = Some(ino);
        while let Some(ino) = current {
            let is_forgotten = self.inodes.get(&ino).is_some_and(|inode| inode.forgotten);
            current = if is_forgotten && self.is_reloadable(ino) {
                self.unload(ino)
            } else {
                None
            };
        }
    }

    /// Removes an inode from memory; returns the directory that it was in.
    pub(crate) fn unload(&mut self, ino: Ino) -> Option<Ino> {
        let place = self.inodes.remove(&ino)?.place?;
        give_room_back(&mut self.inodes);
        if let Ok(parent) = self.directory_mut(place.parent) {
            parent.children.remove(&place.name);
            give_room_back(&mut parent.children);
        }
        Some(place.parent)
    }

    /// Whether loading the inode from the store would restore it unchanged.
    pub(crate) fn is_reloadable(&self, ino: Ino) -> bool {
        let Some(inode) = self.inodes.get(&ino) else {
            return false;
        };
        let body_is_stored = match &inode.body {
            InodeBody::Stored { .. } | InodeBody::Symlink(_) => true,
            InodeBody::Directory(body) => {
                body.children.is_empty() && body.changed.is_empty() && body.settling.is_empty()
            }
            InodeBody::Edited(_)
            | InodeBody::Fifo
            | InodeBody::Socket
            | InodeBody::CharDevice(_)
            | InodeBody::BlockDevice(_) => false,
        };
        // A linked file may be a child in several directories, and which ones is not recorded.
        if !body_is_stored
            || inode.dirty
            || inode.linked
            || inode.names == 0
            || inode.replaced > TreeMoment::default()
        {
            return false;
        }
        let Some(place) = &inode.place else { return false };
        matches!(self.directory(place.parent), Ok(above) if !above.is_overlaid(place.name.as_bytes()))
    }
}
