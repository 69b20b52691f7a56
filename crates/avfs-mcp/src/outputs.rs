//! The output of the last commands, for clients that want to read more of it than an answer has.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// How many commands are remembered.
const REMEMBERED: usize = 16;

/// What a command has written, as far as it was kept.
#[derive(Debug, Default)]
pub(crate) struct RunText {
    pub stdout: String,
    pub stderr: String,
}

/// The output of commands by the ids of their runs, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Outputs(Mutex<VecDeque<(String, Arc<RunText>)>>);

impl Outputs {
    pub fn keep(&self, run: &str, text: RunText) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == REMEMBERED {
            kept.pop_front();
        }
        kept.push_back((run.to_owned(), Arc::new(text)));
    }

    pub fn of(&self, run: &str) -> Option<Arc<RunText>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .find(|(known, _)| known == run)
            .map(|(_, text)| Arc::clone(text))
    }
}
