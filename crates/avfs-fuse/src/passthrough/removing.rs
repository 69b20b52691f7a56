//! Removing and moving names.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::PassthroughFs;
use super::places::{PlaceLayer, RuledPlace, open_reached};

impl PassthroughFs {
    pub(super) fn unlink(&self, parent: u64, name: &[u8]) -> Result<(), Errno> {
        self.remove(parent, name, AtFlags::empty())
    }

    pub(super) fn remove_directory(&self, parent: u64, name: &[u8]) -> Result<(), Errno> {
        self.remove(parent, name, AtFlags::REMOVEDIR)
    }

    fn remove(&self, parent: u64, name: &[u8], flags: AtFlags) -> Result<(), Errno> {
        let at = self.child(parent, name)?;
        at.check_changeable()?;
        match self.places.cached(&at) {
            Some((caches, path)) => caches.remove(path, flags)?,
            None => {
                let (directory, own) = self.places.parent(&at)?;
                rustix::fs::unlinkat(&directory, own, flags)?;
            }
        }
        self.nodes().unname(parent, name);
        Ok(())
    }

    pub(super) fn rename(&self, old: (u64, &[u8]), new: (u64, &[u8]), flags: u32) -> Result<(), Errno> {
        let from = self.child(old.0, old.1)?;
        let to = self.child(new.0, new.1)?;
        from.check_changeable()?;
        to.check_changeable()?;
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        if flags.contains(RenameFlags::WHITEOUT) {
            return Err(Errno::INVAL);
        }
        match (from.layer(), to.layer()) {
            (PlaceLayer::Shared, PlaceLayer::Shared) | (PlaceLayer::Private, PlaceLayer::Private) => {
                self.move_within(&from, &to, flags)?;
            }
            (PlaceLayer::Private, PlaceLayer::Shared) => self.bring_over(&from, &to, flags)?,
            (PlaceLayer::Cached | PlaceLayer::Private, PlaceLayer::Cached | PlaceLayer::Private) => {
                self.move_cached(old, &from, &to, flags)?;
            }
            // It would disappear with the run, or with the layer.
            (PlaceLayer::Shared, PlaceLayer::Cached | PlaceLayer::Private)
            | (PlaceLayer::Cached, PlaceLayer::Shared) => {
                return Err(Errno::XDEV);
            }
        }
        let mut nodes = self.nodes();
        if flags.contains(RenameFlags::EXCHANGE) {
            nodes.exchange(old, new)
        } else {
            nodes.rename(old, new)
        }
        Ok(())
    }

    /// A directory can be moved only if the same is allowed for everything below it.
    fn move_within(&self, from: &RuledPlace, to: &RuledPlace, flags: RenameFlags) -> Result<(), Errno> {
        let stat = self.places.stat(from)?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_directory && !self.places.rules.is_same_below(&from.rule_state, &to.rule_state) {
            return Err(Errno::XDEV);
        }
        let (old_directory, old_name) = self.places.parent(from)?;
        let (new_directory, new_name) = self.places.parent_to_be(to)?;
        rustix::fs::renameat_with(&old_directory, old_name, &new_directory, new_name, flags)
    }

    /// Moves an entry into a cache, out of one, or within one. A directory can be moved if no part of it is
    /// on the host.
    fn move_cached(
        &self,
        old: (u64, &[u8]),
        from: &RuledPlace,
        to: &RuledPlace,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        if flags.contains(RenameFlags::EXCHANGE) {
            return Err(Errno::INVAL);
        }
        let is_directory = FileType::from_raw_mode(self.places.stat(from)?.st_mode) == FileType::Directory;
        if is_directory && !self.is_movable(from, to)? {
            return Err(Errno::XDEV);
        }
        if flags.contains(RenameFlags::NOREPLACE) && self.places.stat(to).is_ok() {
            return Err(Errno::EXIST);
        }
        if let Some((caches, path)) = self.places.cached(to)
            && is_directory
        {
            match caches.list(path) {
                Ok(names) if !names.is_empty() => return Err(Errno::NOTEMPTY),
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
            // A directory that comes from elsewhere must not show the host's entries of that path.
            caches.mark_gone(path)?;
        }
        // Not in the match: the lock would be held during it.
        let known = self.nodes().named(old.0, old.1);
        match known {
            Some(node) => drop(self.make_own(node, from)?),
            None => drop(self.places.own(from)?),
        }
        let (old_directory, old_name) = self.places.parent(from)?;
        let (new_directory, new_name) = self.places.parent(to)?;
        // It was checked above, against both layers; the file system knows only one of them.
        let flags = flags - RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&old_directory, old_name, &new_directory, new_name, flags)?;
        match self.places.cached(from) {
            Some((caches, path)) => caches.mark_gone(path),
            None => Ok(()),
        }
    }

    /// Whether a directory is only ours, and the same is allowed for everything below it at its new place.
    fn is_movable(&self, from: &RuledPlace, to: &RuledPlace) -> Result<bool, Errno> {
        let is_own = match self.places.cached(from) {
            Some((caches, path)) => caches.is_own(path)?,
            None => true,
        };
        Ok(is_own && self.places.rules.is_same_below(&from.rule_state, &to.rule_state))
    }

    /// Moves a private file to a shared name, as programs do that replace a file through a temporary name
    /// which is not shared. The host sees the old file or the new one, and nothing in between.
    fn bring_over(&self, from: &RuledPlace, to: &RuledPlace, flags: RenameFlags) -> Result<(), Errno> {
        if flags.contains(RenameFlags::EXCHANGE) {
            return Err(Errno::XDEV);
        }
        let source =
            open_reached(&self.places.reach(from)?, OFlags::RDONLY).map_err(|errno| match errno {
                // Only files can be moved.
                Errno::INVAL => Errno::XDEV,
                other => other,
            })?;
        let (directory, name) = self.places.parent_to_be(to)?;
        let beside = name_beside(name);
        let copied = copy_beside(&source, &directory, &beside)
            .and_then(|()| rustix::fs::renameat_with(&directory, &beside, &directory, name, flags));
        if let Err(errno) = copied {
            // Removes the unfinished copy.
            rustix::fs::unlinkat(&directory, &beside, AtFlags::empty()).ok();
            return Err(errno);
        }
        let (old_directory, old_name) = self.places.parent(from)?;
        rustix::fs::unlinkat(&old_directory, old_name, AtFlags::empty())
    }
}

fn copy_beside(source: &OwnedFd, directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(source)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    let copy = || {
        let mut from = File::from(source.try_clone()?);
        let mut to = File::from(target.try_clone()?);
        std::io::copy(&mut from, &mut to)
    };
    copy().map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
    rustix::fs::fchmod(&target, Mode::from_raw_mode(stat.st_mode & 0o777))?;
    // The name must not appear before the contents are durable.
    rustix::fs::fdatasync(&target)
}

/// A unique temporary name.
fn name_beside(name: &[u8]) -> Vec<u8> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let kept = &name[..name.len().min(200)];
    [kept, format!(".avfs-{}-{count}", std::process::id()).as_bytes()].concat()
}
