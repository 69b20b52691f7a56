//! The tree of one snapshot: read-only, by path, loading only the requested parts.

mod recent;
mod rewritten;
mod scope;
#[cfg(test)]
mod tests;
mod visible_diff;

use avfs_core::map::{self, MapWalk};
use avfs_core::rules::{Level, RuleState};
use avfs_core::{Content, Entry, EntryKind, EntryName, LinkId, LinkedFile, NodeId, Root, Slot, TreePath};
use bytes::Bytes;

use recent::{PathWay, RecentPath};
pub use rewritten::settle_rewritten;
use scope::{RuleScope, denied};
pub use visible_diff::VisibleChange;

use crate::content;
use crate::objects::{ObjectError, Objects};

/// Why a path of a tree could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such entry, or the rules hide it.
    #[error("{path} does not exist")]
    NotFound {
        /// The path.
        path: TreePath,
    },
    /// A name before the end of the path is not a directory.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// The path up to that name.
        path: TreePath,
    },
    /// It is a directory, and a file is needed.
    #[error("{path} is a directory")]
    IsADirectory {
        /// The path.
        path: TreePath,
    },
    /// It is neither a file nor a directory.
    #[error("{path} is not a file")]
    NotAFile {
        /// The path.
        path: TreePath,
    },
    /// The rules allow less than is needed.
    #[error("{path}: the rules give {level} there, and this takes {needed}")]
    Denied {
        /// The path.
        path: TreePath,
        /// What they allow.
        level: Level,
        /// What is needed.
        needed: Level,
    },
    /// An object of it could not be read.
    #[error("reading {path}")]
    Object {
        /// The path.
        path: TreePath,
        /// What went wrong.
        #[source]
        source: ObjectError,
    },
}

/// An entry with the id of its link, if it has several names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// The entry.
    pub entry: Entry,
    /// For a file with several names: its number in the link table, and how many names it has.
    pub link: Option<(LinkId, u32)>,
    /// The level of the entry. Below [`Level::Read`], its contents or target are not included.
    pub level: Level,
}

/// Reads one immutable tree, complete or filtered by rules.
#[derive(Clone)]
pub struct TreeReader {
    objects: Objects,
    root: Root,
    scope: Option<RuleScope>,
    recent: RecentPath,
}

impl TreeReader {
    /// Reads the tree of `root`, all of it.
    pub fn new(objects: Objects, root: Root) -> TreeReader {
        TreeReader {
            objects,
            root,
            scope: None,
            recent: RecentPath::default(),
        }
    }

    /// The whole tree, regardless of the rules.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The objects that it reads.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The entry at `path`. Symbolic links are not followed.
    pub fn find(&self, path: &TreePath) -> Result<FoundEntry, ReadError> {
        let (found, rule_state) = self.locate(path)?;
        self.as_visible(found, rule_state)
            .map_err(|source| object_error(path, source))
    }

    /// The entry at `path` unfiltered, and its rule state. Hidden entries are not found.
    fn locate(&self, path: &TreePath) -> Result<(FoundEntry, Option<RuleState>), ReadError> {
        let mut way = self.recent.take();
        let outcome = self.walk(path, &mut way);
        self.recent.put(way);
        outcome
    }

    /// Walks to `path` from the nearest directory that was visited before.
    fn walk(&self, path: &TreePath, way: &mut PathWay) -> Result<(FoundEntry, Option<RuleState>), ReadError> {
        let not_found = || ReadError::NotFound { path: path.clone() };
        let rest = way.rest_of(path);
        let (mut found, mut rule_state) = match way.last() {
            Some(passed) => (passed.found.clone(), passed.rule_state.clone()),
            None => self.top().ok_or_else(not_found)?,
        };
        let mut left = rest.len();
        for name in rest.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let EntryKind::Directory { entries, .. } = &found.entry.kind else {
                let end = path.as_bytes().len() - left;
                let file = path.as_bytes()[..end]
                    .strip_suffix(b"/")
                    .unwrap_or(&path.as_bytes()[..end]);
                let file = TreePath::parse(file).unwrap_or_else(|_| path.clone());
                return Err(ReadError::NotADirectory { path: file });
            };
            let slot = self
                .slot(*entries, name)
                .map_err(|source| object_error(path, source))?;
            found = self
                .resolve(slot.ok_or_else(not_found)?)
                .map_err(|source| object_error(path, source))?;
            rule_state = self.below(rule_state.as_ref(), name, &found.entry);
            if !self.is_visible(rule_state.as_ref(), &found.entry) {
                return Err(not_found());
            }
            if found.entry.is_directory() {
                way.push(name, found.clone(), rule_state.clone());
            }
            left = left.saturating_sub(name.len() + 1);
        }
        Ok((found, rule_state))
    }

    /// The root and its rule state, unless it is hidden.
    fn top(&self) -> Option<(FoundEntry, Option<RuleState>)> {
        let found = FoundEntry {
            entry: self.root.directory.clone(),
            link: None,
            level: Level::Write,
        };
        let rule_state = self
            .scope
            .as_ref()
            .map(|scope| scope.root(&found.entry.meta.labels));
        self.is_visible(rule_state.as_ref(), &found.entry)
            .then_some((found, rule_state))
    }

    /// The rule state of an entry of a directory, if there are rules.
    fn below(&self, above: Option<&RuleState>, name: &[u8], entry: &Entry) -> Option<RuleState> {
        Some(self.scope.as_ref()?.child(above?, name, entry))
    }

    fn is_visible(&self, rule_state: Option<&RuleState>, entry: &Entry) -> bool {
        match (&self.scope, rule_state) {
            (Some(scope), Some(rule_state)) => scope.is_visible(rule_state, entry),
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    fn slot(&self, entries: Option<NodeId>, name: &[u8]) -> Result<Option<Slot>, ObjectError> {
        map::get(&self.objects, entries, name)
    }

    /// The entry behind a slot, which for a linked file is in the link table.
    fn resolve(&self, slot: Slot) -> Result<FoundEntry, ObjectError> {
        match slot {
            Slot::Own(entry) => Ok(FoundEntry {
                entry,
                link: None,
                level: Level::Write,
            }),
            Slot::Link(id) => {
                let file: Option<LinkedFile> = map::get(&self.objects, self.root.links, &id.key())?;
                let file = file.ok_or(avfs_core::DecodeError::Invalid("a linked file has no record"))?;
                Ok(FoundEntry {
                    entry: file.entry,
                    link: Some((id, file.names)),
                    level: Level::Write,
                })
            }
        }
    }

    /// The entries of the directory at `path`, by name, loaded in parts.
    pub fn list(&self, path: &TreePath) -> Result<TreeListing<'_>, ReadError> {
        let entry = self.find(path)?.entry;
        self.list_entry(path, &entry)
    }

    /// The entries of a directory whose entry is known already.
    pub fn list_entry(&self, path: &TreePath, entry: &Entry) -> Result<TreeListing<'_>, ReadError> {
        let EntryKind::Directory { entries, .. } = entry.kind else {
            return Err(ReadError::NotADirectory { path: path.clone() });
        };
        let rule_state = match &self.scope {
            Some(_) => self.locate(path)?.1,
            None => None,
        };
        self.listing(path, entries, rule_state)
            .map_err(|source| object_error(path, source))
    }

    fn listing(
        &self,
        path: &TreePath,
        entries: Option<NodeId>,
        rule_state: Option<RuleState>,
    ) -> Result<TreeListing<'_>, ObjectError> {
        let walk = map::walk_after(self.objects.clone(), entries, None)?;
        Ok(TreeListing {
            reader: self,
            path: path.folded(),
            walk,
            rule_state,
        })
    }

    /// All the bytes of the file at `path`.
    pub fn read(&self, path: &TreePath) -> Result<Bytes, ReadError> {
        let (size, content) = self.file(path)?;
        content::read_all(&self.objects, content, size).map_err(|source| object_error(path, source))
    }

    /// Fills `out` from an offset of a file on; returns how many bytes there were.
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
    ReadError::Object {
        path: path.clone(),
        source,
    }
}

/// The entries of one directory, in order.
pub struct TreeListing<'a> {
    reader: &'a TreeReader,
    /// For errors. Folded: a walk through a deep tree has one such path for each level.
    path: TreePath,
    walk: MapWalk<Slot, Objects>,
    /// The rule state of the directory, if there are rules.
    rule_state: Option<RuleState>,
}

impl Iterator for TreeListing<'_> {
    type Item = Result<(EntryName, FoundEntry), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose()?;
        Some(next.map_err(|source| object_error(&self.path, source)))
    }
}

impl TreeListing<'_> {
    fn advance(&mut self) -> Result<Option<(EntryName, FoundEntry)>, ObjectError> {
        let Some((name, found, rule_state)) = self.next_visible()? else {
            return Ok(None);
        };
        Ok(Some((name, self.reader.as_visible(found, rule_state)?)))
    }

    /// The next entry that is not hidden, unfiltered, and its rule state.
    fn next_visible(&mut self) -> Result<Option<(EntryName, FoundEntry, Option<RuleState>)>, ObjectError> {
        while let Some((key, slot)) = self.walk.advance()? {
            let name = EntryName::new(&key)
                .map_err(|_| avfs_core::DecodeError::Invalid("a directory holds a bad name"))?;
            let found = self.reader.resolve(slot)?;
            let rule_state = self
                .reader
                .below(self.rule_state.as_ref(), name.as_bytes(), &found.entry);
            if self.reader.is_visible(rule_state.as_ref(), &found.entry) {
                return Ok(Some((name, found, rule_state)));
            }
        }
        Ok(None)
    }
}
