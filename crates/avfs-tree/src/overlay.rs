//! The writes to a file since its last snapshot: extents on top of its stored contents.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::journal::LogFile;

/// The location of the bytes of an extent.
#[derive(Clone, Debug)]
pub(crate) enum ExtentData {
    Memory(Bytes),
    /// In a journal, from this position on.
    Logged(Arc<LogFile>, u64),
    /// Zeros that occupy no space.
    Hole,
}

impl ExtentData {
    pub(crate) fn is_hole(&self) -> bool {
        matches!(self, ExtentData::Hole)
    }

    /// The data from `skip` bytes on.
    fn advance(&self, skip: u64, len: u64) -> ExtentData {
        match self {
            ExtentData::Memory(bytes) => {
                ExtentData::Memory(bytes.slice(skip as usize..(skip + len) as usize))
            }
            ExtentData::Logged(log, position) => ExtentData::Logged(Arc::clone(log), position + skip),
            ExtentData::Hole => ExtentData::Hole,
        }
    }
}

#[derive(Clone, Debug)]
struct OverlayExtent {
    len: u64,
    data: ExtentData,
}

impl OverlayExtent {
    fn data_len(&self) -> u64 {
        if self.data.is_hole() { 0 } else { self.len }
    }
}

/// Extents by their start; they never overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    extents: BTreeMap<u64, OverlayExtent>,
    /// The number of bytes that are not holes. Maintained incrementally, because there may be many extents.
    data_bytes: u64,
}

impl Overlay {
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    pub(crate) fn put(&mut self, start: u64, len: u64, data: ExtentData) {
        if len > 0 {
            self.clear(start..start + len);
            self.insert(start, OverlayExtent { len, data });
        }
    }

    fn insert(&mut self, start: u64, extent: OverlayExtent) {
        self.data_bytes += extent.data_len();
        self.extents.insert(start, extent);
    }

    /// Removes everything in `range`; extents that extend beyond its ends are cut.
    pub(crate) fn clear(&mut self, range: Range<u64>) {
        // The extent before the range may extend into it.
        let reaching = self
            .extents
            .range(..range.start)
            .next_back()
            .map(|(start, _)| *start);
        let first = reaching.unwrap_or(range.start);
        let touched: Vec<u64> = self
            .extents
            .range(first..range.end)
            .map(|(start, _)| *start)
            .collect();
        for start in touched {
            let Some(extent) = self.extents.remove(&start) else {
                continue;
            };
            // `keep_outside` adds the remaining parts again.
            self.data_bytes -= extent.data_len();
            self.keep_outside(start, extent, &range);
        }
    }

    fn keep_outside(&mut self, start: u64, extent: OverlayExtent, range: &Range<u64>) {
        let end = start + extent.len;
        if start < range.start {
            let len = extent.len.min(range.start - start);
            self.insert(
                start,
                OverlayExtent {
                    len,
                    data: extent.data.advance(0, len),
                },
            );
        }
        if end > range.end {
            let kept = range.end.max(start);
            let len = end - kept;
            self.insert(
                kept,
                OverlayExtent {
                    len,
                    data: extent.data.advance(kept - start, len),
                },
            );
        }
    }

    /// The extents in `range`, cut to it, in order.
    pub(crate) fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, ExtentData)> + '_ {
        let reaching = self.extents.range(..range.start).next_back();
        let inside = self.extents.range(range.start..range.end.max(range.start));
        reaching
            .into_iter()
            .chain(inside)
            .filter_map(move |(start, extent)| {
                let from = range.start.max(*start);
                let to = range.end.min(start + extent.len);
                (from < to).then(|| (from..to, extent.data.advance(from - start, to - from)))
            })
    }

    /// Every extent, and whether it is a hole.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (Range<u64>, bool)> + '_ {
        self.extents
            .iter()
            .map(|(start, extent)| (*start..start + extent.len, extent.data.is_hole()))
    }

    /// The start of the first extent with data that ends after `position`.
    pub(crate) fn next_data(&self, position: u64) -> Option<u64> {
        let reaching = self.extents.range(..position).next_back();
        let rest = reaching.into_iter().chain(self.extents.range(position..));
        let mut data =
            rest.filter(|(start, extent)| !extent.data.is_hole() && *start + extent.len > position);
        data.next().map(|(start, _)| *start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_overlay_reads_like_an_array(
            steps in proptest::collection::vec((0u64..200, 1u64..80, 0u8..3), 1..40),
            window in (0u64..250, 0u64..100),
        ) {
            let mut overlay = Overlay::default();
            let mut model: Vec<Option<Option<u8>>> = vec![None; 400];
            for (index, (start, len, kind)) in steps.into_iter().enumerate() {
                let range = start as usize..(start + len) as usize;
                match kind {
                    0 => {
                        overlay.clear(start..start + len);
                        model[range].fill(None);
                    }
                    1 => {
                        overlay.put(start, len, ExtentData::Hole);
                        model[range].fill(Some(None));
                    }
                    _ => {
                        let byte = index as u8;
                        overlay.put(start, len, ExtentData::Memory(vec![byte; len as usize].into()));
                        model[range].fill(Some(Some(byte)));
                    }
                }
            }
            let window = window.0..window.0 + window.1;
            let mut seen: Vec<Option<Option<u8>>> = vec![None; 400];
            let mut last = window.start;
            for (range, data) in overlay.pieces(window.clone()) {
                prop_assert!(range.start >= last && range.end <= window.end);
                last = range.end;
                for position in range.clone() {
                    seen[position as usize] = Some(match &data {
                        ExtentData::Memory(bytes) => Some(bytes[(position - range.start) as usize]),
                        ExtentData::Logged(..) | ExtentData::Hole => None,
                    });
                }
            }
            let window = window.start as usize..window.end as usize;
            prop_assert_eq!(&seen[window.clone()], &model[window]);
            let data = model.iter().filter(|byte| matches!(byte, Some(Some(_)))).count();
            prop_assert_eq!(overlay.data_bytes(), data as u64);
        }
    }
}
