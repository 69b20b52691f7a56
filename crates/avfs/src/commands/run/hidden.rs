//! Paths that rules hide and git shows all the same, looked for while the program runs.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use agentvfs::TreePath;
use agentvfs::git::{hidden_and_tracked, hidden_in_history};
use agentvfs::rules::{Rule, Rules};

use super::arguments::Start;
use crate::printer::Printer;

/// How many paths are named.
const NAMED: usize = 3;

/// For a run that is over by then, the history is not looked through.
const SHORT: Duration = Duration::from_secs(1);

/// A search that goes on until this is dropped.
pub(super) struct Hidden {
    found: Receiver<Vec<TreePath>>,
    _going_on: Sender<()>,
}

impl Hidden {
    pub(super) fn look(start: &Start) -> Hidden {
        let (tell, found) = channel();
        let (going_on, ended) = channel();
        let root = start.task.root().to_owned();
        if let Some(rules) = start.program.rules.clone() {
            std::thread::spawn(move || search(&root, rules, &tell, &ended));
        }
        Hidden { found, _going_on: going_on }
    }

    /// Names what was found: what is tracked now, and what of the history was looked through by now.
    pub(super) fn warn(self, out: &mut Printer) {
        let mut paths = self.found.recv().unwrap_or_default();
        let once = self.found.try_recv().unwrap_or_default();
        let new: Vec<TreePath> = once.into_iter().filter(|path| !paths.contains(path)).collect();
        paths.extend(new);
        if !paths.is_empty() {
            let names: Vec<String> = paths.iter().take(NAMED).map(ToString::to_string).collect();
            out.warn(format_args!("hidden from the program, but not in git's history: {}", names.join(", ")));
        }
    }
}

/// Tells twice what it found, unless nobody listens any more. A repository that cannot be read tells nothing.
fn search(root: &Path, rules: Vec<Rule>, tell: &Sender<Vec<TreePath>>, ended: &Receiver<()>) {
    let Ok(rules) = Rules::new(rules) else { return };
    let tracked = hidden_and_tracked(root, &rules, NAMED).unwrap_or_default();
    if tell.send(tracked).is_ok() && ended.recv_timeout(SHORT) == Err(RecvTimeoutError::Timeout) {
        let _ = tell.send(hidden_in_history(root, &rules, NAMED).unwrap_or_default());
    }
}
