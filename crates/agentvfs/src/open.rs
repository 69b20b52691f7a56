//! A vault whose working tree is open: the owner's side, by path.

mod adopting;
mod comeback;
mod copying;
mod gc_guard;
mod graft;
mod host_import;
mod link_names;
mod onto;
mod saving;
mod writing;

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use avfs_core::{Entry, EntryName, Labels, NodeId, PATH_MAX, Timestamp, TreePath};
use avfs_tree::{
    Attr, BaseTree, EntryPlace, FsError, Ino, InodeKind, NewEntry, SetAttr, StoredTree, VaultLimits, WorkTree,
};

use crate::error::{Error, FileError, Result};
use crate::name::VaultName;
use crate::ownership::Ownership;
use crate::record::VaultRecord;
use crate::vault::Vault;
use adopting::Adoption;
pub(crate) use comeback::{Comeback, Times, set_meta};
pub use gc_guard::GcGuard;
use gc_guard::GcPin;
pub use host_import::OpenImports;
pub(crate) use link_names::LinkNames;
pub use saving::Saved;
pub use writing::WriteMode;

/// The working tree of a vault. No other process changes it while this value lives, unless this process
/// serves it to others or another process owns it.
///
/// Changes become a snapshot by [`OpenVault::commit`] or [`OpenVault::save`]; dropping the value without
/// one discards them. Threads may share it.
pub struct OpenVault {
    vault: Vault,
    /// Its name when it was opened, for messages.
    name: VaultName,
    /// As of the last snapshot. Lock order: before the tree, for taking one.
    record: Mutex<VaultRecord>,
    tree: WorkTree,
    held: GcPin,
    hold: Role,
    /// The tree in memory is neither here nor there, after it could not be moved to another state.
    torn: AtomicBool,
}

/// The role of this process for the tree.
pub(crate) enum Role {
    /// This value does.
    Owner(#[allow(dead_code, reason = "held for its lock")] Ownership),
    /// Another process owns it. The tree here is a copy in memory, and its changes are handed to the owner.
    Client,
}

impl OpenVault {
    pub(crate) fn new(
        vault: Vault,
        record: VaultRecord,
        tree: WorkTree,
        pin: Option<avfs_store::Pin>,
        hold: Role,
    ) -> OpenVault {
        tree.set_limits(limits_of(&record));
        vault.set_sight_of(&tree);
        let (name, held) = (record.name.clone(), GcPin::with(pin));
        OpenVault {
            vault,
            name,
            record: Mutex::new(record),
            tree,
            held,
            hold,
            torn: AtomicBool::new(false),
        }
    }

    /// A copy of a vault that another process owns. It stays pinned: the head may move on, and the origin of
    /// this copy must not be collected.
    pub(crate) fn client(vault: Vault) -> Result<OpenVault> {
        // Before the record is read: its head could be collected in between.
        let pin = vault.store().objects().store().pin()?;
        let record = vault.record()?.0;
        let tree = vault.tree_in_memory(&record)?;
        Ok(OpenVault::new(vault, record, tree, Some(pin), Role::Client))
    }

    /// A tree in memory to work something out in, under the pin of the caller.
    pub(crate) fn scratch(vault: Vault, record: VaultRecord) -> Result<OpenVault> {
        let base = vault.base_of(&record.head)?;
        OpenVault::scratch_at(vault, record, base)
    }

    /// The same, of another state.
    pub(crate) fn scratch_at(vault: Vault, record: VaultRecord, base: BaseTree) -> Result<OpenVault> {
        let store = vault.store();
        let tree = WorkTree::in_memory(store.objects().clone(), base, store.clock())?;
        Ok(OpenVault::new(
            vault.unrestricted(),
            record,
            tree,
            None,
            Role::Client,
        ))
    }

    /// The same vault without a journal: from now on changes are in memory until a snapshot. Journals that a
    /// crash had left become a snapshot of their own first.
    pub(crate) fn without_journal(mut self) -> Result<OpenVault> {
        // The journal is dropped next, so what it holds must be in a snapshot by then.
        self.save("recover", "after a crash")?;
        self.tree.drop_journal();
        self.held = GcPin::default();
        let tree = self.vault.tree_in_memory(&self.record())?;
        tree.set_limits(self.limits());
        self.vault.set_sight_of(&tree);
        self.tree = tree;
        Ok(self)
    }

    /// A client's tree on the newest state, without its own changes. The pin is kept.
    pub(crate) fn reopened(self) -> Result<OpenVault> {
        let held = self.held;
        let vault = self.vault;
        drop((self.tree, self.hold));
        Ok(OpenVault {
            held,
            ..vault.begin()?
        })
    }

    /// Brings in files of the host and archives.
    pub fn imports(&self) -> OpenImports<'_> {
        OpenImports { open: self }
    }

    /// Makes states that other processes hand over the head.
    pub(crate) fn adoption(&self) -> Adoption<'_> {
        Adoption { open: self }
    }

    /// The vault.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// The tree by inodes, as a mount needs it.
    pub fn tree(&self) -> &WorkTree {
        &self.tree
    }

    /// Returns once everything done before survives a power loss, with a journal also without a snapshot.
    pub fn sync(&self) -> Result<()> {
        self.check_whole()?;
        Ok(self.tree.sync()?)
    }

    /// Prevents garbage collection until the next snapshot after the returned value is dropped: for objects
    /// that are stored before they are part of the tree.
    pub fn hold_objects(&self) -> Result<GcGuard<'_>> {
        self.held.hold(self.vault.store())
    }

    pub(crate) fn limits(&self) -> VaultLimits {
        limits_of(&self.record())
    }

    /// Reads the limits of the vault again.
    pub(crate) fn refresh_limits(&self) -> Result<()> {
        let mut record = self.record();
        let fresh = self.vault.record()?.0;
        // Only these two: the rest of the record is of the last snapshot that was taken here.
        (record.max_bytes, record.max_files) = (fresh.max_bytes, fresh.max_files);
        self.tree.set_limits(limits_of(&record));
        Ok(())
    }

    pub(crate) fn fail(&self, path: &TreePath, source: FsError) -> Error {
        Error::File(FileError::Tree {
            vault: self.name.to_string(),
            path: path.clone(),
            source,
        })
    }

    /// The attributes of the entry at `path`.
    pub fn stat(&self, path: &TreePath) -> Result<Attr> {
        self.tree.resolve(path).map_err(|error| self.fail(path, error))
    }

    /// Whether there is an entry at a path.
    pub fn exists(&self, path: &TreePath) -> Result<bool> {
        match self.tree.resolve(path) {
            Ok(_) => Ok(true),
            Err(FsError::NotFound | FsError::Hidden | FsError::NotADirectory) => Ok(false),
            Err(error) => Err(self.fail(path, error)),
        }
    }

    /// The paths of everything in a directory, by name.
    pub fn children(&self, path: &TreePath) -> Result<Vec<TreePath>> {
        let ino = self.stat(path)?.ino;
        let found = self
            .tree
            .read_directory(ino, None, usize::MAX)
            .map_err(|error| self.fail(path, error))?;
        Ok(found.iter().map(|(name, _)| path.join(name)).collect())
    }

    /// All the bytes of a file.
    pub fn read(&self, path: &TreePath) -> Result<bytes::Bytes> {
        let ino = self.stat(path)?.ino;
        self.tree.read_all(ino).map_err(|error| self.fail(path, error))
    }

    /// Where `path` is: its directory, which must exist, and its name in it.
    pub(crate) fn place(&self, path: &TreePath) -> Result<EntryPlace> {
        let Some((parent, name)) = path.split_last() else {
            return Err(self.fail(
                path,
                FsError::Invalid("this cannot be done to the root of a vault"),
            ));
        };
        let attr = self.stat(&parent)?;
        if attr.kind != InodeKind::Directory {
            return Err(self.fail(&parent, FsError::NotADirectory));
        }
        Ok(EntryPlace::new(attr.ino, name))
    }

    fn by_me(&self, new: NewEntry) -> NewEntry {
        let actor = self.vault.store().actor();
        new.owned_by(actor.uid, actor.gid)
    }

    /// Makes a directory, with those above it if `parents`; then an existing one is fine.
    pub fn make_directory(&self, path: &TreePath, parents: bool) -> Result<()> {
        if !parents {
            let place = self.place(path)?;
            return self.make_one(&place).map_err(|error| self.fail(path, error));
        }
        let mut ino = Ino::ROOT;
        let mut walked = TreePath::root();
        for name in path.components() {
            walked.push(&name);
            ino = self
                .directory_at(ino, &name)
                .map_err(|error| self.fail(&walked, error))?;
        }
        Ok(())
    }

    fn make_one(&self, place: &EntryPlace) -> Result<(), FsError> {
        self.tree
            .create(place.parent, &place.name, self.by_me(NewEntry::directory(0o755)))
            .map(|_| ())
    }

    fn directory_at(&self, parent: Ino, name: &EntryName) -> Result<Ino, FsError> {
        match self.tree.lookup(parent, name) {
            Ok(attr) if attr.kind == InodeKind::Directory => Ok(attr.ino),
            Ok(_) => Err(FsError::NotADirectory),
            // Creating at a hidden name is refused by the rules, without telling that it exists.
            Err(FsError::NotFound | FsError::Hidden) => {
                let new = self.by_me(NewEntry::directory(0o755));
                Ok(self.tree.create(parent, name, new)?.ino)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes a file, or with `recursive` a directory and everything in it.
    pub fn remove(&self, path: &TreePath, recursive: bool) -> Result<()> {
        let place = self.place(path)?;
        let attr = self.stat(path)?;
        let removed = match attr.kind {
            InodeKind::Directory if recursive => self.tree.remove_tree(place.parent, &place.name),
            InodeKind::Directory => Err(FsError::IsADirectory),
            _ => self.tree.unlink(place.parent, &place.name),
        };
        removed.map_err(|error| self.fail(path, error))
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, target: &[u8], path: &TreePath) -> Result<()> {
        if target.is_empty() || target.len() > PATH_MAX || target.contains(&0) {
            return Err(self.fail(
                path,
                FsError::Invalid("a link points to 1 to 4095 bytes without a NUL"),
            ));
        }
        let place = self.place(path)?;
        let new = self.by_me(NewEntry::symlink(target));
        let made = self.tree.create(place.parent, &place.name, new);
        made.map(|_| ()).map_err(|error| self.fail(path, error))
    }

    /// Gives the file at `from` another name.
    pub fn hard_link(&self, from: &TreePath, path: &TreePath) -> Result<()> {
        let place = self.place(path)?;
        let ino = self.stat(from)?.ino;
        let made = self.tree.link(ino, place.parent, &place.name);
        made.map(|_| ()).map_err(|error| self.fail(path, error))
    }

    /// Sets the permission bits of an entry.
    pub fn set_mode(&self, path: &TreePath, mode: u32) -> Result<()> {
        self.set(
            path,
            SetAttr {
                mode: Some(mode),
                ..SetAttr::default()
            },
        )
    }

    /// Gives an entry these extended attributes, and takes away all others whose names begin with `prefix`. Names are
    /// whole.
    pub fn replace_xattrs(
        &self,
        path: &TreePath,
        prefix: &[u8],
        xattrs: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<()> {
        let ino = self.stat(path)?.ino;
        let failed = |error| self.fail(path, error);
        for name in self.tree().list_xattrs(ino).map_err(failed)? {
            let is_given = xattrs.iter().any(|(given, _)| *given == name);
            if name.starts_with(prefix) && !is_given {
                self.tree().remove_xattr(ino, &name).map_err(failed)?;
            }
        }
        for (name, value) in xattrs {
            self.tree().set_xattr(ino, name, value).map_err(failed)?;
        }
        Ok(())
    }

    /// Sets the time at which the contents of an entry were last changed.
    pub fn set_mtime(&self, path: &TreePath, mtime: Timestamp) -> Result<()> {
        self.set(
            path,
            SetAttr {
                mtime: Some(mtime),
                ..SetAttr::default()
            },
        )
    }

    /// Cuts a file off, or extends it by a hole.
    pub fn truncate(&self, path: &TreePath, size: u64) -> Result<()> {
        self.set(
            path,
            SetAttr {
                size: Some(size),
                ..SetAttr::default()
            },
        )
    }

    pub(crate) fn set(&self, path: &TreePath, set: SetAttr) -> Result<()> {
        let ino = self.stat(path)?.ino;
        self.tree
            .set_attr(ino, set)
            .map(|_| ())
            .map_err(|error| self.fail(path, error))
    }

    /// Puts a stored tree at a path where there is nothing.
    pub fn graft(&self, path: &TreePath, tree: StoredTree) -> Result<()> {
        let place = self.place(path)?;
        let grafted = self.tree.graft(place.parent, &place.name, tree);
        grafted.map(|_| ()).map_err(|error| self.fail(path, error))
    }

    /// Inserts an entry of another tree at a free path; `links` are the linked files of that tree.
    pub(crate) fn graft_from(&self, path: &TreePath, entry: &Entry, links: Option<NodeId>) -> Result<()> {
        let place = self.place(path)?;
        let grafted = self.tree.copy_stored(entry, links, place.parent, &place.name);
        grafted.map(|_| ()).map_err(|error| self.fail(path, error))
    }

    /// Puts the entries of a stored directory into an existing one; a name that is taken by something else
    /// than a directory on both sides is in the way, and then nothing is changed.
    pub fn graft_into(&self, path: &TreePath, tree: StoredTree) -> Result<()> {
        graft::graft_into(self, path, tree)
    }

    /// The entry at `path` as a snapshot would hold it.
    pub(crate) fn is_same_kind(&self, path: &TreePath, entry: &Entry) -> Result<bool> {
        match self.tree.resolve(path) {
            Ok(attr) => Ok(attr.kind == InodeKind::from(&entry.kind)),
            Err(FsError::NotFound | FsError::Hidden) => Ok(false),
            Err(error) => Err(self.fail(path, error)),
        }
    }

    /// The own labels of the entry at `path`. Never shown through rules.
    pub fn labels(&self, path: &TreePath) -> Result<Labels> {
        self.vault.check_unrestricted("looking at labels")?;
        Ok(self.stat(path)?.meta.labels)
    }

    /// Replaces the labels of the entry at `path`. Not through rules, because rules match labels.
    pub fn set_labels(&self, path: &TreePath, labels: Labels) -> Result<()> {
        let ino = self.stat(path)?.ino;
        self.tree
            .set_labels(ino, labels)
            .map_err(|error| self.fail(path, error))
    }
}

fn limits_of(record: &VaultRecord) -> VaultLimits {
    VaultLimits {
        bytes: record.max_bytes,
        files: record.max_files,
    }
}
