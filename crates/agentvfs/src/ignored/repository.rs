//! A repository in a task: where its own files are, and which files it tracks.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use avfs_core::{Content, Entry, EntryKind, EntryName, PromiseId, TreePath};
use avfs_tree::{KeptPromise, ObjectError, ReadError, TreeReader, content};
use bytes::Bytes;

use super::index::TrackedPaths;
use super::{States, name_of};

/// Longer lists of patterns, and longer files that name a directory, are not written by people.
const LIST_MAX: u64 = 16 << 20;
/// A larger index is not read: millions of files.
const INDEX_MAX: u64 = 1 << 30;

pub(super) struct Repository {
    /// Where its files are.
    top: TreePath,
    /// Its own directory; `None` if that is not in the tree.
    place: Option<TreePath>,
    tracked: OnceLock<TrackedStates>,
}

enum TrackedStates {
    /// By the index of each state.
    Known(Vec<Arc<TrackedPaths>>),
    /// Files that existed when the task began count as tracked.
    Unknown,
}

impl Repository {
    /// The repository of a directory with a `.git`.
    pub(super) fn at(states: &States, top: &TreePath) -> Result<Repository, ReadError> {
        let marker = top.join(&name_of(".git"));
        let mut place = None;
        for reader in [&states.head, &states.base] {
            place = match kind_of(reader, &marker)? {
                Some(EntryKind::Directory { .. }) => Some(marker.clone()),
                Some(EntryKind::File { .. }) => pointed_at(reader, top, &marker)?,
                _ => continue,
            };
            break;
        }
        Ok(Repository {
            top: top.clone(),
            place,
            tracked: OnceLock::new(),
        })
    }

    /// The list of paths that are ignored in this repository only.
    pub(super) fn excludes(&self, states: &States) -> Result<Option<Bytes>, ReadError> {
        match &self.place {
            Some(place) => read_small(
                &states.head,
                &place.join(&name_of("info")).join(&name_of("exclude")),
            ),
            None => Ok(None),
        }
    }

    /// Whether a path is tracked, now or when the task began; for a directory, something below it.
    pub(super) fn tracks(
        &self,
        states: &States,
        path: &TreePath,
        is_directory: bool,
    ) -> Result<bool, ReadError> {
        let tracked = match self.tracked.get() {
            Some(tracked) => tracked,
            None => {
                let read = self.read_tracked(states)?;
                self.tracked.get_or_init(|| read)
            }
        };
        let skipped = if self.top.is_root() {
            0
        } else {
            self.top.as_bytes().len() + 1
        };
        let below = path.as_bytes().get(skipped..).unwrap_or_default();
        match tracked {
            TrackedStates::Known(paths) if is_directory => {
                Ok(paths.iter().any(|paths| paths.contains_below(below)))
            }
            TrackedStates::Known(paths) => Ok(paths.iter().any(|paths| paths.contains(below))),
            TrackedStates::Unknown => Ok(kind_of(&states.base, path)?.is_some()),
        }
    }

    fn read_tracked(&self, states: &States) -> Result<TrackedStates, ReadError> {
        let Some(place) = &self.place else {
            return Ok(TrackedStates::Unknown);
        };
        let file = place.join(&name_of("index"));
        let (before, now) = (kind_of(&states.base, &file)?, kind_of(&states.head, &file)?);
        let mut known = Vec::new();
        let readers = [Some(&states.head), (before != now).then_some(&states.base)];
        for reader in readers.into_iter().flatten() {
            if !self.read_index(reader, &file, &mut known)? {
                return Ok(TrackedStates::Unknown);
            }
        }
        Ok(TrackedStates::Known(known))
    }

    /// Adds the paths of an index, and of the one that it is laid over. `false`: it cannot be read.
    fn read_index(
        &self,
        reader: &TreeReader,
        file: &TreePath,
        known: &mut Vec<Arc<TrackedPaths>>,
    ) -> Result<bool, ReadError> {
        let content = match kind_of(reader, file)? {
            None => return Ok(true),
            Some(EntryKind::File { size, content }) if size <= INDEX_MAX => content,
            Some(_) => return Ok(false),
        };
        let paths = match RECENT.get(content) {
            Some(paths) => paths,
            None => {
                let bytes = present_bytes(reader, file)?;
                let Some(paths) = bytes.and_then(|bytes| TrackedPaths::parse(&bytes)) else {
                    return Ok(false);
                };
                RECENT.put(content, Arc::new(paths))
            }
        };
        let shared = paths.shared.clone();
        known.push(paths);
        let Some((shared, (place, _))) = shared.zip(file.split_last()) else {
            return Ok(true);
        };
        let file = place.join(&name_of(&format!("sharedindex.{shared}")));
        match read_small(reader, &file)?.and_then(|bytes| TrackedPaths::parse(&bytes)) {
            Some(paths) => known.push(Arc::new(paths)),
            None => return Ok(false),
        }
        Ok(true)
    }
}

/// The indexes that were read last. Several tasks began with the same one, and each is used more than once.
static RECENT: Recent = Recent(Mutex::new(Vec::new()));
const RECENT_MAX: usize = 8;

/// By the id of their contents, which is never that of others.
struct Recent(Mutex<Vec<(Content, Arc<TrackedPaths>)>>);

impl Recent {
    fn get(&self, content: Content) -> Option<Arc<TrackedPaths>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .find(|(known, _)| *known == content)
            .map(|(_, paths)| Arc::clone(paths))
    }

    fn put(&self, content: Content, paths: Arc<TrackedPaths>) -> Arc<TrackedPaths> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == RECENT_MAX {
            known.remove(0);
        }
        known.push((content, Arc::clone(&paths)));
        paths
    }
}

/// The directory that the `.git` file of a submodule names, if it is in the tree.
fn pointed_at(reader: &TreeReader, top: &TreePath, marker: &TreePath) -> Result<Option<TreePath>, ReadError> {
    let Some(text) = read_small(reader, marker)? else {
        return Ok(None);
    };
    let Some(way) = text.strip_prefix(b"gitdir: ").map(<[u8]>::trim_ascii_end) else {
        return Ok(None);
    };
    if way.starts_with(b"/") {
        return Ok(None);
    }
    let mut place: Vec<EntryName> = top.components().collect();
    for part in way.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if place.pop().is_none() => return Ok(None),
            b".." => {}
            part => match EntryName::new(part) {
                Ok(name) => place.push(name),
                Err(_) => return Ok(None),
            },
        }
    }
    Ok(Some(
        place
            .iter()
            .fold(TreePath::root(), |above, name| above.join(name)),
    ))
}

fn kind_of(reader: &TreeReader, path: &TreePath) -> Result<Option<EntryKind>, ReadError> {
    match reader.find(path) {
        Ok(found) => Ok(Some(found.entry.kind)),
        Err(error @ ReadError::Object { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The bytes of a file that is there and not too long.
pub(super) fn read_small(reader: &TreeReader, path: &TreePath) -> Result<Option<Bytes>, ReadError> {
    match kind_of(reader, path)? {
        Some(EntryKind::File { size, .. }) if size <= LIST_MAX => present_bytes(reader, path),
        _ => Ok(None),
    }
}

/// The bytes of a file. A host file that the user has changed before it was first read has the bytes of its
/// new version; a file that the host does not provide has none.
fn present_bytes(reader: &TreeReader, path: &TreePath) -> Result<Option<Bytes>, ReadError> {
    match reader.read(path) {
        Err(ReadError::Object {
            source: ObjectError::Promised { .. },
            ..
        }) => {}
        bytes => return bytes.map(Some),
    }
    let Some(EntryKind::File { content, .. }) = kind_of(reader, path)? else {
        return Ok(None);
    };
    let id = match content {
        Content::Empty => return Ok(None),
        Content::Blob(id) => id.object(),
        Content::Chunks(id) => id.object(),
    };
    let objects = reader.objects();
    let failed = |source| ReadError::Object {
        path: path.clone(),
        source,
    };
    let kept = objects.kept(PromiseId::from_object(id)).map_err(failed)?;
    match kept.as_deref() {
        Some(KeptPromise::Moved {
            entry:
                Entry {
                    kind: EntryKind::File { size, content },
                    ..
                },
            ..
        }) => content::read_all(objects, *content, *size)
            .map(Some)
            .map_err(failed),
        _ => Ok(None),
    }
}
