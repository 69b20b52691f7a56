//! A changed file of the working tree: older contents below, later writes on top.

mod pages;
mod store;

use std::ops::Range;
use std::sync::Arc;

use avfs_core::Content;
use bytes::Bytes;

use crate::content;
use crate::error::FsError;
use crate::journal::{Journal, LogFile};
use crate::objects::Objects;
use crate::overlay::{ExtentData, Overlay};

#[derive(Clone, Debug)]
pub(crate) struct EditedFile {
    pub size: u64,
    base: FileBase,
    base_size: u64,
    /// How much of the base is still visible: truncation lowers this permanently.
    base_valid: u64,
    overlay: Overlay,
}

/// The contents below the changes of a file.
#[derive(Clone, Debug)]
enum FileBase {
    Stored(Content),
    /// The file as it was when a snapshot began that has not been stored yet.
    Captured(Arc<EditedFile>),
}

impl EditedFile {
    pub(crate) fn stored(size: u64, content: Content) -> EditedFile {
        EditedFile::over(size, FileBase::Stored(content))
    }

    fn over(size: u64, base: FileBase) -> EditedFile {
        EditedFile {
            size,
            base,
            base_size: size,
            base_valid: size,
            overlay: Overlay::default(),
        }
    }

    /// Whether the base is visible unchanged.
    fn is_untouched(&self) -> bool {
        self.overlay.is_empty() && self.size == self.base_size && self.base_valid == self.base_size
    }

    /// The stored contents, if nothing has changed since.
    pub(crate) fn unchanged(&self) -> Option<Content> {
        match self.base {
            FileBase::Stored(content) if self.is_untouched() => Some(content),
            FileBase::Stored(_) | FileBase::Captured(_) => None,
        }
    }

    /// The stored contents at the bottom, below any captured states.
    pub(crate) fn stored_below(&self) -> Content {
        let mut body = self;
        loop {
            match &body.base {
                FileBase::Stored(content) => return *content,
                FileBase::Captured(below) => body = below,
            }
        }
    }

    /// Takes out the current state for a snapshot; later changes lie on top of it.
    pub(crate) fn capture(&mut self) -> Arc<EditedFile> {
        let captured = Arc::new(std::mem::replace(self, EditedFile::stored(0, Content::Empty)));
        *self = EditedFile::over(captured.size, FileBase::Captured(Arc::clone(&captured)));
        captured
    }

    /// The captured state is stored now.
    pub(crate) fn now_stored(&mut self, captured: &Arc<EditedFile>, content: Content) {
        if matches!(&self.base, FileBase::Captured(below) if Arc::ptr_eq(below, captured)) {
            self.base = FileBase::Stored(content);
        }
    }

    /// The captured state will not be stored: merges it into the changes again.
    pub(crate) fn thaw(&mut self) {
        let FileBase::Captured(captured) = &self.base else {
            return;
        };
        let mut whole = (**captured).clone();
        // A truncation since the capture hid the end of the captured state for good, even if the file has
        // grown again.
        whole.resize(self.base_valid);
        whole.size = self.size;
        for (range, data) in self.overlay.pieces(0..self.size) {
            whole.overlay.put(range.start, range.end - range.start, data);
        }
        *self = whole;
    }

    /// The same file with nothing in the buffer of `journal`.
    pub(crate) fn resolved(&self, journal: Option<&Journal>) -> EditedFile {
        let mut resolved = self.clone();
        for (range, data) in self.overlay.pieces(0..self.size) {
            let len = range.end - range.start;
            if let (ExtentData::Logged(..), PlannedPiece::Memory(bytes)) =
                (&data, PlannedPiece::of(data.clone(), journal, len))
            {
                resolved.overlay.put(range.start, len, ExtentData::Memory(bytes));
            }
        }
        resolved
    }

    pub(crate) fn put(&mut self, offset: u64, len: u64, data: ExtentData) {
        self.overlay.put(offset, len, data);
        self.size = self.size.max(offset + len);
    }

    /// Sets the size: bytes beyond it are dropped, and an extension is a hole.
    pub(crate) fn resize(&mut self, size: u64) {
        if size < self.size {
            self.overlay.clear(size..u64::MAX);
            // Never raised again: after a later extension, the bytes read as zeros and not as the old
            // contents.
            self.base_valid = self.base_valid.min(size);
        }
        self.size = size;
    }

    /// Collects everything that is needed to read a range, so that it can be read without the lock of the
    /// tree. `journal` is the one that is being written: its last bytes are not in its file yet.
    pub(crate) fn plan(&self, journal: Option<&Journal>, offset: u64, len: u64) -> ReadPlan {
        let len = self.size.saturating_sub(offset).min(len);
        let range = offset..offset + len;
        let pieces: Vec<(Range<u64>, PlannedPiece)> = self
            .overlay
            .pieces(range.clone())
            .map(|(range, data)| {
                (
                    range.clone(),
                    PlannedPiece::of(data, journal, range.end - range.start),
                )
            })
            .collect();
        let visible = self.base_valid.saturating_sub(offset).min(len);
        // If the writes cover everything that the base would show, the base is not read at all.
        let covered: u64 = pieces
            .iter()
            .map(|(range, _)| range.end.min(offset + visible) - range.start.min(offset + visible))
            .sum();
        let below = match &self.base {
            _ if covered == visible => BelowPlan::Nothing,
            FileBase::Stored(content) => BelowPlan::Stored {
                content: *content,
                size: self.base_size,
            },
            // One level per snapshot that is being stored, so the recursion is shallow.
            FileBase::Captured(body) => BelowPlan::Captured(Box::new(body.plan(journal, offset, visible))),
        };
        ReadPlan {
            range,
            visible,
            below,
            pieces,
        }
    }

    /// Reads the whole file; stored contents of one blob are not copied.
    pub(crate) fn read_all(&self, objects: &Objects, journal: Option<&Journal>) -> Result<Bytes, FsError> {
        if let Some(content) = self.unchanged() {
            return Ok(content::read_all(objects, content, self.size)?);
        }
        let too_large = crate::ObjectError::TooLarge { size: self.size };
        let mut bytes = content::zeros(self.size).ok_or(too_large)?;
        self.plan(journal, 0, self.size).fill(objects, &mut bytes)?;
        Ok(bytes.into())
    }
}

/// A range of a file at one moment.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    range: Range<u64>,
    /// How many bytes of the range the base may fill; after them are zeros.
    visible: u64,
    below: BelowPlan,
    pieces: Vec<(Range<u64>, PlannedPiece)>,
}

#[derive(Debug)]
enum BelowPlan {
    /// The whole base is covered.
    Nothing,
    Stored {
        content: Content,
        size: u64,
    },
    Captured(Box<ReadPlan>),
}

#[derive(Debug)]
enum PlannedPiece {
    Memory(Bytes),
    Logged(Arc<LogFile>, u64),
    Hole,
}

impl PlannedPiece {
    fn of(data: ExtentData, journal: Option<&Journal>, len: u64) -> PlannedPiece {
        match data {
            ExtentData::Memory(bytes) => PlannedPiece::Memory(bytes),
            ExtentData::Hole => PlannedPiece::Hole,
            ExtentData::Logged(log, position) => {
                let journal = journal.filter(|journal| Arc::ptr_eq(journal.log(), &log));
                match journal.and_then(|journal| journal.buffered(position, len as usize)) {
                    Some(bytes) => PlannedPiece::Memory(Bytes::copy_from_slice(bytes)),
                    None => PlannedPiece::Logged(log, position),
                }
            }
        }
    }
}

impl ReadPlan {
    pub(crate) fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    /// Reads into `out`, which has room for the whole range; returns the number of bytes.
    pub(crate) fn fill(&self, objects: &Objects, out: &mut [u8]) -> Result<usize, FsError> {
        let out = &mut out[..self.len()];
        let (below, beyond) = out.split_at_mut(self.visible as usize);
        beyond.fill(0);
        let got = match &self.below {
            BelowPlan::Nothing => below.len(),
            BelowPlan::Stored { content, size } => {
                content::read_at(objects, *content, *size, self.range.start, below)?
            }
            BelowPlan::Captured(plan) => plan.fill(objects, below)?,
        };
        // Stored contents may end before the visible part does.
        below[got..].fill(0);
        // Writes last, over what the base has shown.
        for (range, piece) in &self.pieces {
            let start = (range.start - self.range.start) as usize;
            let part = &mut out[start..start + (range.end - range.start) as usize];
            match piece {
                PlannedPiece::Memory(bytes) => part.copy_from_slice(bytes),
                PlannedPiece::Hole => part.fill(0),
                PlannedPiece::Logged(log, position) => log.read(*position, part)?,
            }
        }
        Ok(out.len())
    }
}
