//! The two sides of one changed file, compared.

use avfs_core::chunks::{self, CHUNK_SIZE};
use avfs_core::rules::Level;
use avfs_core::{Content, Entry, EntryKind};
use avfs_tree::{ObjectError, Objects, content};
use bytes::Bytes;

use super::changes::{FileChange, Side, Status};
use super::lines::{LineDiff, count};
use super::{PatchError, PatchOptions};

/// One changed file with its differences.
#[derive(Clone, Debug)]
pub struct FileDiff {
    pub change: FileChange,
    pub body: Body,
    pub(super) old: Loaded,
    pub(super) new: Loaded,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The contents are the same: it was renamed, or its attributes differ.
    Same,
    Text(LineDiff),
    /// At least one side is not text, or too large to be compared; the sizes before and after.
    Binary {
        old: u64,
        new: u64,
    },
}

/// How much of a file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stat {
    Lines {
        insertions: u32,
        deletions: u32,
    },
    Binary {
        old: u64,
        new: u64,
    },
    /// Too large for its lines to be counted, or for a look at what it is.
    Large {
        old: u64,
        new: u64,
        /// About how many bytes differ, in chunks.
        changed: u64,
    },
}

/// After so many chunks that differ, the rest is taken to differ too.
const DIFFERING_MAX: u64 = 1 << 16;

/// The contents of one side.
#[derive(Clone, Debug)]
pub(super) enum Loaded {
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
    pub fn compute(
        objects: &Objects,
        change: &FileChange,
        options: &PatchOptions,
    ) -> Result<FileDiff, PatchError> {
        let (old, new) = load_both(objects, change, options)?;
        let body = match (&old, &new) {
            _ if same_contents(change) => Body::Same,
            (old, new) => match (old.text(options), new.text(options)) {
                (Some(before), Some(after)) => {
                    Body::Text(LineDiff::compute(&before, &after, options.context))
                }
                _ => Body::Binary { old: old.size(), new: new.size() },
            },
        };
        Ok(FileDiff { change: change.clone(), body, old, new })
    }
}

impl FileDiff {
    /// The texts before and after, where the contents were compared line by line.
    pub fn texts(&self) -> Option<[&[u8]; 2]> {
        match self.body {
            Body::Text(_) => Some([&self.old, &self.new].map(Loaded::bytes)),
            Body::Same | Body::Binary { .. } => None,
        }
    }
}

impl Stat {
    /// Counts without keeping the lines. Files that are too large for it are not read.
    pub fn of(objects: &Objects, change: &FileChange, options: &PatchOptions) -> Result<Stat, PatchError> {
        if same_contents(change) {
            return Ok(Stat::Lines { insertions: 0, deletions: 0 });
        }
        let options = &PatchOptions { binary_bytes: options.text_bytes, ..*options };
        let sides = || change.old.iter().chain(&change.new);
        if sides().any(|side| side.entry.size() > options.text_bytes) {
            let size = |side: &Option<Side>| side.as_ref().map_or(0, |side| side.entry.size());
            let (old, new) = (size(&change.old), size(&change.new));
            return Ok(Stat::Large { old, new, changed: changed_bytes(objects, change)?.min(old.max(new)) });
        }
        let (old, new) = load_both(objects, change, options)?;
        Ok(match (old.text(options), new.text(options)) {
            (Some(before), Some(after)) => {
                let (insertions, deletions) = count(&before, &after);
                Stat::Lines { insertions, deletions }
            }
            _ => Stat::Binary { old: old.size(), new: new.size() },
        })
    }
}

/// About how many bytes of a large file differ.
fn changed_bytes(objects: &Objects, change: &FileChange) -> Result<u64, PatchError> {
    let chunks = |side: &Option<Side>| match side {
        Some(Side { entry: Entry { kind: EntryKind::File { size, content }, .. }, level, .. })
            if *level >= Level::Read =>
        {
            match objects.known_content(*content) {
                Ok(Content::Chunks(id)) => Ok(Some((id, *size))),
                other => other.map(|_| None),
            }
        }
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
        // Nobody knows what it was.
        Err(ObjectError::Promised { .. } | ObjectError::WrongKind { .. }) => Ok(u64::MAX),
        counted => counted.map_err(|source| PatchError::Object { path: change.path().clone(), source }),
    }
}

fn same_contents(change: &FileChange) -> bool {
    match change.status {
        Status::Renamed | Status::Attributes => true,
        Status::Added | Status::Removed | Status::Modified | Status::TypeChanged => false,
    }
}

fn load_both(
    objects: &Objects,
    change: &FileChange,
    options: &PatchOptions,
) -> Result<(Loaded, Loaded), PatchError> {
    if same_contents(change) {
        return Ok((Loaded::Nothing, Loaded::Nothing));
    }
    let load =
        |side: &Option<Side>| side.as_ref().map_or(Ok(Loaded::Nothing), |side| load(objects, side, options));
    Ok((load(&change.old)?, load(&change.new)?))
}

fn load(objects: &Objects, side: &Side, options: &PatchOptions) -> Result<Loaded, PatchError> {
    match &side.entry.kind {
        _ if side.level < Level::Read => Ok(Loaded::Unread { size: Entry::size(&side.entry) }),
        EntryKind::File { size, content } if *size <= options.binary_bytes.max(options.text_bytes) => {
            match content::read_all(objects, *content, *size) {
                // The user has changed it before anybody read it, or its directory is gone.
                Err(ObjectError::Promised { .. }) => Ok(Loaded::Unread { size: *size }),
                bytes => {
                    let path = side.path.clone();
                    bytes.map(Loaded::Bytes).map_err(|source| PatchError::Object { path, source })
                }
            }
        }
        EntryKind::Symlink { target } => Ok(Loaded::Bytes(Bytes::copy_from_slice(target))),
        _ => Ok(Loaded::Unread { size: Entry::size(&side.entry) }),
    }
}

impl Loaded {
    fn bytes(&self) -> &[u8] {
        match self {
            Loaded::Bytes(bytes) => bytes,
            Loaded::Nothing | Loaded::Unread { .. } => &[],
        }
    }

    fn size(&self) -> u64 {
        match self {
            Loaded::Nothing => 0,
            Loaded::Bytes(bytes) => bytes.len() as u64,
            Loaded::Unread { size } => *size,
        }
    }

    /// The bytes, if they are text. A side that is not there is an empty text.
    fn text(&self, options: &PatchOptions) -> Option<Bytes> {
        match self {
            Loaded::Nothing => Some(Bytes::new()),
            Loaded::Bytes(bytes) => {
                let probe = &bytes[..bytes.len().min(BINARY_PROBE)];
                let is_text = bytes.len() as u64 <= options.text_bytes && !probe.contains(&0);
                is_text.then(|| bytes.clone())
            }
            Loaded::Unread { .. } => None,
        }
    }
}
