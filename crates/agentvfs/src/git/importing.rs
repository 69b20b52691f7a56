//! The files of a commit, as objects of the store.

use std::io::Read;

use avfs_core::Meta;
use avfs_transfer::{FileImport, ImportedTree, TransferProgress, TransferReport};
use avfs_tree::{ObjectWriter, Objects, VaultLimits};

use super::GitError;
use super::revision::{GitRevision, Listed, ListedKind};
use crate::bundle::StoreImports;
use crate::error::{Error, Result};
use crate::git_names::ObjectName;
use crate::name::VaultName;
use crate::vault::Vault;

/// A target is a path.
const TARGET_MAX: u64 = avfs_core::PATH_MAX as u64;

impl StoreImports<'_> {
    /// Makes a vault of the files of a commit. It appears with all of them or not at all.
    pub fn git(
        &self,
        name: &VaultName,
        revision: &GitRevision,
        limits: VaultLimits,
        progress: &dyn TransferProgress,
    ) -> Result<(Vault, TransferReport)> {
        let shown = avfs_core::printable(revision.place().as_os_str().as_encoded_bytes());
        let action = format!("create from {shown} at {}", revision.commit());
        self.store.create_imported(name, &action, limits, |writer| {
            let owner = (self.store.actor().uid, self.store.actor().gid);
            import_revision(self.store.objects(), writer, revision, owner, progress)
        })
    }
}

/// Imports the files of a commit: their bytes as git has them, without filters, and the commit's time. The place of a
/// submodule is an empty directory.
fn import_revision(
    objects: &Objects,
    writer: &ObjectWriter,
    revision: &GitRevision,
    owner: (u32, u32),
    progress: &dyn TransferProgress,
) -> Result<ImportedTree> {
    let meta = |mode: u32| Meta {
        mode,
        uid: owner.0,
        gid: owner.1,
        mtime: revision.time(),
        ..Meta::default()
    };
    let mut import = FileImport::new(objects, writer, meta(0o755), progress);
    let listed = revision.list()?;
    let is_submodule = |listed: &&Listed| listed.kind == ListedKind::Submodule;
    for submodule in listed.iter().filter(is_submodule) {
        import.add_directory(&submodule.path, meta(0o755));
    }
    let with_bytes: Vec<(&Listed, &ObjectName)> = listed.iter().filter_map(with_object).collect();
    let names: Vec<&ObjectName> = with_bytes.iter().map(|(_, object)| *object).collect();
    revision.read(&names, |index, size, bytes| -> Result<()> {
        let (listed, _) = with_bytes[index];
        match &listed.kind {
            ListedKind::Symlink { .. } => {
                import.add_symlink(&listed.path, meta(0o777), target(size, bytes)?);
                Ok(())
            }
            ListedKind::File { executable, .. } => {
                let mode = if *executable { 0o755 } else { 0o644 };
                import.add_file(&listed.path, meta(mode), |piece| {
                    Ok::<_, Error>(bytes.read(piece).map_err(reading)?)
                })
            }
            ListedKind::Submodule => Ok(()),
        }
    })?;
    Ok(import.finish()?)
}

fn with_object(listed: &Listed) -> Option<(&Listed, &ObjectName)> {
    match &listed.kind {
        ListedKind::File { object, .. } | ListedKind::Symlink { object } => Some((listed, object)),
        ListedKind::Submodule => None,
    }
}

fn reading(source: std::io::Error) -> GitError {
    GitError::Host {
        action: "reading what git prints",
        source,
    }
}

fn target(size: u64, bytes: &mut dyn Read) -> Result<Vec<u8>, GitError> {
    let mut target = Vec::new();
    bytes
        .take(size.min(TARGET_MAX))
        .read_to_end(&mut target)
        .map_err(reading)?;
    Ok(target)
}
