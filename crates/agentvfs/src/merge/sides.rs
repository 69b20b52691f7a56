//! The work of one side: its changes, its moves, and the contents of its files.

use avfs_core::diff::TreeChange;
use avfs_core::merge::{MergeContents, MergeSide, PathMove};
use avfs_core::{BlobId, Content, EntryKind, PATH_MAX, TreePath};
use avfs_tree::content::{ContentBuilder, read_all};
use avfs_tree::{BaseTree, ObjectError, ObjectWriter, Objects, SourceError};

use crate::error::Result;
use crate::moved_files::moves_between;
use crate::vault::Vault;

/// Larger files are not merged line by line.
const TEXT_MAX: u64 = 16 << 20;

/// The changes of one side relative to the base.
pub(super) struct SideChanges {
    pub changes: Vec<TreeChange>,
    moves: Vec<PathMove>,
}

impl SideChanges {
    pub(super) fn new(vault: &Vault, base: &BaseTree, now: &BaseTree) -> Result<SideChanges> {
        let changes = vault.history().changed_paths(&base.root, &now.root)?;
        let moves = moves_between(vault.store(), base, now, &changes)?;
        Ok(SideChanges { changes, moves })
    }

    /// The same for a dry run, with the paths of [`avfs_core::diff::diff_trees_folded`]. Moves of paths that
    /// cannot be named are unknown.
    pub(super) fn folded(vault: &Vault, base: &BaseTree, now: &BaseTree) -> Result<SideChanges> {
        let mut changes = vault.history().changed_paths_folded(&base.root, &now.root)?;
        let (nameable, deep): (Vec<TreeChange>, Vec<TreeChange>) = changes
            .drain(..)
            .partition(|change| change.path.as_bytes().len() <= PATH_MAX);
        let moves = moves_between(vault.store(), base, now, &nameable)?;
        changes.extend(nameable.into_iter().chain(deep));
        Ok(SideChanges { changes, moves })
    }

    pub(super) fn of(changes: Vec<TreeChange>, moves: Vec<PathMove>) -> SideChanges {
        SideChanges { changes, moves }
    }

    /// Drops files that were rewritten with the same bytes: a merge would treat them as changed.
    pub(super) fn drop_rewritten(&mut self, objects: &Objects) -> Result<()> {
        let mut kept = Vec::with_capacity(self.changes.len());
        for change in std::mem::take(&mut self.changes) {
            let is_rewritten = match (&change.before, &change.after) {
                (Some(before), Some(after)) => {
                    before.meta.mode == after.meta.mode && objects.has_same_bytes(before, after)?
                }
                _ => false,
            };
            if !is_rewritten {
                kept.push(change);
            }
        }
        self.changes = kept;
        Ok(())
    }

    /// Reads the files of the directory that may have the same bytes as before and only a different time, to
    /// find out. Those that the task never read are not read.
    pub(super) fn read_possibly_rewritten(&self, objects: &Objects) -> Result<()> {
        for change in &self.changes {
            let (Some(before), Some(after)) = (&change.before, &change.after) else {
                continue;
            };
            let (
                EntryKind::File { size, content: old },
                EntryKind::File {
                    size: new_size,
                    content: new,
                },
            ) = (&before.kind, &after.kind)
            else {
                continue;
            };
            if size != new_size || before.meta.mode != after.meta.mode || objects.unread(*old)?.is_some() {
                continue;
            }
            if let Some((id, promise)) = objects.unread(*new)? {
                match objects.keep(id, &promise) {
                    // A file that cannot be read at the moment counts as changed.
                    Ok(_) | Err(ObjectError::Promised { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Forgets moves from or to paths that are not wanted: they are a file that went and one that came.
    pub(super) fn retain_moves(&mut self, mut is_wanted: impl FnMut(&TreePath) -> bool) {
        self.moves
            .retain(|moved| is_wanted(&moved.from) && is_wanted(&moved.to));
    }

    pub(super) fn side(&self) -> MergeSide<'_> {
        MergeSide {
            changes: &self.changes,
            moves: &self.moves,
        }
    }
}

/// The contents of files in a store.
pub(crate) struct Texts<'a> {
    objects: &'a Objects,
    writer: ObjectWriter,
    /// Otherwise only the ids of merged texts are worked out.
    keeps: bool,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(objects: &'a Objects, keeps: bool) -> Texts<'a> {
        Texts {
            objects,
            writer: ObjectWriter::new(objects),
            keeps,
        }
    }

    pub(crate) fn flush(&self) -> Result<()> {
        Ok(self.writer.flush()?)
    }
}

impl MergeContents for Texts<'_> {
    type Error = ObjectError;

    fn load(&mut self, size: u64, content: Content) -> Result<Option<Vec<u8>>, ObjectError> {
        if size > TEXT_MAX {
            return Ok(None);
        }
        match read_all(self.objects, content, size) {
            // Both sides wrote over a file that neither had read, and its directory has another one by now.
            Err(ObjectError::Promised {
                source: SourceError::Moved,
                ..
            }) => Ok(None),
            bytes => bytes.map(|bytes| Some(bytes.to_vec())),
        }
    }

    fn store(&mut self, bytes: Vec<u8>) -> Result<Content, ObjectError> {
        if !self.keeps {
            return Ok(if bytes.is_empty() {
                Content::Empty
            } else {
                Content::Blob(BlobId::of(&bytes))
            });
        }
        let mut builder = ContentBuilder::new(self.objects, &self.writer);
        builder.push(&bytes)?;
        builder.finish().map(|(_, content)| content)
    }
}
