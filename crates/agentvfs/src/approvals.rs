//! Approvals: what the exec boundary asks a person, and what the person answered.
//!
//! An approval holds for one request exactly: its [`Binding`] has everything that decides what a run does. Requests and
//! answers are in the store, which nothing inside a sandbox can reach. Each of them, and each use, is an entry of the
//! vault's audit log, in the same commit.

mod asking;
mod binding;
mod deciding;
mod preview;
mod programs;
pub(crate) mod raw;
mod record;
mod saved;

pub(crate) use asking::{Question, Standing};
pub use binding::{AskedCommand, AskedLimits, AskedNetwork, Binding, Input};
pub use deciding::{Allowance, SavePlace};
pub use preview::Preview;
pub(crate) use programs::Meaning;
pub use programs::{FoundProgram, NamedProgram};
pub use raw::Raw;
pub(crate) use record::keys;
pub use record::{Approval, ApprovalId, ApprovalState, Earlier, PENDING_SECONDS, SESSION_SECONDS, Scope};
pub use saved::{SavedFor, SavedRule};

#[cfg(test)]
mod tests;
