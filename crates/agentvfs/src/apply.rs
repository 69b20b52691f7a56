//! A task's changes brought into the real directory, and taken back.
//!
//! [`Application::plan`] compares three sides of every path that the task changed: as it was when the task
//! began, as the task left it, and as it is in the directory now. It only looks, and what it returns can be
//! shown. [`Plan::carry_out`] does all of it or nothing, whatever happens meanwhile: a process that is
//! killed is followed by the next one ([`Store::recover_applies`](crate::Store::recover_applies)), and a file
//! that somebody changes in the very moment is looked at again. Everything that is replaced is kept, so that
//! [`Store::undo_apply`](crate::Store::undo_apply) can bring it back.
//!
//! It costs what differs, never what is there.

mod carry;
mod conflict;
mod draft;
mod error;
mod executed;
mod guarded;
mod host;
mod keeping;
mod leads;
mod ledger;
mod left;
mod moves;
mod notes;
mod perform;
mod plan;
mod print;
mod record;
mod recover;
mod selection;
mod sides;
mod stage;
mod step;
mod taking_back;
mod three_way;
mod undo;

pub use carry::{Applied, Moment, Watch};
pub use conflict::{Conflict, ConflictKind, OnConflict};
pub use error::{ApplyError, KeptCopy, Wanted};
pub use executed::Pointed;
pub use guarded::{GuardReason, Guarded};
pub(crate) use guarded::{is_deciding, is_part};
pub(crate) use host::check_in_reach;
pub use keeping::KeptApply;
pub(crate) use leads::{Becomes, Leads};
pub use notes::{Note, Reason};
pub use plan::{Application, ApplyOptions, Plan};
pub use record::{AppliedFile, ApplyId, ApplyRecord, Deed};
pub use recover::{Recovered, Recovery};
pub use selection::{HunkNumber, Selection};
pub use sides::{ConflictPlace, ConflictSides, EditedText, SideText};
pub use undo::UndoPlan;
