//! Changes of a task that conflict with the current directory, and their resolutions.

use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use agentvfs::apply::{ChosenPlaces, Conflict, EditedText, OnConflict, Plan};
use anyhow::Result;

use crate::conflict_view::{ConflictLine, LineRole, conflict_lines};

/// How long the screen waits for conflicts before it opens without them.
const GRACE: Duration = Duration::from_millis(150);

/// The user's choice for a file in conflict. If there are no lines to choose from, rejecting the file keeps
/// the directory's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub how: How,
    /// Identifies the directory's version at the time of the choice.
    pub here_digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    Task,
    Both,
    Edited(Vec<u8>),
    /// Each conflict of a text by itself.
    Places(Vec<TextConflict>),
}

/// One conflict of a text, and its resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextConflict {
    /// The lines of the base, which it is known by.
    pub base: Range<usize>,
    /// `None`: it is open.
    pub side: Option<ChosenSide>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenSide {
    Mine,
    Task,
    Both,
}

impl ChosenSide {
    pub const ALL: [ChosenSide; 3] = [ChosenSide::Mine, ChosenSide::Task, ChosenSide::Both];

    /// A stable name.
    pub fn name(self) -> &'static str {
        match self {
            ChosenSide::Mine => "mine",
            ChosenSide::Task => "task",
            ChosenSide::Both => "both",
        }
    }

    fn on_conflict(self) -> OnConflict {
        match self {
            ChosenSide::Mine => OnConflict::Ours,
            ChosenSide::Task => OnConflict::Theirs,
            ChosenSide::Both => OnConflict::Mark,
        }
    }
}

impl How {
    /// A stable name.
    pub fn name(&self) -> &'static str {
        match self {
            How::Task => "task",
            How::Both => "both",
            How::Edited(_) => "edited",
            How::Places(_) => "places",
        }
    }

    /// Whether every conflict of the file is decided.
    pub fn is_complete(&self) -> bool {
        match self {
            How::Task | How::Both | How::Edited(_) => true,
            How::Places(places) => places.iter().all(|place| place.side.is_some()),
        }
    }

    /// The decision on one of the conflicts, for people.
    pub fn told(&self, place: usize) -> Option<&'static str> {
        let side = match self {
            How::Task => ChosenSide::Task,
            How::Both => ChosenSide::Both,
            How::Edited(_) => return Some("edited"),
            How::Places(places) => places.get(place)?.side?,
        };
        Some(match side {
            ChosenSide::Mine => "mine",
            ChosenSide::Task => "the task's",
            ChosenSide::Both => "both",
        })
    }

    pub fn on_conflict(&self) -> OnConflict {
        match self {
            How::Task => OnConflict::Theirs,
            How::Both => OnConflict::Mark,
            // If it is no longer valid, the conflict is open again.
            How::Edited(_) | How::Places(_) => OnConflict::Refuse,
        }
    }
}

impl Choice {
    pub fn edited(&self) -> Option<EditedText> {
        match &self.how {
            How::Edited(bytes) => Some(EditedText {
                bytes: bytes.clone(),
                here_digest: self.here_digest.clone(),
            }),
            How::Task | How::Both | How::Places(_) => None,
        }
    }

    /// The decisions on single conflicts.
    pub fn places(&self) -> Option<ChosenPlaces> {
        let How::Places(places) = &self.how else {
            return None;
        };
        let decided = places
            .iter()
            .filter_map(|place| Some((place.base.clone(), place.side?.on_conflict())));
        Some(ChosenPlaces {
            places: decided.collect(),
            here_digest: self.here_digest.clone(),
        })
    }
}

/// A conflict as displayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictView {
    pub lines: Vec<ConflictLine>,
    /// The conflicts of a text, each by the lines that the base has there.
    pub places: Vec<Range<usize>>,
    /// Whether the task changed more of the text than the conflicting parts.
    pub has_more: bool,
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
            places: sides
                .places(0)
                .into_iter()
                .map(|place| place.base_range)
                .collect(),
            has_more: sides.has_other_changes(),
            can_take_task: conflict.kind.can_take_theirs(),
            marked: sides.marked,
            here_digest: sides.here_digest,
        })
    }
}

impl ConflictView {
    /// The conflict that a line is about.
    pub fn place_of(&self, line: usize) -> Option<usize> {
        let titles = self
            .lines
            .iter()
            .take(line + 1)
            .filter(|line| line.role == LineRole::Title);
        titles
            .count()
            .checked_sub(1)
            .filter(|place| *place < self.places.len())
    }

    /// The line where a conflict begins.
    pub fn line_of(&self, place: usize) -> Option<usize> {
        let mut titles = self
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.role == LineRole::Title);
        titles.nth(place).map(|(line, _)| line)
    }
}

/// The conflicts, computed while the user already reads the first file: that requires reading every file in
/// the directory.
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

    /// The conflicts, returned once.
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
