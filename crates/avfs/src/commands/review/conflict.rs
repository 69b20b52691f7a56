//! Changes of a task that do not fit what the directory has become, and what is to become of them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use agentvfs::apply::{Conflict, EditedText, OnConflict, Plan};
use anyhow::Result;

use crate::conflict_view::{ConflictLine, conflict_lines};

/// How long the screen waits for them before it opens without.
const GRACE: Duration = Duration::from_millis(150);

/// What the user wants for a file in conflict. To keep what is in the directory is to reject the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub how: How,
    /// Stands for what the directory had when it was made.
    pub here_digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    Task,
    Both,
    Edited(Vec<u8>),
}

impl How {
    /// A stable name.
    pub fn name(&self) -> &'static str {
        match self {
            How::Task => "task",
            How::Both => "both",
            How::Edited(_) => "edited",
        }
    }

    pub fn on_conflict(&self) -> OnConflict {
        match self {
            How::Task => OnConflict::Theirs,
            How::Both => OnConflict::Mark,
            // If it does not hold any more, the conflict is open again.
            How::Edited(_) => OnConflict::Refuse,
        }
    }
}

impl Choice {
    pub fn edited(&self) -> Option<EditedText> {
        match &self.how {
            How::Edited(bytes) => {
                Some(EditedText { bytes: bytes.clone(), here_digest: self.here_digest.clone() })
            }
            How::Task | How::Both => None,
        }
    }
}

/// A conflict as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictView {
    pub lines: Vec<ConflictLine>,
    pub can_take_task: bool,
    /// Both sides between markers, to be edited. `None`: they are not texts.
    pub marked: Option<Vec<u8>>,
    pub here_digest: String,
}

impl ConflictView {
    pub fn new(plan: &Plan, conflict: &Conflict) -> Result<ConflictView> {
        let sides = plan.sides(&conflict.path).map_err(agentvfs::Error::from)?;
        Ok(ConflictView {
            lines: conflict_lines(conflict, &sides),
            can_take_task: conflict.kind.can_take_theirs(),
            marked: sides.marked,
            here_digest: sides.here_digest,
        })
    }
}

/// The conflicts, looked for while the user looks at the first file already: it costs a look at every file in the directory.
pub struct Ahead(Option<Receiver<Result<Plan>>>);

impl Ahead {
    pub fn start(plan: impl FnOnce() -> Result<Plan> + Send + 'static) -> Ahead {
        let (sender, receiver) = channel();
        let look = move || drop(sender.send(plan()));
        match std::thread::Builder::new().name("conflicts".into()).spawn(look) {
            Ok(_) => Ahead(Some(receiver)),
            Err(_) => Ahead(None),
        }
    }

    /// What was found, once.
    pub fn found(&mut self, is_first: bool) -> Option<Result<Plan>> {
        let patience = if is_first { GRACE } else { Duration::ZERO };
        match self.0.as_ref()?.recv_timeout(patience) {
            Ok(found) => {
                self.0 = None;
                Some(found)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.0 = None;
                None
            }
        }
    }

    pub fn is_pending(&self) -> bool {
        self.0.is_some()
    }
}
