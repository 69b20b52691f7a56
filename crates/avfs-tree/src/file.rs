//! A file of the working tree that was changed: older contents below, what was written since above.

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
use crate::overlay::{Data, Overlay};

#[derive(Clone, Debug)]
pub(crate) struct FileBody {
    pub size: u64,
    base: Below,
    base_size: u64,
    /// How much of what lies below still shows through: truncation lowers it for good.
    base_valid: u64,
    overlay: Overlay,
}

/// What a changed file lies on.
#[derive(Clone, Debug)]
enum Below {
    Stored(Content),
    /// The file as it was when a snapshot began that is not stored yet.
    Captured(Arc<FileBody>),
}

impl FileBody {
    pub fn stored(size: u64, content: Content) -> FileBody {
        FileBody::over(size, Below::Stored(content))
    }

    fn over(size: u64, base: Below) -> FileBody {
        FileBody { size, base, base_size: size, base_valid: size, overlay: Overlay::default() }
    }

    /// Whether everything below shows as it is.
    fn is_untouched(&self) -> bool {
        self.overlay.is_empty() && self.size == self.base_size && self.base_valid == self.base_size
    }

    /// The stored contents, if nothing was changed since.
    pub fn unchanged(&self) -> Option<Content> {
        match self.base {
            Below::Stored(content) if self.is_untouched() => Some(content),
            Below::Stored(_) | Below::Captured(_) => None,
        }
    }

    /// The stored contents that it lies on, however deep.
    pub fn stored_below(&self) -> Content {
        let mut body = self;
        loop {
            match &body.base {
                Below::Stored(content) => return *content,
                Below::Captured(below) => body = below,
            }
        }
    }

    /// Takes the present state out for a snapshot; later changes lie over it.
    pub fn capture(&mut self) -> Arc<FileBody> {
        let captured = Arc::new(std::mem::replace(self, FileBody::stored(0, Content::Empty)));
        *self = FileBody::over(captured.size, Below::Captured(Arc::clone(&captured)));
        captured
    }

    /// What was captured is stored now.
    pub fn settle(&mut self, captured: &Arc<FileBody>, content: Content) {
        if matches!(&self.base, Below::Captured(below) if Arc::ptr_eq(below, captured)) {
            self.base = Below::Stored(content);
        }
    }

    /// What was captured will not be stored: it is part of the changes again.
    pub fn thaw(&mut self) {
        let Below::Captured(captured) = &self.base else { return };
        let mut whole = (**captured).clone();
        whole.resize(self.base_valid);
        whole.size = self.size;
        for (range, data) in self.overlay.pieces(0..self.size) {
            whole.overlay.put(range.start, range.end - range.start, data);
        }
        *self = whole;
    }

    /// The same file with nothing in the buffer of `journal`.
    pub fn resolved(&self, journal: Option<&Journal>) -> FileBody {
        let mut resolved = self.clone();
        for (range, data) in self.overlay.pieces(0..self.size) {
            let len = range.end - range.start;
            if let (Data::Logged(..), Piece::Memory(bytes)) = (&data, Piece::of(data.clone(), journal, len)) {
                resolved.overlay.put(range.start, len, Data::Memory(bytes));
            }
        }
        resolved
    }

    pub fn put(&mut self, offset: u64, len: u64, data: Data) {
        self.overlay.put(offset, len, data);
        self.size = self.size.max(offset + len);
    }

    /// Sets the size: what is cut off is gone, what is added is a hole.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.overlay.clear(size..u64::MAX);
            self.base_valid = self.base_valid.min(size);
        }
        self.size = size;
    }

    /// Everything that reading a range needs, so that it can be read without the tree standing still.
    /// `journal` is the one that is being written: its last bytes are not in its file yet.
    pub fn plan(&self, journal: Option<&Journal>, offset: u64, len: u64) -> ReadPlan {
        let len = self.size.saturating_sub(offset).min(len);
        let range = offset..offset + len;
        let pieces: Vec<(Range<u64>, Piece)> = self
            .overlay
            .pieces(range.clone())
            .map(|(range, data)| (range.clone(), Piece::of(data, journal, range.end - range.start)))
            .collect();
        let shown = self.base_valid.saturating_sub(offset).min(len);
        let covered: u64 = pieces
            .iter()
            .map(|(range, _)| range.end.min(offset + shown) - range.start.min(offset + shown))
            .sum();
        let below = match &self.base {
            _ if covered == shown => BelowPlan::Nothing,
            Below::Stored(content) => BelowPlan::Stored { content: *content, size: self.base_size },
            Below::Captured(body) => BelowPlan::Captured(Box::new(body.plan(journal, offset, shown))),
        };
        ReadPlan { range, shown, below, pieces }
    }

    /// Everything at once; stored contents of one blob are not copied.
    pub fn read_all(&self, objects: &Objects, journal: Option<&Journal>) -> Result<Bytes, FsError> {
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
    /// How many bytes of the range what lies below may fill; behind them are zeros.
    shown: u64,
    below: BelowPlan,
    pieces: Vec<(Range<u64>, Piece)>,
}

#[derive(Debug)]
enum BelowPlan {
    /// Everything below is covered.
    Nothing,
    Stored {
        content: Content,
        size: u64,
    },
    Captured(Box<ReadPlan>),
}

#[derive(Debug)]
enum Piece {
    Memory(Bytes),
    Logged(Arc<LogFile>, u64),
    Hole,
}

impl Piece {
    fn of(data: Data, journal: Option<&Journal>, len: u64) -> Piece {
        match data {
            Data::Memory(bytes) => Piece::Memory(bytes),
            Data::Hole => Piece::Hole,
            Data::Logged(log, position) => {
                let journal = journal.filter(|journal| Arc::ptr_eq(journal.log(), &log));
                match journal.and_then(|journal| journal.buffered(position, len as usize)) {
                    Some(bytes) => Piece::Memory(Bytes::copy_from_slice(bytes)),
                    None => Piece::Logged(log, position),
                }
            }
        }
    }
}

impl ReadPlan {
    pub fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    /// Reads into `out`, which has room for the whole range; returns how many bytes there were.
    pub fn fill(&self, objects: &Objects, out: &mut [u8]) -> Result<usize, FsError> {
        let out = &mut out[..self.len()];
        let (below, beyond) = out.split_at_mut(self.shown as usize);
        beyond.fill(0);
        let got = match &self.below {
            BelowPlan::Nothing => below.len(),
            BelowPlan::Stored { content, size } => {
                content::read_at(objects, *content, *size, self.range.start, below)?
            }
            BelowPlan::Captured(plan) => plan.fill(objects, below)?,
        };
        below[got..].fill(0);
        for (range, piece) in &self.pieces {
            let start = (range.start - self.range.start) as usize;
            let part = &mut out[start..start + (range.end - range.start) as usize];
            match piece {
                Piece::Memory(bytes) => part.copy_from_slice(bytes),
                Piece::Hole => part.fill(0),
                Piece::Logged(log, position) => log.read(*position, part)?,
            }
        }
        Ok(out.len())
    }
}
