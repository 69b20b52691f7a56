//! Copying and moving by path, as `cp` and `mv` do it.

use avfs_core::TreePath;
use avfs_tree::{Attr, EntryPlace, FsError, InodeKind, NewEntry, SetAttr};

use super::OpenVault;
use crate::error::{Error, Result};

impl OpenVault {
    /// Moves `from` to `to`, or into it if it is a directory, replacing an existing entry as `mv` does. A
    /// directory whose parts would have other levels there is copied and removed.
    pub fn rename(&self, from: &TreePath, to: &TreePath) -> Result<TreePath> {
        let target = self.target(from, to)?;
        let (source, place) = (self.place(from)?, self.place(&target)?);
        let moved = self.stat(from)?;
        let is_same = self
            .tree
            .resolve(&target)
            .is_ok_and(|there| there.ino == moved.ino);
        let done = if is_same && target != *from {
            // Two names of one file: as `mv` does it, the old one is removed.
            self.tree.unlink(source.parent, &source.name)
        } else {
            self.tree.rename(source, place)
        };
        self.moved_or_copied(done, from, &target)
    }

    /// Moves `from` to `to`, or into it if it is a directory, where nothing may be in the way.
    pub fn rename_no_replace(&self, from: &TreePath, to: &TreePath) -> Result<TreePath> {
        let target = self.target(from, to)?;
        let (source, place) = (self.place(from)?, self.place(&target)?);
        self.stat(from)?;
        let done = self.tree.rename_no_replace(source, place);
        self.moved_or_copied(done, from, &target)
    }

    fn moved_or_copied(
        &self,
        moved: Result<(), FsError>,
        from: &TreePath,
        to: &TreePath,
    ) -> Result<TreePath> {
        match moved {
            Ok(()) => {}
            Err(FsError::OtherRulesThere) if !self.exists(to)? => {
                self.copy(from, to, true)?;
                self.remove(from, true)?;
            }
            Err(error) => return Err(self.fail(to, error)),
        }
        Ok(to.clone())
    }

    /// Copies `from` to `to`, or into it if it is a directory; a directory only with `recursive`. An existing
    /// file keeps its mode and its other names and gets the contents. Of a directory with unreadable parts,
    /// the readable ones are copied.
    pub fn copy(&self, from: &TreePath, to: &TreePath, recursive: bool) -> Result<TreePath> {
        let attr = self.stat(from)?;
        if attr.kind == InodeKind::Directory && !recursive {
            return Err(self.fail(from, FsError::IsADirectory));
        }
        let target = self.target(from, to)?;
        if target.starts_with(from) && target != *from && attr.kind == InodeKind::Directory {
            return Err(self.fail(&target, FsError::IntoItself));
        }
        let place = self.place(&target)?;
        let _holding = self.hold_objects()?;
        match self.copy_to(&attr, &target, &place) {
            Ok(()) => {}
            Err(FsError::Denied { .. } | FsError::NotEmpty)
                if attr.kind == InodeKind::Directory && self.tree.has_rules() =>
            {
                self.copy_readable(from, &attr, &target)?;
            }
            Err(error) => return Err(self.refused_copy(from, &attr, &target, error)),
        }
        Ok(target)
    }

    /// Which path caused the refusal of a copy: the source, or the target.
    fn refused_copy(&self, from: &TreePath, attr: &Attr, target: &TreePath, error: FsError) -> Error {
        match self.tree.check(attr.ino, avfs_core::rules::Level::Read) {
            Err(unreadable @ FsError::Denied { .. }) => self.fail(from, unreadable),
            Ok(()) | Err(_) => self.fail(target, error),
        }
    }

    fn copy_to(&self, from: &Attr, target: &TreePath, place: &EntryPlace) -> Result<(), FsError> {
        let existing = match self.tree.resolve(target) {
            Ok(existing) => Some(existing),
            Err(FsError::NotFound | FsError::Hidden) => None,
            Err(error) => return Err(error),
        };
        match existing {
            None => {
                let copy = self.tree.copy(from.ino, place.parent, &place.name)?;
                let set = SetAttr {
                    mtime: Some(self.vault.store().now()),
                    ..SetAttr::default()
                };
                if copy.kind == InodeKind::File {
                    self.tree.set_attr(copy.ino, set).map(|_| ())
                } else {
                    Ok(())
                }
            }
            Some(existing) if existing.ino == from.ino => {
                Err(FsError::Invalid("the copy and the original are the same"))
            }
            Some(existing) if existing.kind == InodeKind::File && from.kind == InodeKind::File => {
                self.tree.copy_content(from.ino, existing.ino)
            }
            Some(_) => Err(FsError::Exists),
        }
    }

    /// Copies a directory entry by entry, without unreadable ones.
    fn copy_readable(&self, from: &TreePath, attr: &Attr, target: &TreePath) -> Result<()> {
        let mut open = vec![(from.clone(), attr.meta.mode, target.clone())];
        while let Some((from, mode, target)) = open.pop() {
            let place = self.place(&target)?;
            let new = self.by_me(NewEntry::directory(mode | OWN_WRITE));
            let made = self.tree.create(place.parent, &place.name, new);
            made.map_err(|error| self.fail(&target, error))?;
            for path in self.children(&from)? {
                let Some(name) = path.name() else { continue };
                let (attr, to) = (self.stat(&path)?, target.join(&name));
                if attr.kind == InodeKind::Directory {
                    open.push((path, attr.meta.mode, to));
                } else if self.tree.check(attr.ino, avfs_core::rules::Level::Read).is_ok() {
                    let copied = self.copy_to(&attr, &to, &self.place(&to)?);
                    copied.map_err(|error| self.fail(&to, error))?;
                }
            }
        }
        Ok(())
    }

    fn target(&self, from: &TreePath, to: &TreePath) -> Result<TreePath> {
        match (self.tree.resolve(to), from.name()) {
            (Ok(attr), Some(name)) if attr.kind == InodeKind::Directory => Ok(to.join(&name)),
            _ => Ok(to.clone()),
        }
    }
}

/// A directory is shown without it where nothing may be made; in the copy something is.
const OWN_WRITE: u32 = 0o200;
