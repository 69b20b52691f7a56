//! One file through ripgrep's searcher, into events.

use std::io;
use std::ops::Range;

use avfs_core::TreePath;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};

use super::stream::FileSource;
use super::{EventSink, Grep, GrepEvent, GrepLine, GrepOptions, GrepReport, LineKind};

/// A line of a streamed file longer than this fails the file, instead of filling the memory.
const LINE_MAX: usize = 256 << 20;

/// The result for one file.
#[derive(Default)]
pub(super) struct FileOutcome {
    pub(super) lines: u64,
    pub(super) failed: bool,
}

/// Searches one file after the other, reusing its buffers.
pub(super) struct FileSearch<'a> {
    matcher: &'a RegexMatcher,
    options: &'a GrepOptions,
    searcher: Searcher,
}

impl<'a> FileSearch<'a> {
    pub(super) fn new(grep: &'a Grep) -> FileSearch<'a> {
        let options = &grep.options;
        let context = |lines| {
            if options.report == GrepReport::Lines {
                lines
            } else {
                0
            }
        };
        let searcher = SearcherBuilder::new()
            .invert_match(options.invert)
            .before_context(context(options.before))
            .after_context(context(options.after))
            .max_matches(options.max_count)
            .heap_limit(Some(LINE_MAX))
            .build();
        FileSearch {
            matcher: &grep.matcher,
            options,
            searcher,
        }
    }

    pub(super) fn whole(
        &mut self,
        path: &TreePath,
        source: &FileSource,
        explicit: bool,
        out: &mut EventSink<'_>,
    ) -> FileOutcome {
        let mut sink = self.prepare(path, explicit, out);
        let searched = match source.bytes() {
            Ok(bytes) => self.searcher.search_slice(self.matcher, &bytes, &mut sink),
            Err(error) => Err(error),
        };
        sink.close(searched)
    }

    pub(super) fn stream(
        &mut self,
        path: &TreePath,
        source: &FileSource,
        explicit: bool,
        out: &mut EventSink<'_>,
    ) -> FileOutcome {
        let mut sink = self.prepare(path, explicit, out);
        let searched = self
            .searcher
            .search_reader(self.matcher, source.stream(), &mut sink);
        sink.close(searched)
    }

    fn prepare<'s, 'e>(
        &mut self,
        path: &'s TreePath,
        explicit: bool,
        out: &'s mut EventSink<'e>,
    ) -> LineSink<'s, 'e>
    where
        'a: 's,
    {
        self.searcher
            .set_binary_detection(match (self.options.binary_as_text, explicit) {
                (true, _) => BinaryDetection::none(),
                (false, true) => BinaryDetection::convert(0),
                (false, false) => BinaryDetection::quit(0),
            });
        let (matcher, options) = (self.matcher, self.options);
        LineSink {
            path,
            matcher,
            options,
            out,
            lines: 0,
            binary: None,
            told_binary: false,
            stopped: false,
        }
    }
}

/// Turns the searcher's callbacks for one file into events.
struct LineSink<'s, 'e> {
    path: &'s TreePath,
    matcher: &'s RegexMatcher,
    options: &'s GrepOptions,
    out: &'s mut EventSink<'e>,
    lines: u64,
    /// Where the first NUL byte is.
    binary: Option<u64>,
    told_binary: bool,
    stopped: bool,
}

impl LineSink<'_, '_> {
    /// Returns whether to go on.
    fn send(&mut self, event: GrepEvent) -> bool {
        self.stopped |= (self.out)(event).is_break();
        !self.stopped
    }

    fn tell_binary(&mut self, offset: u64) -> bool {
        self.told_binary = true;
        let path = self.path.clone();
        self.send(GrepEvent::Binary { path, offset })
    }

    /// Emits the remaining events at the end of the file.
    fn close(mut self, searched: io::Result<()>) -> FileOutcome {
        let path = self.path.clone();
        let failed = searched.is_err();
        if self.stopped {
            return FileOutcome {
                lines: self.lines,
                failed,
            };
        }
        match searched {
            Err(error) => {
                self.send(GrepEvent::Failed { path, error });
            }
            Ok(()) if self.lines == 0 => {}
            Ok(()) => match (self.options.report, self.binary) {
                (GrepReport::Name, _) => {
                    self.send(GrepEvent::Name(path));
                }
                (GrepReport::Count, _) => {
                    self.send(GrepEvent::Count {
                        path,
                        lines: self.lines,
                    });
                }
                (GrepReport::Lines, Some(offset)) if !self.told_binary => {
                    self.tell_binary(offset);
                }
                (GrepReport::Lines, _) => {}
            },
        }
        FileOutcome {
            lines: self.lines,
            failed,
        }
    }

    fn line(&self, number: Option<u64>, offset: u64, kind: LineKind, raw: &[u8]) -> io::Result<GrepLine> {
        let bytes = raw.strip_suffix(b"\n").unwrap_or(raw);
        // Without a match on inverted lines, and on context lines none is shown.
        let matches = match kind {
            LineKind::Match if !self.options.invert => self.matches_in(bytes)?,
            LineKind::Match | LineKind::Before | LineKind::After => Vec::new(),
        };
        let (path, number) = (self.path.clone(), number.unwrap_or(0));
        Ok(GrepLine {
            path,
            number,
            offset,
            kind,
            bytes: bytes.to_vec(),
            matches,
        })
    }

    fn matches_in(&self, bytes: &[u8]) -> io::Result<Vec<Range<usize>>> {
        let mut ranges = Vec::new();
        self.matcher
            .find_iter(bytes, |found| {
                ranges.push(found.start()..found.end());
                true
            })
            .map_err(io::Error::other)?;
        Ok(ranges)
    }
}

impl Sink for LineSink<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.lines += 1;
        match (self.options.report, self.binary) {
            (GrepReport::Name, _) => Ok(false),
            (GrepReport::Count, _) => Ok(true),
            (GrepReport::Lines, Some(offset)) => {
                self.tell_binary(offset);
                Ok(false)
            }
            (GrepReport::Lines, None) => {
                let (number, offset) = (found.line_number(), found.absolute_byte_offset());
                let line = self.line(number, offset, LineKind::Match, found.bytes())?;
                Ok(self.send(GrepEvent::Line(line)))
            }
        }
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if self.binary.is_some() {
            return Ok(true);
        }
        let kind = match context.kind() {
            SinkContextKind::Before => LineKind::Before,
            SinkContextKind::After | SinkContextKind::Other => LineKind::After,
        };
        let (number, offset) = (context.line_number(), context.absolute_byte_offset());
        let line = self.line(number, offset, kind, context.bytes())?;
        Ok(self.send(GrepEvent::Line(line)))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        Ok(self.binary.is_some() || self.send(GrepEvent::Gap))
    }

    fn binary_data(&mut self, _: &Searcher, offset: u64) -> io::Result<bool> {
        self.binary.get_or_insert(offset);
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        if let Some(offset) = finish.binary_byte_offset() {
            self.binary.get_or_insert(offset);
        }
        Ok(())
    }
}
