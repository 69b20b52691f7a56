//! A vault as a plain copy on the disk, for places where nothing can be mounted: written out before a run, and what
//! the run has made of it taken back. It costs what the vault holds.

use std::collections::BTreeSet;
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};

use avfs_core::rules::{Level, Rules};
use avfs_core::{Labels, SnapshotId, TreePath};
use avfs_exec::plan::UNPRIVILEGED;
use avfs_tree::{Base, ObjectWriter, SetAttr, TreeReader, WorkTree};

use super::workspace::host;
use crate::error::{Error, Result};
use crate::open::OpenVault;
use crate::removal::remove_tree;
use crate::restore::{Comeback, Times};
use crate::transfer::{DirectoryExport, export_directory};
use crate::vault::Vault;

/// What the directories of copies are called, before the id of their run.
const PREFIX: &str = "avfs-copy-";

/// A copy of a vault's present state. Nothing is left of it when this is dropped.
pub(super) struct Copied {
    place: PathBuf,
    before: SnapshotId,
}

/// Whether a plain copy can keep rules: it can be written as a whole, or not at all. Says whether it can.
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
        () => Err(Error::RulesNeedMount),
    }
}

impl Copied {
    /// Writes the vault out; if root does so, for the user that the run will be.
    pub fn make(vault: &Vault, run: &str) -> Result<Copied> {
        let copy = Copied { place: place_of(run), before: vault.head()? };
        let failed = |action| move |source| host(action, &place_of(run), source);
        // New, and nobody else's until everything is there.
        std::fs::DirBuilder::new().mode(0o700).create(&copy.place).map_err(failed("making"))?;
        let options = DirectoryExport { merge: true, owners: false };
        export_directory(&vault.reader_at(copy.before)?, &TreePath::root(), &copy.place, &options, &())?;
        if rustix::process::geteuid().is_root() {
            give_all(&copy.place).map_err(failed("giving away"))?;
        }
        Ok(copy)
    }

    pub fn place(&self) -> &Path {
        &self.place
    }

    pub fn before(&self) -> SnapshotId {
        self.before
    }

    /// Makes what the run has changed a change of the vault; returns the state then.
    pub fn take_back(&self, vault: &Vault, action: &str, detail: &str) -> Result<SnapshotId> {
        vault.attempt(|open| {
            let _holding = open.hold_objects()?;
            let source = self.read_back(vault, open)?;
            let base = vault.reader_at(self.before)?;
            let names = top_level(&[&base, &source]).map_err(|error| vault.read_error(error))?;
            Comeback::new(open, base, source, &names, Times::AsTheyWere)?.run()?;
            open.save(action, detail)
        })?;
        vault.head()
    }

    /// The tree that the directory holds now. Owners and labels are those of the vault: on the disk everything belongs
    /// to whoever ran, and there are no labels.
    fn read_back(&self, vault: &Vault, open: &OpenVault) -> Result<TreeReader> {
        let (store, objects) = (vault.store(), vault.store().objects());
        let imported = open.store_directory(&self.place, &TreePath::root(), &())?;
        let read = store.root_of(imported, &ObjectWriter::new(objects))?.0;
        let (base, old) = (vault.snapshot(self.before)?.root, vault.reader_at(self.before)?);
        let changes = vault.changed_paths(&base, &read)?;
        let tree = WorkTree::in_memory(objects.clone(), Base { root: read, inodes: None }, store.clock())?;
        for change in changes.into_iter().filter(|change| change.after.is_some() && !change.path.is_root()) {
            let (uid, gid) = nearest_owner(&old, &change.path);
            let ino = tree.resolve(&change.path)?.ino;
            tree.set_attr(ino, SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() })?;
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
        // What cannot be removed now is removed before the next run.
        let _ = remove_tree(&self.place);
    }
}

/// Where the user of the run can reach it, whoever he is.
fn place_of(run: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{PREFIX}{run}"))
}

/// Removes what a killed run left.
pub(super) fn clear_away(run: &str) {
    let _ = remove_tree(&place_of(run));
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

/// Everything in a directory that nobody else can reach yet.
fn give_all(directory: &Path) -> std::io::Result<()> {
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        lchown(&directory, Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => open.push(entry.path()),
                false => lchown(entry.path(), Some(UNPRIVILEGED), Some(UNPRIVILEGED))?,
            }
        }
    }
    Ok(())
}
