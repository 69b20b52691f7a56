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

use super::walk::Selection;

/// What to look for and where.
#[derive(Clone, Debug, Default)]
pub struct GrepOptions {
    /// A line matches if one of them does.
    pub patterns: Vec<String>,
    pub case: Case,
    /// Patterns are plain text, not regular expressions.
    pub fixed: bool,
    /// Matches begin and end at the edges of words.
    pub word: bool,
    /// Matches span whole lines.
    pub whole_line: bool,
    /// Lines that do not match are the ones wanted.
    pub invert: bool,
    pub report: Report,
    /// How many lines to show before and after each match.
    pub before: usize,
    pub after: usize,
    /// How many matching lines of a file are enough.
    pub max_count: Option<u64>,
    /// Binary files are searched as if they were text.
    pub binary_as_text: bool,
    pub selection: Selection,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Case {
    #[default]
    Sensitive,
    Insensitive,
    /// Insensitive as long as the pattern has no upper case letter.
    Smart,
}

/// What is said about a file that matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Report {
    #[default]
    Lines,
    /// Only that it matches: the rest of it is not read.
    Name,
    /// How many lines match.
    Count,
}

#[derive(Debug, thiserror::Error)]
pub enum GrepError {
    #[error("there is no pattern to look for")]
    NoPattern,
    #[error("'{patterns}' is not a regular expression: {reason}")]
    BadPattern { patterns: String, reason: String },
    /// A place to search cannot be read, or a directory on the way.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// One thing found. The events of a file follow each other.
#[derive(Debug)]
pub enum GrepEvent {
    Line(Line),
    /// Lines are left out between the last line and the next.
    Gap,
    /// The file is binary and matches: its lines are not shown from here on.
    Binary {
        path: TreePath,
        /// Where the first NUL byte is.
        offset: u64,
    },
    Name(TreePath),
    Count {
        path: TreePath,
        lines: u64,
    },
    /// The file could not be read; the search goes on.
    Failed {
        path: TreePath,
        error: std::io::Error,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub path: TreePath,
    /// From 1 on.
    pub number: u64,
    /// Where the line begins in the file.
    pub offset: u64,
    pub kind: LineKind,
    /// Without the line feed at its end.
    pub bytes: Vec<u8>,
    /// Where the pattern matches in `bytes`; the column is the first start plus one.
    pub matches: Vec<Range<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    Match,
    Before,
    After,
}

/// How much was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrepSummary {
    pub files_searched: u64,
    pub files_matched: u64,
    pub files_failed: u64,
    /// Matching lines that were counted; with [`Report::Name`] one per file.
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

impl Grep {
    pub fn new(options: GrepOptions) -> Result<Grep, GrepError> {
        if options.patterns.is_empty() {
            return Err(GrepError::NoPattern);
        }
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(options.case == Case::Insensitive)
            .case_smart(options.case == Case::Smart)
            .fixed_strings(options.fixed)
            .word(options.word)
            .whole_line(options.whole_line)
            .multi_line(true)
            .line_terminator(Some(b'\n'));
        let matcher = builder.build_many(&options.patterns).map_err(|error| GrepError::BadPattern {
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
        let mut run = batch::Run::new(self, reader, sink);
        for start in starts {
            if run.start(start)?.is_break() {
                break;
            }
        }
        Ok(run.finish())
    }
}

#[cfg(test)]
mod tests;
