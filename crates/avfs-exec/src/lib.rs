//! The exec boundary of agentvfs: what a command would do, and what the policy says about it.
//!
//! The class of a command is advice; the sandbox is the boundary. A wrong class must be harmless there.

pub mod classify;
pub mod policy;

pub use classify::{Class, Classes, Classification, Command, Part, classify};
pub use policy::{Action, Decision, Policy, PolicyError, PrefixRule, rules_to_save};
