//! Lines that match a pattern, with ripgrep's engine and habits.
//!
//! Files are searched by several threads, and the events come in the order of the walk all the same: files
//! are taken in batches, and a batch is handed out when it is complete. A large file is searched alone and
//! as a stream. So memory stays bounded, and the same question always gets the same answer.

mod batch;
mod lines;
mod stream;

use std::ops::{ControlFlow, Range};

use avfs_core::TreePath;
use avfs_tree::{ReadError, TreeReader};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use super::walk::WalkSelection;

/// The search pattern, and where to search.
#[derive(Clone, Debug, Default)]
pub struct GrepOptions {
    /// A line matches if one of them does.
    pub patterns: Vec<String>,
    /// Whether upper and lower case differ.
    pub case: CaseMode,
    /// Patterns are plain text, not regular expressions.
    pub fixed: bool,
    /// Matches begin and end at the edges of words.
    pub word: bool,
    /// Matches span whole lines.
    pub whole_line: bool,
    /// Lines that do not match are the ones wanted.
    pub invert: bool,
    /// What is reported of a file that matches.
    pub report: GrepReport,
    /// How many lines to show before and after each match.
    pub before: usize,
    /// How many lines to show after each match.
    pub after: usize,
    /// After this many matching lines, the rest of a file is skipped.
    pub max_count: Option<u64>,
    /// Binary files are searched as if they were text.
    pub binary_as_text: bool,
    /// Which files are searched.
    pub selection: WalkSelection,
}

/// Whether upper and lower case differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaseMode {
    /// They differ.
    #[default]
    Sensitive,
    /// They are the same.
    Insensitive,
    /// Insensitive as long as the pattern has no upper case letter.
    Smart,
}

/// The report about a file that matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrepReport {
    /// The lines that match.
    #[default]
    Lines,
    /// Only that it matches: the rest of it is not read.
    Name,
    /// The number of matching lines.
    Count,
}

/// Why a search cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum GrepError {
    /// There are no patterns.
    #[error("there is no pattern to look for")]
    NoPattern,
    /// A pattern is not a regular expression.
    #[error("'{patterns}' is not a regular expression: {reason}")]
    BadPattern {
        /// All patterns, as they were given.
        patterns: String,
        /// What is wrong.
        reason: String,
    },
    /// A place to search cannot be read, or a directory on the way.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// One thing found. The events of a file follow each other.
#[derive(Debug)]
pub enum GrepEvent {
    /// A line that matches, or one near it.
    Line(GrepLine),
    /// Lines are left out between the last line and the next.
    Gap,
    /// The file is binary and matches: its lines are not shown from here on.
    Binary {
        /// The file.
        path: TreePath,
        /// Where the first NUL byte is.
        offset: u64,
    },
    /// The file matches; with [`GrepReport::Name`].
    Name(TreePath),
    /// The file matches; with [`GrepReport::Count`].
    Count {
        /// The file.
        path: TreePath,
        /// How many of its lines match.
        lines: u64,
    },
    /// The file could not be read; the search continues.
    Failed {
        /// The file.
        path: TreePath,
        /// Why it could not be read.
        error: std::io::Error,
    },
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepLine {
    /// The file.
    pub path: TreePath,
    /// From 1 on.
    pub number: u64,
    /// Where the line begins in the file.
    pub offset: u64,
    /// Whether it matches.
    pub kind: LineKind,
    /// Without the line feed at its end.
    pub bytes: Vec<u8>,
    /// Where the pattern matches in `bytes`; the column is the first start plus one.
    pub matches: Vec<Range<usize>>,
}

/// Why a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// It matches.
    Match,
    /// It precedes one that matches.
    Before,
    /// It follows one that matches.
    After,
}

/// The totals of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrepSummary {
    /// Files that were read, as far as necessary.
    pub files_searched: u64,
    /// Files with a match.
    pub files_matched: u64,
    /// Files that could not be read.
    pub files_failed: u64,
    /// Matching lines that were counted; with [`GrepReport::Name`] one per file.
    pub lines_matched: u64,
}

/// A search that is ready to run.
#[derive(Clone, Debug)]
pub struct Grep {
    matcher: RegexMatcher,
    options: GrepOptions,
}

/// Where events go; `Break` ends the search.
pub type EventSink<'a> = dyn FnMut(GrepEvent) -> ControlFlow<()> + 'a;

/// Says of a path, and whether it is a directory, that it is not searched, nor anything below it.
pub type LeaveOut<'a> = dyn FnMut(&TreePath, bool) -> Result<bool, ReadError> + 'a;

impl Grep {
    /// Compiles the patterns.
    pub fn new(options: GrepOptions) -> Result<Grep, GrepError> {
        if options.patterns.is_empty() {
            return Err(GrepError::NoPattern);
        }
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(options.case == CaseMode::Insensitive)
            .case_smart(options.case == CaseMode::Smart)
            .fixed_strings(options.fixed)
            .word(options.word)
            .whole_line(options.whole_line)
            .multi_line(true)
            .line_terminator(Some(b'\n'));
        let matcher = builder
            .build_many(&options.patterns)
            .map_err(|error| GrepError::BadPattern {
                patterns: options.patterns.join("', '"),
                reason: error.to_string(),
            })?;
        Ok(Grep { matcher, options })
    }

    /// Searches the files at and below `starts`, in the order given.
    pub fn run(
        &self,
        reader: &TreeReader,
        starts: &[TreePath],
        sink: &mut EventSink<'_>,
    ) -> Result<GrepSummary, GrepError> {
        self.run_without(reader, starts, &mut |_, _| Ok(false), sink)
    }

    /// The same, without the paths that `left_out` excludes. Starting points are always searched.
    pub fn run_without(
        &self,
        reader: &TreeReader,
        starts: &[TreePath],
        leave_out: &mut LeaveOut<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<GrepSummary, GrepError> {
        let mut run = batch::GrepRun::new(self, reader, sink);
        for start in starts {
            if run.start(start, leave_out)?.is_break() {
                break;
            }
        }
        Ok(run.finish())
    }
}

#[cfg(test)]
mod tests;
