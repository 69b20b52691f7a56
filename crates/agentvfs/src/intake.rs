//! Host files into an open vault.

use std::io::Read;
use std::path::Path;

use avfs_core::{LinkId, Meta, TreePath};
use avfs_tree::{ObjectWriter, StoredTree};

use crate::error::Result;
use crate::open::OpenVault;
use crate::transfer::{self, DirectoryImport, Imported, Progress, Report, TarImport};

impl OpenVault {
    /// Copies what is in a host directory into the directory `into`, which is made if it does not exist.
    /// If anything is in the way, nothing has changed.
    pub fn import_directory(&self, from: &Path, into: &TreePath, progress: &dyn Progress) -> Result<Report> {
        self.take(into, &self.store_directory(from, into, progress)?)
    }

    /// Copies what is in a tar archive into the directory `into`, which is made if it does not exist.
    pub fn import_tar(&self, archive: impl Read, into: &TreePath, progress: &dyn Progress) -> Result<Report> {
        self.take(into, &self.store_tar(archive, into, progress)?)
    }

    /// Stores what is in a tar archive, for [`OpenVault::take`] with the same `into`.
    pub fn store_tar(
        &self,
        archive: impl Read,
        into: &TreePath,
        progress: &dyn Progress,
    ) -> Result<Imported> {
        let _holding = self.hold_objects()?;
        let objects = self.vault().store().objects();
        let writer = ObjectWriter::new(objects);
        let actor = self.vault().store().actor();
        let implied = Meta {
            mode: 0o755,
            uid: actor.uid,
            gid: actor.gid,
            mtime: self.vault().store().now(),
            ..Meta::default()
        };
        let options = TarImport { is_taken: &|link| self.is_taken(link), implied, ..TarImport::default() };
        let imported = transfer::import_tar(objects, &writer, archive, into, &options, progress)?;
        writer.flush()?;
        Ok(imported)
    }

    /// Stores what is in a host directory, for [`OpenVault::take`] with the same `into`.
    pub fn store_directory(&self, from: &Path, into: &TreePath, progress: &dyn Progress) -> Result<Imported> {
        let _holding = self.hold_objects()?;
        let store = self.vault().store();
        let writer = ObjectWriter::new(store.objects());
        // A store below the directory would otherwise swallow itself.
        let exclude = store.home().map(Path::to_owned).into_iter().collect();
        let options =
            DirectoryImport { exclude, is_taken: &|link| self.is_taken(link), ..DirectoryImport::default() };
        let imported = transfer::import_directory(store.objects(), &writer, from, into, &options, progress)?;
        writer.flush()?;
        Ok(imported)
    }

    /// One that cannot be looked up is left to whoever has it.
    fn is_taken(&self, link: LinkId) -> bool {
        self.tree().is_link_taken(link).unwrap_or(true)
    }

    /// Puts stored host files into the directory `into`. It may be done again, where nothing came of it.
    pub fn take(&self, into: &TreePath, imported: &Imported) -> Result<Report> {
        let tree = StoredTree { entry: imported.directory.clone(), links: imported.links.clone() };
        if self.exists(into)? {
            self.graft_into(into, tree)?;
        } else {
            if let Some((parent, _)) = into.split_last() {
                self.make_directory(&parent, true)?;
            }
            self.graft(into, tree)?;
        }
        Ok(imported.report.clone())
    }
}
