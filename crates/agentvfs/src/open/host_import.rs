//! Host files into an open vault.

use std::io::Read;
use std::path::Path;

use avfs_core::{LinkId, Meta, TreePath};
use avfs_tree::{ObjectWriter, StoredTree};

use crate::error::Result;
use crate::open::OpenVault;
use avfs_transfer::{DirectoryImport, ImportedTree, TarImport, TransferProgress, TransferReport};

/// Brings files of the host and archives into an open vault.
#[derive(Clone, Copy)]
pub struct OpenImports<'a> {
    pub(crate) open: &'a OpenVault,
}

impl OpenImports<'_> {
    /// Copies the contents of a host directory into the directory `into`, which is created if it does not
    /// exist. On a conflict, nothing changes.
    pub fn directory(
        &self,
        from: &Path,
        into: &TreePath,
        progress: &dyn TransferProgress,
    ) -> Result<TransferReport> {
        self.take(into, &self.store_directory(from, into, progress)?)
    }

    /// Copies the contents of a tar archive into the directory `into`, which is created if it does not exist.
    pub fn tar(
        &self,
        archive: impl Read,
        into: &TreePath,
        progress: &dyn TransferProgress,
    ) -> Result<TransferReport> {
        self.take(into, &self.store_tar(archive, into, progress)?)
    }

    /// Stores the contents of a tar archive, for [`OpenImports::take`] with the same `into`.
    pub fn store_tar(
        &self,
        archive: impl Read,
        into: &TreePath,
        progress: &dyn TransferProgress,
    ) -> Result<ImportedTree> {
        let _holding = self.open.hold_objects()?;
        let objects = self.open.vault().store().objects();
        let writer = ObjectWriter::new(objects);
        let actor = self.open.vault().store().actor();
        let implied = Meta {
            mode: 0o755,
            uid: actor.uid,
            gid: actor.gid,
            mtime: self.open.vault().store().now(),
            ..Meta::default()
        };
        let options = TarImport {
            is_taken: &|link| self.is_taken(link),
            implied,
            ..TarImport::default()
        };
        let imported = avfs_transfer::import_tar(objects, &writer, archive, into, &options, progress)?;
        writer.flush()?;
        Ok(imported)
    }

    /// Stores the contents of a host directory, for [`OpenImports::take`] with the same `into`.
    pub fn store_directory(
        &self,
        from: &Path,
        into: &TreePath,
        progress: &dyn TransferProgress,
    ) -> Result<ImportedTree> {
        let _holding = self.open.hold_objects()?;
        let store = self.open.vault().store();
        let writer = ObjectWriter::new(store.objects());
        // A store below the directory would otherwise swallow itself.
        let exclude = store.home().map(Path::to_owned).into_iter().collect();
        let options = DirectoryImport {
            exclude,
            is_taken: &|link| self.is_taken(link),
            ..DirectoryImport::default()
        };
        let imported =
            avfs_transfer::import_directory(store.objects(), &writer, from, into, &options, progress)?;
        writer.flush()?;
        Ok(imported)
    }

    /// A number that cannot be looked up counts as used.
    fn is_taken(&self, link: LinkId) -> bool {
        self.open.tree().is_link_taken(link).unwrap_or(true)
    }

    /// Puts stored host files into the directory `into`. It may be done again, where nothing came of it.
    pub fn take(&self, into: &TreePath, imported: &ImportedTree) -> Result<TransferReport> {
        let tree = StoredTree {
            entry: imported.directory.clone(),
            links: imported.links.clone(),
        };
        if self.open.exists(into)? {
            self.open.graft_into(into, tree)?;
        } else {
            if let Some((parent, _)) = into.split_last() {
                self.open.make_directory(&parent, true)?;
            }
            self.open.graft(into, tree)?;
        }
        Ok(imported.report.clone())
    }
}
