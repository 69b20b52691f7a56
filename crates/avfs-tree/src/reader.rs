//! A tree as one snapshot holds it: read-only, by path, loading only what is asked for.

mod recent;
mod seen_diff;
mod sight;
#[cfg(test)]
mod tests;

use avfs_core::map::{self, Walk};
use avfs_core::rules::{Level, Standing};
use avfs_core::{Content, Entry, EntryKind, EntryName, LinkId, LinkedFile, NodeId, Root, Slot, TreePath};
use bytes::Bytes;

use recent::{Recent, Way};
pub use seen_diff::SeenChange;
use sight::{Sight, denied};

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
    #[error("{path}: the rules give {level} there, and this takes {needed}")]
    Denied { path: TreePath, level: Level, needed: Level },
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
    /// What may be done with it. Below [`Level::Read`], its contents or target are not in the entry.
    pub level: Level,
}

/// Reads one immutable tree, as it is or as rules show it.
#[derive(Clone)]
pub struct TreeReader {
    objects: Objects,
    root: Root,
    sight: Option<Sight>,
    recent: Recent,
}

impl TreeReader {
    pub fn new(objects: Objects, root: Root) -> TreeReader {
        TreeReader { objects, root, sight: None, recent: Recent::default() }
    }

    /// The whole tree, whatever the rules say.
    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The entry at `path`. Symbolic links are not followed.
    pub fn find(&self, path: &TreePath) -> Result<Found, ReadError> {
        let (found, standing) = self.locate(path)?;
        self.shown(found, standing).map_err(|source| object_error(path, source))
    }

    /// The entry at `path` as it is, and where it stands. What is hidden is not found.
    fn locate(&self, path: &TreePath) -> Result<(Found, Option<Standing>), ReadError> {
        let mut way = self.recent.take();
        let outcome = self.walk(path, &mut way);
        self.recent.put(way);
        outcome
    }

    /// Walks to `path` from the directory nearest to it that is on the way already.
    fn walk(&self, path: &TreePath, way: &mut Way) -> Result<(Found, Option<Standing>), ReadError> {
        let not_found = || ReadError::NotFound { path: path.clone() };
        let rest = way.rest_of(path);
        let (mut found, mut standing) = match way.last() {
            Some(passed) => (passed.found.clone(), passed.standing.clone()),
            None => self.top().ok_or_else(not_found)?,
        };
        let mut left = rest.len();
        for name in rest.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let EntryKind::Directory { entries, .. } = &found.entry.kind else {
                let end = path.as_bytes().len() - left;
                let file = path.as_bytes()[..end].strip_suffix(b"/").unwrap_or(&path.as_bytes()[..end]);
                let file = TreePath::parse(file).unwrap_or_else(|_| path.clone());
                return Err(ReadError::NotADirectory { path: file });
            };
            let slot = self.slot(*entries, name).map_err(|source| object_error(path, source))?;
            found = self.resolve(slot.ok_or_else(not_found)?).map_err(|source| object_error(path, source))?;
            standing = self.below(standing.as_ref(), name, &found.entry);
            if !self.is_visible(standing.as_ref(), &found.entry) {
                return Err(not_found());
            }
            if found.entry.is_directory() {
                way.push(name, found.clone(), standing.clone());
            }
            left = left.saturating_sub(name.len() + 1);
        }
        Ok((found, standing))
    }

    /// The root and where it stands, unless it is hidden.
    fn top(&self) -> Option<(Found, Option<Standing>)> {
        let found = Found { entry: self.root.directory.clone(), link: None, level: Level::Write };
        let standing = self.sight.as_ref().map(|sight| sight.root(&found.entry.meta.labels));
        self.is_visible(standing.as_ref(), &found.entry).then_some((found, standing))
    }

    /// Where an entry of a directory stands, if there are rules.
    fn below(&self, above: Option<&Standing>, name: &[u8], entry: &Entry) -> Option<Standing> {
        Some(self.sight.as_ref()?.child(above?, name, entry))
    }

    fn is_visible(&self, standing: Option<&Standing>, entry: &Entry) -> bool {
        match (&self.sight, standing) {
            (Some(sight), Some(standing)) => sight.is_visible(standing, entry),
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    fn slot(&self, entries: Option<NodeId>, name: &[u8]) -> Result<Option<Slot>, ObjectError> {
        map::get(&self.objects, entries, name)
    }

    /// The entry behind a slot, which for a linked file is in the link table.
    fn resolve(&self, slot: Slot) -> Result<Found, ObjectError> {
        match slot {
            Slot::Own(entry) => Ok(Found { entry, link: None, level: Level::Write }),
            Slot::Link(id) => {
                let file: Option<LinkedFile> = map::get(&self.objects, self.root.links, &id.key())?;
                let file = file.ok_or(avfs_core::DecodeError::Invalid("a linked file has no record"))?;
                Ok(Found { entry: file.entry, link: Some((id, file.names)), level: Level::Write })
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
        let standing = match &self.sight {
            Some(_) => self.locate(path)?.1,
            None => None,
        };
        self.listing(path, entries, standing).map_err(|source| object_error(path, source))
    }

    fn listing(
        &self,
        path: &TreePath,
        entries: Option<NodeId>,
        standing: Option<Standing>,
    ) -> Result<Listing<'_>, ObjectError> {
        let walk = map::walk_after(self.objects.clone(), entries, None)?;
        Ok(Listing { reader: self, path: path.clone(), walk, standing })
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
        let found = self.find(path)?;
        match found.entry.kind {
            EntryKind::File { .. } if found.level < Level::Read => Err(denied(path, found.level)),
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
    /// Where the directory stands, if there are rules.
    standing: Option<Standing>,
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
        let Some((name, found, standing)) = self.next_visible()? else { return Ok(None) };
        Ok(Some((name, self.reader.shown(found, standing)?)))
    }

    /// The next entry that is not hidden, as it is, and where it stands.
    fn next_visible(&mut self) -> Result<Option<(EntryName, Found, Option<Standing>)>, ObjectError> {
        while let Some((key, slot)) = self.walk.advance()? {
            let name = EntryName::new(&key)
                .map_err(|_| avfs_core::DecodeError::Invalid("a directory holds a bad name"))?;
            let found = self.reader.resolve(slot)?;
            let standing = self.reader.below(self.standing.as_ref(), name.as_bytes(), &found.entry);
            if self.reader.is_visible(standing.as_ref(), &found.entry) {
                return Ok(Some((name, found, standing)));
            }
        }
        Ok(None)
    }
}
