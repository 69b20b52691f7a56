//! Lines of files that match a pattern.

use std::ops::ControlFlow;

use agentvfs::query::grep::{CaseMode, Grep, GrepError, GrepEvent, GrepOptions, LineKind};
use agentvfs::query::walk::WalkSelection;

use super::error::{ServiceError, ServiceResult};
use super::files::{Files, shown, tree_path};

/// The longest line of an answer: a minified file has one line.
const LINE_MAX: usize = 2000;

/// What to search for.
#[derive(Clone, Debug)]
pub struct SearchFor {
    /// A regular expression, or a plain text.
    pub pattern: String,
    /// The pattern is a plain text.
    pub fixed: bool,
    /// Capital letters make no difference.
    pub ignore_case: bool,
    /// The directory or file to search.
    pub path: String,
    /// The most lines that are found.
    pub most: usize,
}

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLine {
    /// The file, with its slash in front.
    pub path: String,
    /// Its number in the file, from 1.
    pub line: u64,
    /// The line itself, as far as it is shown.
    pub text: String,
}

impl Files {
    /// Searches the present state.
    pub fn search(&self, wanted: &SearchFor) -> ServiceResult<Vec<FoundLine>> {
        let grep = Grep::new(GrepOptions {
            patterns: vec![wanted.pattern.clone()],
            fixed: wanted.fixed,
            case: if wanted.ignore_case {
                CaseMode::Insensitive
            } else {
                CaseMode::Sensitive
            },
            selection: WalkSelection::everything(),
            ..GrepOptions::default()
        });
        let grep = grep.map_err(|error| ServiceError::invalid(error.to_string()))?;
        let reader = self.vault().reader()?;
        let start = self.view(&reader)?.resolve(&tree_path(&wanted.path)?)?;
        let mut found = Vec::new();
        let searched = grep.run(&reader, &[start], &mut |event| {
            if found.len() >= wanted.most {
                return ControlFlow::Break(());
            }
            if let GrepEvent::Line(line) = event
                && line.kind == LineKind::Match
            {
                let text = String::from_utf8_lossy(&line.bytes);
                found.push(FoundLine {
                    path: shown(&line.path),
                    line: line.number,
                    text: text.trim_end_matches('\n').chars().take(LINE_MAX).collect(),
                });
            }
            ControlFlow::Continue(())
        });
        match searched {
            Err(GrepError::Read(error)) => Err(self.unreadable(error)),
            // The pattern was read before.
            Ok(_) | Err(GrepError::NoPattern | GrepError::BadPattern { .. }) => Ok(found),
        }
    }
}
