//! A vault as a plain copy on the disk, for machines where nothing can be mounted: written before a run, and
//! read back with the changes of the run. The cost depends on the size of the vault.

use std::collections::BTreeSet;
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};

use avfs_core::rules::{Level, Rules};
use avfs_core::{Labels, SnapshotId, TreePath};
use avfs_exec::plan::UNPRIVILEGED;
use avfs_tree::{BaseTree, ObjectWriter, SetAttr, TreeReader, WorkTree};

use super::workspace::host;
use crate::error::{Error, Result, RulesError};
use crate::open::OpenVault;
use crate::removal::remove_tree;
use crate::restore::{Comeback, Times};
use crate::run_directory::copy_of;
use crate::vault::Vault;
use avfs_transfer::{DirectoryExport, export_directory};

/// A copy of a vault's present state. Nothing is left of it when this is dropped.
pub(super) struct Copied {
    place: PathBuf,
    before: SnapshotId,
}

/// Whether a plain copy can enforce rules: it is writable as a whole, or not at all. Returns whether it is.
pub(super) fn is_writable(rules: Option<&Rules>) -> Result<bool> {
    let Some(rules) = rules else { return Ok(true) };
    let root = rules.root(&Labels::default());
    let is_all = |level| root.level() >= level && rules.is_all_below(&root, level);
    match () {
        () if is_all(Level::Write) => Ok(true),
        () if is_all(Level::Read)
            && !rules.is_any_below(&root, Level::Append)
            && root.level() == Level::Read =>
        {
            Ok(false)
        }
        () => Err(Error::Rules(RulesError::NeedMount)),
    }
}

impl Copied {
    /// Writes the vault out; if root does so, for the user that the run will be.
    pub(super) fn make(vault: &Vault, run: &str) -> Result<Copied> {
        let copy = Copied {
            place: copy_of(run),
            before: vault.head()?,
        };
        let failed = |action| move |source| host(action, &copy_of(run), source);
        // New, and nobody else's until everything is there.
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&copy.place)
            .map_err(failed("making"))?;
        let options = DirectoryExport {
            merge: true,
            owners: false,
        };
        export_directory(
            &vault.reader_at(copy.before)?,
            &TreePath::root(),
            &copy.place,
            &options,
            &(),
        )?;
        if rustix::process::geteuid().is_root() {
            give_all(&copy.place).map_err(failed("giving away"))?;
        }
        Ok(copy)
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    pub(super) fn before(&self) -> SnapshotId {
        self.before
    }

    /// Makes the changes of the run a change of the vault; returns the new state.
    pub(super) fn take_back(&self, vault: &Vault, action: &str, detail: &str) -> Result<SnapshotId> {
        vault.attempt(|open| {
            let _holding = open.hold_objects()?;
            let source = self.read_back(vault, open)?;
            let base = vault.reader_at(self.before)?;
            let names = top_level(&[&base, &source]).map_err(|error| vault.history().read_error(error))?;
            Comeback::new(open, base, source, &names, Times::AsTheyWere)?.run()?;
            open.save(action, detail)
        })?;
        vault.head()
    }

    /// The current tree of the directory. Owners and labels are those of the vault: on the disk everything
    /// belongs to the user of the run, and there are no labels.
    fn read_back(&self, vault: &Vault, open: &OpenVault) -> Result<TreeReader> {
        let (store, objects) = (vault.store(), vault.store().objects());
        let imported = open
            .imports()
            .store_directory(&self.place, &TreePath::root(), &())?;
        let read = store.root_of(imported, &ObjectWriter::new(objects))?.0;
        let (base, old) = (vault.snapshot(self.before)?.root, vault.reader_at(self.before)?);
        let changes = vault.history().changed_paths(&base, &read)?;
        let tree = WorkTree::in_memory(
            objects.clone(),
            BaseTree {
                root: read,
                inodes: None,
            },
            store.clock(),
        )?;
        for change in changes
            .into_iter()
            .filter(|change| change.after.is_some() && !change.path.is_root())
        {
            let (uid, gid) = nearest_owner(&old, &change.path);
            let ino = tree.resolve(&change.path)?.ino;
            tree.set_attr(
                ino,
                SetAttr {
                    uid: Some(uid),
                    gid: Some(gid),
                    ..SetAttr::default()
                },
            )?;
            if let Some(entry) = change.before.filter(|entry| !entry.meta.labels.is_empty()) {
                tree.set_labels(ino, entry.meta.labels)?;
            }
        }
        let frozen = tree.freeze()?;
        Ok(TreeReader::new(objects.clone(), frozen.base().root.clone()))
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // If it cannot be removed now, it is removed before the next run.
        let _ = remove_tree(&self.place);
    }
}

/// The owner of what was at a path, or of the directory that it would have been in.
fn nearest_owner(old: &TreeReader, path: &TreePath) -> (u32, u32) {
    let mut at = Some(path.clone());
    while let Some(path) = at {
        if let Ok(found) = old.find(&path) {
            return (found.entry.meta.uid, found.entry.meta.gid);
        }
        at = path.split_last().map(|(parent, _)| parent);
    }
    let root = &old.root().directory.meta;
    (root.uid, root.gid)
}

fn top_level(readers: &[&TreeReader]) -> Result<Vec<TreePath>, avfs_tree::ReadError> {
    let mut names = BTreeSet::new();
    for reader in readers {
        for entry in reader.list(&TreePath::root())? {
            names.insert(TreePath::root().join(&entry?.0));
        }
    }
    Ok(names.into_iter().collect())
}

/// Everything in a directory that is still private.
fn give_all(directory: &Path) -> std::io::Result<()> {
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        lchown(&directory, Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path())
            } else {
                lchown(entry.path(), Some(UNPRIVILEGED), Some(UNPRIVILEGED))?
            }
        }
    }
    Ok(())
}
