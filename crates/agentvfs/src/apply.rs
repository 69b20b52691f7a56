//! Applying a task's changes to the real directory, and undoing that.
//!
//! [`Application::plan`] compares three versions of every path that the task changed: the one with which the
//! task began, the task's, and the current one in the directory. It only reads, and its result can be
//! displayed. [`Plan::carry_out`] does all of it or nothing, whatever happens meanwhile: if the process is
//! killed, the next one finishes or rolls back ([`Store::recover_applies`](crate::Store::recover_applies)),
//! and a file that another program changes in the meantime is compared again. Everything that is replaced is
//! kept, so that [`Store::undo_apply`](crate::Store::undo_apply) can restore it.
//!
//! The cost is proportional to the differences, not to the size of the directory.

mod applied_base;
mod carry;
mod executed;
mod guarded;
mod host;
mod keeping;
mod leads;
mod ledger;
mod left;
mod moves;
mod notes;
mod of_task;
mod on_conflict;
mod perform;
mod plan;
mod plan_builder;
mod print;
mod record;
mod recover;
mod rollback;
mod room;
mod selection;
mod sides;
mod stage;
mod step;
mod three_way;
mod undo;

pub use crate::error::{ApplyError, ApplyGoal, ApplyId, Conflict, ConflictKind, GuardReason, KeptCopy};
pub(crate) use applied_base::AppliedBase;
pub use carry::{Applied, ApplyWatch, Moment};
pub use executed::Pointed;
pub use guarded::Guarded;
pub(crate) use guarded::{is_deciding, is_part};
pub(crate) use host::check_in_reach;
pub use keeping::KeptApply;
pub(crate) use leads::{Becomes, Leads};
pub use notes::{Note, Reason};
pub use on_conflict::OnConflict;
pub use plan::{Application, ApplyOptions, Plan};
pub use record::{AppliedAction, AppliedFile, Applies, ApplyRecord};
pub use recover::{Recovered, Recovery};
pub use selection::{HunkNumber, Selection};
pub use sides::{ChosenPlaces, ConflictPlace, ConflictSides, EditedText, SideText};
pub use undo::UndoPlan;
