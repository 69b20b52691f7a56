//! What one side did: its changes, what it moved, and the contents of its files.

use std::collections::HashMap;

use avfs_core::diff::Change;
use avfs_core::merge::{Contents, Move, Side, moves_by_content};
use avfs_core::{BlobId, Content, Entry, TreePath};
use avfs_tree::content::{ContentBuilder, read_all};
use avfs_tree::{Base, FsError, Ino, ObjectError, ObjectWriter, Objects, SourceError, WorkTree};

use crate::error::Result;
use crate::store::Store;
use crate::vault::Vault;

/// Larger files are not merged line by line.
const TEXT_MAX: u64 = 16 << 20;

/// What one side did to the base.
pub(super) struct Changed {
    pub changes: Vec<Change>,
    moves: Vec<Move>,
}

impl Changed {
    pub fn new(vault: &Vault, base: &Base, now: &Base) -> Result<Changed> {
        let changes = vault.changed_paths(&base.root, &now.root)?;
        let moves = moves_between(vault.store(), base, now, &changes)?;
        Ok(Changed { changes, moves })
    }

    pub fn of(changes: Vec<Change>, moves: Vec<Move>) -> Changed {
        Changed { changes, moves }
    }

    /// Forgets files that were written with the same bytes: whoever merges would take it for a change.
    pub fn drop_rewritten(&mut self, objects: &Objects) -> Result<()> {
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

    /// Forgets moves from or to paths that are not wanted: they are a file that went and one that came.
    pub fn retain_moves(&mut self, mut is_wanted: impl FnMut(&TreePath) -> bool) {
        self.moves.retain(|moved| is_wanted(&moved.from) && is_wanted(&moved.to));
    }

    pub fn side(&self) -> Side<'_> {
        Side { changes: &self.changes, moves: &self.moves }
    }
}

/// The files that are at another path, by their numbers or by their contents.
pub(crate) fn moves_between(
    store: &Store,
    base: &Base,
    now: &Base,
    changes: &[Change],
) -> Result<Vec<Move>, FsError> {
    let mut moves = moves_by_number(store, base, now, changes)?;
    moves.extend(moves_by_content(changes, &moves));
    Ok(moves)
}

/// The files that are at another path with the inode number that they had.
fn moves_by_number(store: &Store, base: &Base, now: &Base, changes: &[Change]) -> Result<Vec<Move>, FsError> {
    let only = |before: &Option<Entry>, after: &Option<Entry>| {
        before.as_ref().is_some_and(|entry| !entry.is_directory()) && after.is_none()
    };
    let gone: Vec<&TreePath> =
        changes.iter().filter(|c| only(&c.before, &c.after)).map(|change| &change.path).collect();
    let added: Vec<&TreePath> =
        changes.iter().filter(|c| only(&c.after, &c.before)).map(|change| &change.path).collect();
    if gone.is_empty() || added.is_empty() {
        return Ok(Vec::new());
    }
    let tree = |base: &Base| WorkTree::in_memory(store.objects().clone(), base.clone(), store.clock());
    let (before, after) = (tree(base)?, tree(now)?);
    let mut places: HashMap<Ino, &TreePath> = HashMap::new();
    for path in gone {
        let attr = before.resolve(path)?;
        if !attr.has_other_names() {
            places.insert(attr.ino, path);
        }
    }
    let mut moves = Vec::new();
    for to in added {
        let attr = after.resolve(to)?;
        if let Some(from) = places.get(&attr.ino).filter(|_| !attr.has_other_names()) {
            moves.push(Move { from: (*from).clone(), to: to.clone() });
        }
    }
    Ok(moves)
}

/// The contents of files in a store.
pub(super) struct Texts<'a> {
    objects: &'a Objects,
    writer: ObjectWriter,
    /// Otherwise only the ids of merged texts are worked out.
    keeps: bool,
}

impl<'a> Texts<'a> {
    pub fn new(objects: &'a Objects, keeps: bool) -> Texts<'a> {
        Texts { objects, writer: ObjectWriter::new(objects), keeps }
    }

    pub fn flush(&self) -> Result<()> {
        Ok(self.writer.flush()?)
    }
}

impl Contents for Texts<'_> {
    type Error = ObjectError;

    fn load(&mut self, size: u64, content: Content) -> Result<Option<Vec<u8>>, ObjectError> {
        if size > TEXT_MAX {
            return Ok(None);
        }
        match read_all(self.objects, content, size) {
            // Both sides wrote over a file that neither had read, and its directory has another one by now.
            Err(ObjectError::Promised { source: SourceError::Moved, .. }) => Ok(None),
            bytes => bytes.map(|bytes| Some(bytes.to_vec())),
        }
    }

    fn store(&mut self, bytes: Vec<u8>) -> Result<Content, ObjectError> {
        if !self.keeps {
            return Ok(if bytes.is_empty() { Content::Empty } else { Content::Blob(BlobId::of(&bytes)) });
        }
        let mut builder = ContentBuilder::new(self.objects, &self.writer);
        builder.push(&bytes)?;
        builder.finish().map(|(_, content)| content)
    }
}
