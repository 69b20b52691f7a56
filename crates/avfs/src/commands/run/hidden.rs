//! Files that are hidden from the program: reported before it starts, with those that git's history shows
//! nevertheless.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use agentvfs::TreePath;
use agentvfs::git::hidden_in_history;
use agentvfs::hidden::{Extent, HiddenFile};
use agentvfs::rules::{Rule, Rules};

use super::arguments::Start;
use crate::commands::rules::{HiddenBody, hidden_bodies};
use crate::printer::Printer;

/// How many paths are named.
const NAMED: usize = 10;

/// How many characters they may occupy: about five lines of a terminal.
const ROOM: usize = 400;

/// How many entries of the directory are examined: the delay must not be noticeable.
const LOOKED_AT: Extent = Extent::Entries(4000);

/// For a run that is over by then, the history is not looked through.
const SHORT: Duration = Duration::from_secs(1);

/// The hidden files that were found, and a search of the history that continues until this is dropped.
pub(super) struct HiddenSearch {
    files: Vec<HiddenFile>,
    once: Receiver<Vec<TreePath>>,
    _going_on: Sender<()>,
}

impl HiddenSearch {
    /// Reports the hidden files.
    pub(super) fn tell(out: &mut Printer, start: &Start) -> HiddenSearch {
        let (tell, once) = channel();
        let (going_on, ended) = channel();
        let root = start.task.root().to_owned();
        let rules = start.program.rules.clone();
        // An error in this report does not keep the program from running: the files are hidden nevertheless.
        let found = rules
            .as_ref()
            .and_then(|rules| start.task.work().hidden_files(rules, LOOKED_AT).ok());
        let hidden = found.unwrap_or_default();
        // Before the program starts: a program with the terminal would draw over it.
        announce(out, &hidden.files);
        if let Some(rules) = rules {
            std::thread::spawn(move || search(&root, rules, &tell, &ended));
        }
        HiddenSearch {
            files: hidden.files,
            once,
            _going_on: going_on,
        }
    }

    pub(super) fn bodies(&self) -> Vec<HiddenBody> {
        hidden_bodies(&self.files)
    }

    /// Names files that the history shows although they are no longer tracked, as far as it has been searched
    /// by now.
    pub(super) fn warn_of_history(self, out: &mut Printer) {
        let is_told = |path: &TreePath| {
            self.files
                .iter()
                .any(|file| file.is_tracked && file.path == *path)
        };
        // Without waiting: an unfinished search is not worth delaying the end of the command.
        let once: Vec<TreePath> = self.once.try_recv().unwrap_or_default();
        let names: Vec<String> = once.iter().filter(|path| !is_told(path)).map(shown).collect();
        if !names.is_empty() {
            out.warn(format_args!(
                "hidden from the program, but in git's history: {}",
                listed(&names)
            ));
        }
    }
}

fn announce(out: &mut Printer, files: &[HiddenFile]) {
    if files.is_empty() {
        return;
    }
    let names: Vec<String> = files
        .iter()
        .map(|file| format!("{} ({})", shown(&file.path), file.why))
        .collect();
    out.talk(format_args!("hidden: {}", listed(&names)));
    let tracked: Vec<String> = files
        .iter()
        .filter(|file| file.is_tracked)
        .map(|file| shown(&file.path))
        .collect();
    if !tracked.is_empty() {
        out.talk(format_args!(
            "git tracks and shows (`git show`) all the same: {}",
            listed(&tracked)
        ));
    }
}

/// The first ones, and how to see all of them.
fn listed(names: &[String]) -> String {
    let mut taken = 0;
    let fits = |name: &&String| {
        taken += name.chars().count() + 2;
        taken <= ROOM
    };
    // The first one is named however long it is.
    let shown = names.iter().take(NAMED).take_while(fits).count().max(1);
    let first = names[..shown.min(names.len())].join(", ");
    match names.len().saturating_sub(shown) {
        0 => first,
        more => format!("{first}, and {more} more: `avfs rules hidden` lists all"),
    }
}

fn shown(path: &TreePath) -> String {
    crate::escape::printable_line(path.as_bytes())
}

/// A repository that cannot be read yields nothing.
fn search(root: &Path, rules: Vec<Rule>, tell: &Sender<Vec<TreePath>>, ended: &Receiver<()>) {
    // Nothing is ever sent: the channel is closed when the run is over.
    if ended.recv_timeout(SHORT) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    if let Ok(rules) = Rules::shared(rules)
        && let Ok(found) = hidden_in_history(root, &rules)
    {
        // The receiver is gone if the run was faster than the search.
        let _ = tell.send(found.into_iter().collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_as_far_as_five_lines_reach() {
        let names = |count: usize, length: usize| vec!["x".repeat(length); count];
        assert_eq!(listed(&names(3, 2)), "xx, xx, xx");
        assert!(listed(&names(12, 2)).ends_with(", and 2 more: `avfs rules hidden` lists all"));
        let long = listed(&names(10, 150));
        assert!(
            long.ends_with(", and 8 more: `avfs rules hidden` lists all"),
            "{long}"
        );
        assert!(listed(&names(2, 900)).starts_with(&"x".repeat(900)));
    }
}
