//! The calls of a filesystem that are made elsewhere: each is one line that leads there, or one planned change.

use std::path::Path;
use std::sync::Arc;

use avfs_core::TreePath;

use crate::arrange::mounted;
use crate::change::hooks::PathEvent;
use crate::change::{ChangePlan, StateDraft, StoreChange};
use crate::error::{Result, VfsError};
use crate::look::{CallerLook, Looked};
use crate::portable::PortableEntry;
use crate::provider::ProvidedNode;
use crate::snapshot::{Change, Snapshot};
use crate::storage::StorageAdapter;
use crate::vfs::{Vfs, parse};
use crate::{change, host, portable, snapshot, storage};

impl Vfs {
    /// Removes a file, a link or a directory; one that is not empty only if `recursive`.
    pub fn remove(&self, path: impl AsRef<[u8]>, recursive: bool) -> Result<()> {
        let path = parse(path.as_ref())?;
        self.change(|look, plan| look.plan_removal(plan, &path, recursive))
    }

    /// Gives an entry another path. What is there is replaced as by `rename(2)`: a file by a file, an empty directory
    /// by a directory.
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let (from, to) = (parse(from.as_ref())?, parse(to.as_ref())?);
        self.change(|look, plan| look.plan_rename(plan, &from, &to))
    }

    /// Moves an entry to a path, or into the directory that is there. A file that is there is replaced only with
    /// `overwrite`. Returns the new path.
    pub fn move_to(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, overwrite: bool) -> Result<TreePath> {
        let (from, to) = (parse(from.as_ref())?, parse(to.as_ref())?);
        self.change(|look, plan| {
            let to = look.destination(&from, &to, overwrite)?;
            look.plan_rename(plan, &from, &to)?;
            Ok(to)
        })
    }

    /// Copies an entry with all that is below it and can be seen. Destinations are as for [`Vfs::move_to`]. What
    /// providers give is copied as it is now.
    pub fn copy(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, overwrite: bool) -> Result<TreePath> {
        let (from, to) = (parse(from.as_ref())?, parse(to.as_ref())?);
        self.change(|look, plan| {
            let to = look.destination(&from, &to, overwrite)?;
            look.plan_copy(plan, &from, &to)?;
            Ok(to)
        })
    }

    /// Shows what a provider gives at a path where nothing is, or an empty directory.
    pub fn mount(&self, path: impl AsRef<[u8]>, provided: ProvidedNode) -> Result<()> {
        self.check_owner()?;
        let path = parse(path.as_ref())?;
        let provided = Arc::new(provided);
        self.change(|look, plan| {
            let walked = look.walk(&path, false)?;
            if walked.path.is_root() {
                return Err(VfsError::Root { action: "replaced" }.into());
            }
            if look.vfs.storage().covering(&walked.path).is_some() {
                return Err(VfsError::FilesOnly { path: walked.path }.into());
            }
            match &walked.found {
                None => look.plan_place(plan, &walked)?,
                Some(found) if found.is_directory() && look.children(found, &walked.path)?.is_empty() => {
                    look.plan_own_parents(plan, &walked);
                }
                Some(_) => return Err(VfsError::Exists { path: walked.path }.into()),
            }
            plan.put(&walked.path, mounted(&provided, plan.now));
            Ok(())
        })
    }

    /// Makes one change.
    pub(crate) fn change<T>(
        &self,
        plan: impl Fn(&CallerLook<'_>, &mut ChangePlan) -> Looked<T>,
    ) -> Result<T> {
        change::change(self, plan)
    }

    /// Makes several changes together.
    pub(crate) fn change_many<T>(
        &self,
        storing: StoreChange,
        steps: impl FnOnce(&mut StateDraft<'_>) -> Result<T>,
    ) -> Result<T> {
        change::change_many(self, storing, steps)
    }

    /// Writes a file, or a directory with everything below it that can be seen, to the host. `destination` must not
    /// exist, or be an empty directory. Modes, times and links are kept; what providers give is written as it is now.
    pub fn export(&self, path: impl AsRef<[u8]>, destination: &Path) -> Result<()> {
        host::export(self, path, destination)
    }

    /// Reads a directory or file of the host into `path`, where nothing may be but an empty directory. Everything
    /// arrives, or nothing does. Sockets, devices and pipes are left out.
    pub fn import(&self, source: &Path, path: impl AsRef<[u8]>) -> Result<()> {
        host::import(self, source, path)
    }

    /// Lets a program of the host work on a directory: writes it out to `place`, which must be an empty directory of the
    /// host, runs `work`, and takes over as one change what is different then. What is not different stays untouched,
    /// and what the caller may not change makes all of it fail.
    pub fn with_host_directory<T>(
        &self,
        path: impl AsRef<[u8]>,
        place: &Path,
        work: impl FnOnce() -> T,
    ) -> Result<T> {
        host::with_host_directory(self, path, place, work)
    }

    /// Everything, parents first. What providers give is there as it is now, with version 1.
    pub fn entries(&self) -> Result<Vec<PortableEntry>> {
        portable::entries(self)
    }

    /// A filesystem with these entries. Parents come first.
    pub fn from_entries(entries: impl IntoIterator<Item = PortableEntry>) -> Result<Vfs> {
        portable::from_entries(entries)
    }

    /// Keeps this moment. It costs a few pointers, at any size.
    pub fn snapshot(&self) -> Result<Snapshot> {
        snapshot::snapshot(self)
    }

    /// Makes everything as it was. It costs what differs; each file that changes gets a new version. What storages
    /// hold that were mounted later stays as it is.
    pub fn restore(&self, snapshot: &Snapshot) -> Result<()> {
        snapshot::restore(self, snapshot)
    }

    /// What is different from a snapshot, of this filesystem or of one that it was forked from, in the order of the
    /// paths. It costs what differs. What providers give counts only where it was written over.
    pub fn changes(&self, since: &Snapshot) -> Result<Vec<Change>> {
        snapshot::changes(self, since)
    }

    /// Shows the files of a storage at `path`, which must not exist or be an empty directory. From then on every
    /// change of a file there goes to the adapter first, and does not happen if the adapter refuses.
    pub fn mount_storage(&self, path: impl AsRef<[u8]>, adapter: Arc<dyn StorageAdapter>) -> Result<()> {
        storage::mount_storage(self, path, adapter)
    }

    /// Ends a storage mount. The files stay, in memory only. Returns whether there was one.
    pub fn unmount_storage(&self, path: impl AsRef<[u8]>) -> Result<bool> {
        storage::unmount_storage(self, path)
    }

    /// Takes over what others have changed in the storage that is mounted at `path`, and returns the changes.
    pub fn sync_storage(&self, path: impl AsRef<[u8]>) -> Result<Vec<PathEvent>> {
        storage::sync_storage(self, path)
    }
}
