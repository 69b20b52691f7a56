//! Files and directories that another door has moved: whoever holds one goes on with it at its new place.

use avfs_core::diff::Change;
use avfs_core::{Entry, TreePath};

use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::Place;
use crate::worktree::state::State;
use crate::worktree::watch::Seen;

impl State {
    /// Moves what is in memory to where its number is in the base, which is the new one by now. Returns what was
    /// moved.
    pub(super) fn follow_moves(&mut self, changes: &[Change]) -> Result<Vec<Ino>, FsError> {
        let is_lost = |change: &Change| change.after.is_none() && self.loaded(&change.path).is_some();
        if !changes.iter().any(is_lost) {
            return Ok(Vec::new());
        }
        let (mut moved, mut displaced) = (Vec::new(), Vec::new());
        for change in changes {
            if let Some(entry) = &change.after {
                moved.extend(self.follow_to(&change.path, entry, &mut displaced)?);
            }
        }
        for ino in displaced {
            if !self.is_where_it_says(ino) {
                self.lose_place(ino, false)?;
            }
        }
        Ok(moved)
    }

    /// Moves the inode here that the base has here now, if it is elsewhere in memory. What was here is displaced:
    /// it may be found elsewhere later.
    fn follow_to(
        &mut self,
        path: &TreePath,
        entry: &Entry,
        displaced: &mut Vec<Ino>,
    ) -> Result<Option<Ino>, FsError> {
        let Some((parent, name)) = path.split_last() else { return Ok(None) };
        let Some(parent) = self.reached(&parent)? else { return Ok(None) };
        let place = Place::new(parent, name);
        let Some(ino) = self.number_at(&place)? else { return Ok(None) };
        let Some(old) = self.left_place(ino)?.filter(|old| *old != place) else { return Ok(None) };
        if !self.has_kind(ino, Some(entry)) {
            return Ok(None);
        }
        if self.is_where_it_says(ino) {
            self.directory_mut(old.parent)?.children.remove(&old.name);
        }
        displaced.extend(self.directory_mut(parent)?.children.insert(place.name.clone(), ino));
        self.inode_mut(ino)?.place = Some(place.clone());
        for Place { parent, name } in [old, place] {
            self.tell(None, Seen::Name { parent, name });
        }
        Ok(Some(ino))
    }

    /// Takes out of a directory that was moved, and of those below it, what the base does not have there: it was
    /// removed at a path that leads nowhere by now.
    pub(super) fn drop_strangers(&mut self, directory: Ino) -> Result<(), FsError> {
        let mut left = vec![directory];
        while let Some(parent) = left.pop() {
            let Ok(directory) = self.directory(parent) else { continue };
            for (name, child) in directory.children.clone() {
                let place = Place::new(parent, name);
                if self.number_at(&place)? == Some(child) {
                    left.push(child);
                    continue;
                }
                self.directory_mut(parent)?.children.remove(&place.name);
                self.lose_place(child, false)?;
                self.tell(None, Seen::Name { parent, name: place.name });
            }
        }
        Ok(())
    }

    /// Whether the directory that an inode says it is in has it.
    fn is_where_it_says(&self, ino: Ino) -> bool {
        let place = self.inodes.get(&ino).and_then(|inode| inode.place.as_ref());
        place.is_none_or(|place| {
            let above = self.directory(place.parent).ok();
            above.and_then(|above| above.children.get(&place.name)) == Some(&ino)
        })
    }

    /// Where an inode is in memory, if the base does not have it there any more.
    fn left_place(&self, ino: Ino) -> Result<Option<Place>, FsError> {
        let inode = self.inodes.get(&ino).filter(|inode| !inode.linked);
        let Some(place) = inode.and_then(|inode| inode.place.clone()) else { return Ok(None) };
        let is_there = self.number_at(&place)? == Some(ino);
        Ok((!is_there).then_some(place))
    }

    /// The directory at a path, loaded if it must be.
    fn reached(&mut self, path: &TreePath) -> Result<Option<Ino>, FsError> {
        let mut ino = Ino::ROOT;
        for name in path.components() {
            if self.directory(ino).is_err() {
                return Ok(None);
            }
            match self.lookup(&Place::new(ino, name))? {
                Some(child) => ino = child,
                None => return Ok(None),
            }
        }
        Ok(self.directory(ino).is_ok().then_some(ino))
    }
}
