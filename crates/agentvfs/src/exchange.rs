//! Bringing host files into a vault and out of it: what `import`, `export` and `vault create --from` do.

use std::io::Read;
use std::path::Path;

use avfs_core::{LinkId, Meta, TreePath};
use avfs_tree::{ObjectWriter, StoredTree};

use crate::error::Result;
use crate::open::OpenVault;
use crate::transfer::{self, DirectoryImport, Imported, Progress, Report, TarImport};

/// What an import is to be strict about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Import the rest if something is refused; otherwise that fails the import.
    pub skip_refused: bool,
    /// Keep setuid and setgid bits of an archive.
    pub keep_privileges: bool,
    /// Take device nodes from an archive.
    pub devices: bool,
}

impl OpenVault {
    /// Puts the contents of a host directory at `into`, which is made if it does not exist. Nothing that is
    /// there is overwritten: a name that is taken fails the import.
    pub fn import_directory(
        &mut self,
        from: &Path,
        into: &TreePath,
        options: ImportOptions,
        progress: &dyn Progress,
    ) -> Result<Report> {
        self.hold_objects()?;
        let objects = self.vault().store().objects().clone();
        let writer = ObjectWriter::new(&objects);
        let is_taken = |link| self.is_link_taken(link);
        let import = DirectoryImport {
            exclude: self.vault().store().home().into_iter().map(Path::to_owned).collect(),
            skip_refused: options.skip_refused,
            is_taken: &is_taken,
            ..DirectoryImport::default()
        };
        let imported = transfer::import_directory(&objects, &writer, from, into, &import, progress)?;
        writer.flush()?;
        self.take_in(into, imported)
    }

    /// Puts the contents of a tar archive, gzipped or not, at `into`, as a directory is put there.
    pub fn import_tar(
        &mut self,
        archive: &mut dyn Read,
        into: &TreePath,
        options: ImportOptions,
        progress: &dyn Progress,
    ) -> Result<Report> {
        self.hold_objects()?;
        let store = self.vault().store().clone();
        let writer = ObjectWriter::new(store.objects());
        let is_taken = |link| self.is_link_taken(link);
        let actor = store.actor();
        let implied =
            Meta { mode: 0o755, uid: actor.uid, gid: actor.gid, mtime: store.now(), ..Meta::default() };
        let import = TarImport {
            skip_refused: options.skip_refused,
            devices: options.devices,
            keep_privileges: options.keep_privileges,
            implied,
            is_taken: &is_taken,
        };
        let imported = transfer::import_tar(store.objects(), &writer, archive, into, &import, progress)?;
        writer.flush()?;
        self.take_in(into, imported)
    }

    /// A number that cannot be looked up counts as taken: then another one is tried.
    fn is_link_taken(&self, link: LinkId) -> bool {
        self.tree().is_link_taken(link).unwrap_or(true)
    }

    fn take_in(&mut self, into: &TreePath, imported: Imported) -> Result<Report> {
        let tree = StoredTree { entry: imported.directory, links: imported.links };
        if self.exists(into)? {
            self.graft_into(into, tree)?;
        } else {
            if let Some((parent, _)) = into.split_last() {
                self.make_directory(&parent, true)?;
            }
            self.graft(into, tree)?;
        }
        Ok(imported.report)
    }
}
