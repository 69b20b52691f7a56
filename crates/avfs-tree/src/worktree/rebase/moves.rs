//! Files and directories that another door has moved: their holders continue to use them at the new place.

use avfs_core::diff::TreeChange;
use avfs_core::{Entry, TreePath};

use super::Rebase;
use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::EntryPlace;
use crate::worktree::watch::Invalidation;

impl Rebase<'_> {
    /// Moves inodes in memory to the places that their numbers have in the base, which is the new one by now.
    /// Returns those that moved.
    pub(super) fn follow_moves(&mut self, changes: &[TreeChange]) -> Result<Vec<Ino>, FsError> {
        let is_lost =
            |change: &TreeChange| change.after.is_none() && self.state.loaded(&change.path).is_some();
        if !changes.iter().any(is_lost) {
            return Ok(Vec::new());
        }
        let mut moved = Vec::new();
        let mut displaced = Vec::new();
        for change in changes {
            if let Some(entry) = &change.after {
                moved.extend(self.follow_to(&change.path, entry, &mut displaced)?);
            }
        }
        for ino in displaced {
            if !self.is_where_it_says(ino) {
                self.lose_place(ino)?;
            }
        }
        Ok(moved)
    }

    /// Moves the inode here that the base has here now, if it is elsewhere in memory. The previous inode here
    /// is displaced: it may be found elsewhere later.
    fn follow_to(
        &mut self,
        path: &TreePath,
        entry: &Entry,
        displaced: &mut Vec<Ino>,
    ) -> Result<Option<Ino>, FsError> {
        let Some((parent, name)) = path.split_last() else {
            return Ok(None);
        };
        let Some(parent) = self.reached(&parent)? else {
            return Ok(None);
        };
        let place = EntryPlace::new(parent, name);
        let Some(ino) = self.state.number_at(&place)? else {
            return Ok(None);
        };
        let Some(old) = self.left_place(ino)?.filter(|old| *old != place) else {
            return Ok(None);
        };
        if !self.has_kind(ino, Some(entry)) {
            return Ok(None);
        }
        if self.is_where_it_says(ino) {
            self.state.directory_mut(old.parent)?.children.remove(&old.name);
        }
        displaced.extend(
            self.state
                .directory_mut(parent)?
                .children
                .insert(place.name.clone(), ino),
        );
        self.state.inode_mut(ino)?.place = Some(place.clone());
        for EntryPlace { parent, name } in [old, place] {
            self.state
                .watchers
                .tell(None, Invalidation::Name { parent, name });
        }
        Ok(Some(ino))
    }

    /// Removes from a moved directory, and from those below it, inodes that the base does not have there:
    /// they were removed at a path that no longer leads here.
    pub(super) fn drop_strangers(&mut self, directory: Ino) -> Result<(), FsError> {
        let mut left = vec![directory];
        while let Some(parent) = left.pop() {
            let Ok(directory) = self.state.directory(parent) else {
                continue;
            };
            for (name, child) in directory.children.clone() {
                let place = EntryPlace::new(parent, name);
                if self.state.number_at(&place)? == Some(child) {
                    left.push(child);
                    continue;
                }
                self.state.directory_mut(parent)?.children.remove(&place.name);
                self.lose_place(child)?;
                self.state.watchers.tell(
                    None,
                    Invalidation::Name {
                        parent,
                        name: place.name,
                    },
                );
            }
        }
        Ok(())
    }

    /// Whether the directory of an inode contains it.
    fn is_where_it_says(&self, ino: Ino) -> bool {
        let place = self.state.inodes.get(&ino).and_then(|inode| inode.place.as_ref());
        place.is_none_or(|place| {
            let above = self.state.directory(place.parent).ok();
            above.and_then(|above| above.children.get(&place.name)) == Some(&ino)
        })
    }

    /// The place of an inode in memory, if the base no longer has it there.
    fn left_place(&self, ino: Ino) -> Result<Option<EntryPlace>, FsError> {
        let inode = self.state.inodes.get(&ino).filter(|inode| !inode.linked);
        let Some(place) = inode.and_then(|inode| inode.place.clone()) else {
            return Ok(None);
        };
        let is_there = self.state.number_at(&place)? == Some(ino);
        Ok((!is_there).then_some(place))
    }

    /// The directory at a path, loaded if it must be.
    fn reached(&mut self, path: &TreePath) -> Result<Option<Ino>, FsError> {
        let mut ino = Ino::ROOT;
        for name in path.components() {
            if self.state.directory(ino).is_err() {
                return Ok(None);
            }
            match self.state.lookup(&EntryPlace::new(ino, name))? {
                Some(child) => ino = child,
                None => return Ok(None),
            }
        }
        Ok(self.state.directory(ino).is_ok().then_some(ino))
    }
}
