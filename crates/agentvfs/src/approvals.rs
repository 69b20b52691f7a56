//! Approvals: requests of the exec boundary to a person, and the answers.
//!
//! An approval is valid for exactly one request: its [`Binding`] has everything that decides what a run does.
//! Requests and answers are in the store, which is unreachable from inside a sandbox. Each of them, and each
//! use, is an entry of the vault's audit log, in the same commit.

mod asking;
mod binding;
mod deciding;
mod preview;
mod programs;
mod record;
mod saved;

pub use crate::stored_bytes::StoredBytes;
pub(crate) use asking::{ApprovalQuestion, Standing};
pub use asking::{Approvals, VaultApprovals};
pub use binding::{AskedCommand, AskedLimits, AskedNetwork, Binding, BoundImage, BoundInput};
pub use deciding::{Allowance, SavePlace};
pub use preview::Preview;
pub(crate) use programs::CommandMeaning;
pub use programs::{FoundProgram, NamedProgram};
pub use record::{Approval, ApprovalId, ApprovalState, Earlier, PENDING_SECONDS, SESSION_SECONDS, Scope};
pub use saved::{SavedFor, SavedRule};

#[cfg(test)]
mod tests;
