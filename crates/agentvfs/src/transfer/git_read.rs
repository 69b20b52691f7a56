//! The files of a commit, as objects of the store.

use std::io::Read;

use avfs_core::{Entry, EntryKind, Meta, TreePath};
use avfs_tree::content::ContentBuilder;
use avfs_tree::{ObjectWriter, Objects};

use super::error::{Reason, TransferError};
use super::tar_tree::TarTree;
use super::{Imported, Progress, Tally};
use crate::git::{GitError, GitRevision, Listed, ListedKind, ObjectName};

/// The bytes that are read at a time.
const PIECE: usize = 128 << 10;
/// A target is a path.
const TARGET_MAX: u64 = avfs_core::PATH_MAX as u64;

/// Imports the files of a commit: their bytes as git has them, without filters, and the commit's time. The place of a
/// submodule is an empty directory.
pub(crate) fn import_revision(
    objects: &Objects,
    writer: &ObjectWriter,
    revision: &GitRevision,
    owner: (u32, u32),
    progress: &dyn Progress,
) -> Result<Imported, TransferError> {
    let meta =
        |mode: u32| Meta { mode, uid: owner.0, gid: owner.1, mtime: revision.time(), ..Meta::default() };
    let root = TreePath::root();
    let mut tree = TarTree::new(meta(0o755), &root);
    let tally = Tally::default();
    let listed = revision.list()?;
    for submodule in listed.iter().filter(|listed| listed.kind == ListedKind::Submodule) {
        keep(&tally, &submodule.path, tree.add_directory(&submodule.path, meta(0o755)));
    }
    let with_bytes: Vec<(&Listed, &ObjectName)> = listed.iter().filter_map(with_object).collect();
    let names: Vec<&ObjectName> = with_bytes.iter().map(|(_, object)| *object).collect();
    revision.read(&names, |index, size, bytes| -> Result<(), TransferError> {
        let (listed, _) = with_bytes[index];
        let contents = Contents { objects, writer, progress };
        let entry = match &listed.kind {
            ListedKind::Symlink { .. } => Entry { meta: meta(0o777), kind: symlink(size, bytes)? },
            ListedKind::File { executable, .. } => {
                let mode = if *executable { 0o755 } else { 0o644 };
                Entry { meta: meta(mode), kind: contents.file(&listed.path, bytes)? }
            }
            ListedKind::Submodule => return Ok(()),
        };
        progress.advance(1, 0);
        keep(&tally, &listed.path, tree.add(&listed.path, entry));
        Ok(())
    })?;
    let skipped = tally.report().unless_refused(false)?.skipped;
    let built = tree.build(objects, writer, &root, &|_| false);
    let mut built = built.map_err(|source| TransferError::Object { path: root, source })?;
    built.report.skipped = skipped;
    Ok(built)
}

fn with_object(listed: &Listed) -> Option<(&Listed, &ObjectName)> {
    match &listed.kind {
        ListedKind::File { object, .. } | ListedKind::Symlink { object } => Some((listed, object)),
        ListedKind::Submodule => None,
    }
}

fn keep(tally: &Tally, path: &[u8], added: Result<(), Reason>) {
    if let Err(reason) = added {
        tally.skip(path, reason);
    }
}

fn reading(source: std::io::Error) -> TransferError {
    GitError::Host { action: "reading what git prints", source }.into()
}

fn symlink(size: u64, bytes: &mut dyn Read) -> Result<EntryKind, TransferError> {
    let mut target = Vec::new();
    bytes.take(size.min(TARGET_MAX)).read_to_end(&mut target).map_err(reading)?;
    Ok(EntryKind::Symlink { target: target.into() })
}

struct Contents<'a> {
    objects: &'a Objects,
    writer: &'a ObjectWriter,
    progress: &'a dyn Progress,
}

impl Contents<'_> {
    fn file(&self, path: &[u8], bytes: &mut dyn Read) -> Result<EntryKind, TransferError> {
        let storing =
            |source| TransferError::Object { path: TreePath::parse(path).unwrap_or_default(), source };
        let mut builder = ContentBuilder::new(self.objects, self.writer);
        let mut piece = vec![0; PIECE];
        loop {
            match bytes.read(&mut piece).map_err(reading)? {
                0 => break,
                len => {
                    builder.push(&piece[..len]).map_err(storing)?;
                    self.progress.advance(0, len as u64);
                }
            }
        }
        let (size, content) = builder.finish().map_err(storing)?;
        Ok(EntryKind::File { size, content })
    }
}
