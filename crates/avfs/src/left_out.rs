//! The files that a search in a task skips: the same files that are not among its changes.

use std::collections::HashSet;

use agentvfs::{Ignored, ReadError, Task, TreePath};
use anyhow::Result;

use crate::context::Context;
use crate::ignored::IgnoredArgs;
use crate::listing::shown;
use crate::printer::Printer;
use crate::view::View;

/// How many directories are named.
const NAMED: usize = 3;

/// Ignored files and directories, and which of them were met.
pub struct IgnoredTally {
    /// `None`: everything is searched.
    ignored: Option<Ignored>,
    named: HashSet<TreePath>,
    met: Vec<(TreePath, bool)>,
}

impl IgnoredTally {
    pub fn new(
        context: &Context<'_>,
        wanted: IgnoredArgs,
        view: &View,
        starts: &[TreePath],
    ) -> Result<IgnoredTally> {
        let task = if wanted.are_wanted(context) {
            None
        } else {
            Task::of_vault(&view.vault)?
        };
        let ignored = match task {
            Some(task) => Some(Ignored::new(
                view.vault.reader_at(task.base()?)?,
                view.reader.clone(),
            )),
            None => None,
        };
        Ok(IgnoredTally {
            ignored,
            named: starts.iter().cloned().collect(),
            met: Vec::new(),
        })
    }

    /// Whether a path is skipped.
    pub fn takes(&mut self, path: &TreePath, is_directory: bool) -> Result<bool, ReadError> {
        let Some(ignored) = &mut self.ignored else {
            return Ok(false);
        };
        let is_left_out = ignored.left_out(path, is_directory, &self.named)?.is_some();
        if is_left_out {
            self.met.push((path.clone(), is_directory));
        }
        Ok(is_left_out)
    }

    pub fn places(&self) -> impl Iterator<Item = &TreePath> {
        self.met.iter().map(|(path, _)| path)
    }

    /// Reports the skipped files, if there are any.
    pub fn tell(&self, out: &mut Printer) {
        if self.met.is_empty() {
            return;
        }
        let first = self
            .met
            .iter()
            .take(NAMED)
            .map(|(path, is_directory)| shown(path, *is_directory));
        let first = first.collect::<Vec<String>>().join(", ");
        let more = match self.met.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        out.talk(format_args!(
            "ignored and not searched: {first}{more} (`--ignored` searches them too)"
        ));
    }
}
