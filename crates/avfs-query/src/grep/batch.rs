//! Files on their way through the search: many small ones at a time, each large one alone.

use std::ops::ControlFlow;

use avfs_core::rules::Level;
use avfs_core::{EntryKind, TreePath};
use avfs_tree::TreeReader;
use rayon::prelude::*;

use super::lines::{FileOutcome, FileSearch};
use super::stream::FileSource;
use super::{EventSink, Grep, GrepError, GrepEvent, GrepSummary, LeaveOut};
use crate::walk::{EntryWalk, WalkVisit};

/// A file above this is searched as a stream.
const LARGE: u64 = 4 << 20;
/// A batch is full at this many bytes of files.
const BATCH_BYTES: u64 = 16 << 20;
/// The first batch is small, so that the first results come early; each is twice the one before.
const FIRST_BATCH: usize = 16;
const LAST_BATCH: usize = 1024;

/// A search under way.
pub(super) struct GrepRun<'a, 's> {
    grep: &'a Grep,
    reader: &'a TreeReader,
    sink: &'a mut EventSink<'s>,
    summary: GrepSummary,
    batch: Vec<GrepCandidate>,
    batch_bytes: u64,
    batch_limit: usize,
}

/// A file to search.
struct GrepCandidate {
    path: TreePath,
    source: FileSource,
    /// Named by the user, not met on a walk: searched even if it is binary.
    explicit: bool,
}

impl<'a, 's> GrepRun<'a, 's> {
    pub(super) fn new(
        grep: &'a Grep,
        reader: &'a TreeReader,
        sink: &'a mut EventSink<'s>,
    ) -> GrepRun<'a, 's> {
        let summary = GrepSummary::default();
        GrepRun {
            grep,
            reader,
            sink,
            summary,
            batch: Vec::new(),
            batch_bytes: 0,
            batch_limit: FIRST_BATCH,
        }
    }

    pub(super) fn finish(self) -> GrepSummary {
        self.summary
    }

    /// Searches everything at and below `start` that is not left out.
    pub(super) fn start(
        &mut self,
        start: &TreePath,
        leave_out: &mut LeaveOut<'_>,
    ) -> Result<ControlFlow<()>, GrepError> {
        let mut walk = EntryWalk::new(self.reader, start, &self.grep.options.selection)?;
        while let Some(visit) = walk.next() {
            let visit = visit?;
            if visit.depth > 0 && leave_out(&visit.path, visit.found.entry.is_directory())? {
                walk.prune();
                continue;
            }
            if visit.found.level < Level::Read && !visit.found.entry.is_directory() {
                if visit.depth == 0 {
                    // If it is named explicitly, the error says why nothing is found in it.
                    self.reader.find_readable(&visit.path)?;
                }
                continue;
            }
            if self.visit(visit).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(self.flush())
    }

    fn visit(&mut self, visit: WalkVisit) -> ControlFlow<()> {
        let EntryKind::File { size, content } = visit.found.entry.kind else {
            return ControlFlow::Continue(());
        };
        let source = FileSource::new(self.reader.objects().clone(), content, size);
        let candidate = GrepCandidate {
            path: visit.path,
            source,
            explicit: visit.depth == 0,
        };
        if size > LARGE {
            self.flush()?;
            return self.search_alone(&candidate);
        }
        self.batch.push(candidate);
        self.batch_bytes += size;
        if self.batch.len() >= self.batch_limit || self.batch_bytes >= BATCH_BYTES {
            return self.flush();
        }
        ControlFlow::Continue(())
    }

    /// Searches the batch on all threads and returns the results in order.
    fn flush(&mut self) -> ControlFlow<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        self.batch_limit = (self.batch_limit * 2).min(LAST_BATCH);
        let grep = self.grep;
        let results: Vec<(FileOutcome, Vec<GrepEvent>)> = batch
            .par_iter()
            .map_init(|| FileSearch::new(grep), gather)
            .collect();
        for (outcome, events) in results {
            self.count(&outcome);
            events.into_iter().try_for_each(&mut *self.sink)?;
        }
        ControlFlow::Continue(())
    }

    fn search_alone(&mut self, candidate: &GrepCandidate) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        let outcome = FileSearch::new(self.grep).stream(
            &candidate.path,
            &candidate.source,
            candidate.explicit,
            &mut |event| {
                flow = (self.sink)(event);
                flow
            },
        );
        self.count(&outcome);
        flow
    }

    fn count(&mut self, outcome: &FileOutcome) {
        self.summary.files_searched += 1;
        self.summary.files_matched += u64::from(outcome.lines > 0);
        self.summary.files_failed += u64::from(outcome.failed);
        self.summary.lines_matched += outcome.lines;
    }
}

fn gather(search: &mut FileSearch<'_>, candidate: &GrepCandidate) -> (FileOutcome, Vec<GrepEvent>) {
    let mut events = Vec::new();
    let outcome = search.whole(
        &candidate.path,
        &candidate.source,
        candidate.explicit,
        &mut |event| {
            events.push(event);
            ControlFlow::Continue(())
        },
    );
    (outcome, events)
}
