//! A tree as one snapshot holds it: read-only, by path, loading only what is asked for.

use avfs_core::map::{self, Walk};
use avfs_core::{Content, Entry, EntryKind, EntryName, LinkId, LinkedFile, NodeId, Root, Slot, TreePath};
use bytes::Bytes;

use crate::content;
use crate::objects::{ObjectError, Objects};

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{path} does not exist")]
    NotFound { path: TreePath },
    #[error("{path} is not a directory")]
    NotADirectory { path: TreePath },
    #[error("{path} is a directory")]
    IsADirectory { path: TreePath },
    #[error("{path} is not a file")]
    NotAFile { path: TreePath },
    #[error("reading {path}")]
    Object {
        path: TreePath,
        #[source]
        source: ObjectError,
    },
}

/// An entry with the id of its link, if it has several names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub entry: Entry,
    pub link: Option<(LinkId, u32)>,
}

/// Reads one immutable tree.
#[derive(Clone)]
pub struct TreeReader {
    objects: Objects,
    root: Root,
}

impl TreeReader {
    pub fn new(objects: Objects, root: Root) -> TreeReader {
        TreeReader { objects, root }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The entry at `path`. Symbolic links are not followed.
    pub fn find(&self, path: &TreePath) -> Result<Found, ReadError> {
        let mut found = Found { entry: self.root.directory.clone(), link: None };
        let mut walked = TreePath::root();
        for name in path.components() {
            let EntryKind::Directory { entries, .. } = &found.entry.kind else {
                return Err(ReadError::NotADirectory { path: walked });
            };
            let slot = self.slot(*entries, &name).map_err(|source| object_error(path, source))?;
            walked.push(&name);
            let slot = slot.ok_or_else(|| ReadError::NotFound { path: path.clone() })?;
            found = self.resolve(slot).map_err(|source| object_error(path, source))?;
        }
        Ok(found)
    }

    fn slot(&self, entries: Option<NodeId>, name: &EntryName) -> Result<Option<Slot>, ObjectError> {
        map::get(&self.objects, entries, name.as_bytes())
    }

    /// The entry behind a slot, which for a linked file is in the link table.
    pub fn resolve(&self, slot: Slot) -> Result<Found, ObjectError> {
        match slot {
            Slot::Own(entry) => Ok(Found { entry, link: None }),
            Slot::Link(id) => {
                let file: Option<LinkedFile> = map::get(&self.objects, self.root.links, &id.key())?;
                let file = file.ok_or(avfs_core::DecodeError::Invalid("a linked file has no record"))?;
                Ok(Found { entry: file.entry, link: Some((id, file.names)) })
            }
        }
    }

    /// The entries of the directory at `path`, by name, without loading them all at once.
    pub fn list(&self, path: &TreePath) -> Result<Listing<'_>, ReadError> {
        let entry = self.find(path)?.entry;
        self.list_entry(path, &entry)
    }

    /// The entries of a directory whose entry is known already.
    pub fn list_entry(&self, path: &TreePath, entry: &Entry) -> Result<Listing<'_>, ReadError> {
        let EntryKind::Directory { entries, .. } = entry.kind else {
            return Err(ReadError::NotADirectory { path: path.clone() });
        };
        let walk = map::walk_after(self.objects.clone(), entries, None);
        let walk = walk.map_err(|source| object_error(path, source))?;
        Ok(Listing { reader: self, path: path.clone(), walk })
    }

    /// All the bytes of the file at `path`.
    pub fn read(&self, path: &TreePath) -> Result<Bytes, ReadError> {
        let (size, content) = self.file(path)?;
        content::read_all(&self.objects, content, size).map_err(|source| object_error(path, source))
    }

    pub fn read_at(&self, path: &TreePath, offset: u64, out: &mut [u8]) -> Result<usize, ReadError> {
        let (size, content) = self.file(path)?;
        content::read_at(&self.objects, content, size, offset, out)
            .map_err(|source| object_error(path, source))
    }

    /// Size and contents of the file at `path`.
    pub fn file(&self, path: &TreePath) -> Result<(u64, Content), ReadError> {
        match self.find(path)?.entry.kind {
            EntryKind::File { size, content } => Ok((size, content)),
            EntryKind::Directory { .. } => Err(ReadError::IsADirectory { path: path.clone() }),
            EntryKind::Symlink { .. }
            | EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice { .. }
            | EntryKind::BlockDevice { .. } => Err(ReadError::NotAFile { path: path.clone() }),
        }
    }
}

fn object_error(path: &TreePath, source: ObjectError) -> ReadError {
    ReadError::Object { path: path.clone(), source }
}

/// The entries of one directory, one after the other.
pub struct Listing<'a> {
    reader: &'a TreeReader,
    path: TreePath,
    walk: Walk<Slot, Objects>,
}

impl Iterator for Listing<'_> {
    type Item = Result<(EntryName, Found), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose()?;
        Some(next.map_err(|source| object_error(&self.path, source)))
    }
}

impl Listing<'_> {
    fn advance(&mut self) -> Result<Option<(EntryName, Found)>, ObjectError> {
        let Some((key, slot)) = self.walk.advance()? else { return Ok(None) };
        let name = EntryName::new(&key)
            .map_err(|_| avfs_core::DecodeError::Invalid("a directory holds a bad name"))?;
        Ok(Some((name, self.reader.resolve(slot)?)))
    }
}
