//! The two sides of one changed file, compared.

use avfs_core::chunks::{self, CHUNK_SIZE};
use avfs_core::rules::Level;
use avfs_core::{Content, Entry, EntryKind};
use avfs_tree::{ObjectError, Objects, content};
use bytes::Bytes;

use super::changes::{ChangeSide, ChangeStatus, FileChange};
use super::lines::{LineDiff, count};
use super::{PatchError, PatchOptions};

/// One changed file with its differences.
#[derive(Clone, Debug)]
pub struct FileDiff {
    /// The file before and after.
    pub change: FileChange,
    /// How its contents differ.
    pub body: PatchBody,
    pub(super) old: LoadedContents,
    pub(super) new: LoadedContents,
}

/// How the contents of a file differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchBody {
    /// The contents are the same: it was renamed, or its attributes differ.
    Same,
    /// Both sides are text.
    Text(LineDiff),
    /// At least one side is not text, or too large to be compared; the sizes before and after.
    Binary {
        /// The size before.
        old: u64,
        /// The size after.
        new: u64,
    },
}

/// The extent of a file's differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchStat {
    /// Both sides are text.
    Lines {
        /// Lines that are new.
        insertions: u32,
        /// Lines that are gone.
        deletions: u32,
    },
    /// At least one side is not text.
    Binary {
        /// The size before.
        old: u64,
        /// The size after.
        new: u64,
    },
    /// Too large to count its lines, or to inspect its contents.
    Large {
        /// The size before.
        old: u64,
        /// The size after.
        new: u64,
        /// About how many bytes differ, in chunks.
        changed: u64,
    },
}

/// After this many differing chunks, the rest counts as different too.
const DIFFERING_MAX: u64 = 1 << 16;

/// The contents of one side.
#[derive(Clone, Debug)]
pub(super) enum LoadedContents {
    Nothing,
    Bytes(Bytes),
    /// There, but too large, or nothing that has contents.
    Unread {
        size: u64,
    },
}

/// A NUL byte within this many bytes makes a file binary.
const BINARY_PROBE: usize = 8 << 10;

impl FileDiff {
    /// Reads both sides of a change and compares them.
    pub fn compute(
        objects: &Objects,
        change: &FileChange,
        options: &PatchOptions,
    ) -> Result<FileDiff, PatchError> {
        let (old, new) = load_both(objects, change, options)?;
        let body = match (&old, &new) {
            _ if same_contents(change) => PatchBody::Same,
            (old, new) => match (old.text(options), new.text(options)) {
                (Some(before), Some(after)) => {
                    PatchBody::Text(LineDiff::compute(&before, &after, options.context))
                }
                _ => PatchBody::Binary {
                    old: old.size(),
                    new: new.size(),
                },
            },
        };
        Ok(FileDiff {
            change: change.clone(),
            body,
            old,
            new,
        })
    }
}

impl FileDiff {
    /// The texts before and after, where the contents were compared line by line.
    pub fn texts(&self) -> Option<[&[u8]; 2]> {
        match self.body {
            PatchBody::Text(_) => Some([&self.old, &self.new].map(LoadedContents::bytes)),
            PatchBody::Same | PatchBody::Binary { .. } => None,
        }
    }
}

impl PatchStat {
    /// Counts without keeping the lines. Files that are too large for it are not read.
    pub fn of(
        objects: &Objects,
        change: &FileChange,
        options: &PatchOptions,
    ) -> Result<PatchStat, PatchError> {
        if same_contents(change) {
            return Ok(PatchStat::Lines {
                insertions: 0,
                deletions: 0,
            });
        }
        let options = &PatchOptions {
            binary_bytes: options.text_bytes,
            ..*options
        };
        let sides = || change.old.iter().chain(&change.new);
        if sides().any(|side| side.entry.size() > options.text_bytes) {
            let size = |side: &Option<ChangeSide>| side.as_ref().map_or(0, |side| side.entry.size());
            let (old, new) = (size(&change.old), size(&change.new));
            return Ok(PatchStat::Large {
                old,
                new,
                changed: changed_bytes(objects, change)?.min(old.max(new)),
            });
        }
        let (old, new) = load_both(objects, change, options)?;
        Ok(match (old.text(options), new.text(options)) {
            (Some(before), Some(after)) => {
                let (insertions, deletions) = count(&before, &after);
                PatchStat::Lines {
                    insertions,
                    deletions,
                }
            }
            _ => PatchStat::Binary {
                old: old.size(),
                new: new.size(),
            },
        })
    }
}

/// About how many bytes of a large file differ.
fn changed_bytes(objects: &Objects, change: &FileChange) -> Result<u64, PatchError> {
    let chunks = |side: &Option<ChangeSide>| match side {
        Some(ChangeSide {
            entry:
                Entry {
                    kind: EntryKind::File { size, content },
                    ..
                },
            level,
            ..
        }) if *level >= Level::Read => match objects.known_content(*content) {
            Ok(Content::Chunks(id)) => Ok(Some((id, *size))),
            other => other.map(|_| None),
        },
        _ => Ok(None),
    };
    let count = || match (chunks(&change.old)?, chunks(&change.new)?) {
        (Some(old), Some(new)) => match chunks::differing(objects, old, new, DIFFERING_MAX)? {
            DIFFERING_MAX => Ok(u64::MAX),
            count => Ok(count.saturating_mul(CHUNK_SIZE)),
        },
        _ => Ok(u64::MAX),
    };
    match count() {
        // The old contents are unknown.
        Err(ObjectError::Promised { .. } | ObjectError::WrongKind { .. }) => Ok(u64::MAX),
        counted => counted.map_err(|source| PatchError::Object {
            path: change.path().clone(),
            source,
        }),
    }
}

fn same_contents(change: &FileChange) -> bool {
    match change.status {
        ChangeStatus::Renamed | ChangeStatus::Attributes => true,
        ChangeStatus::Added | ChangeStatus::Removed | ChangeStatus::Modified | ChangeStatus::TypeChanged => {
            false
        }
    }
}

fn load_both(
    objects: &Objects,
    change: &FileChange,
    options: &PatchOptions,
) -> Result<(LoadedContents, LoadedContents), PatchError> {
    if same_contents(change) {
        return Ok((LoadedContents::Nothing, LoadedContents::Nothing));
    }
    let load = |side: &Option<ChangeSide>| {
        side.as_ref()
            .map_or(Ok(LoadedContents::Nothing), |side| load(objects, side, options))
    };
    Ok((load(&change.old)?, load(&change.new)?))
}

fn load(objects: &Objects, side: &ChangeSide, options: &PatchOptions) -> Result<LoadedContents, PatchError> {
    match &side.entry.kind {
        _ if side.level < Level::Read => Ok(LoadedContents::Unread {
            size: Entry::size(&side.entry),
        }),
        EntryKind::File { size, content } if *size <= options.binary_bytes.max(options.text_bytes) => {
            match content::read_all(objects, *content, *size) {
                // The user has changed it before it was first read, or its directory is gone.
                Err(ObjectError::Promised { .. }) => Ok(LoadedContents::Unread { size: *size }),
                bytes => {
                    let path = side.path.clone();
                    bytes
                        .map(LoadedContents::Bytes)
                        .map_err(|source| PatchError::Object { path, source })
                }
            }
        }
        EntryKind::Symlink { target } => Ok(LoadedContents::Bytes(Bytes::copy_from_slice(target))),
        _ => Ok(LoadedContents::Unread {
            size: Entry::size(&side.entry),
        }),
    }
}

impl LoadedContents {
    fn bytes(&self) -> &[u8] {
        match self {
            LoadedContents::Bytes(bytes) => bytes,
            LoadedContents::Nothing | LoadedContents::Unread { .. } => &[],
        }
    }

    fn size(&self) -> u64 {
        match self {
            LoadedContents::Nothing => 0,
            LoadedContents::Bytes(bytes) => bytes.len() as u64,
            LoadedContents::Unread { size } => *size,
        }
    }

    /// The bytes, if they are text. A side that is not there is an empty text.
    fn text(&self, options: &PatchOptions) -> Option<Bytes> {
        match self {
            LoadedContents::Nothing => Some(Bytes::new()),
            LoadedContents::Bytes(bytes) => {
                let probe = &bytes[..bytes.len().min(BINARY_PROBE)];
                let is_text = bytes.len() as u64 <= options.text_bytes && !probe.contains(&0);
                is_text.then(|| bytes.clone())
            }
            LoadedContents::Unread { .. } => None,
        }
    }
}
