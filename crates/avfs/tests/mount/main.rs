//! Third-party programs in a mount: they work, and leave the same files as in a directory of the host.
//!
//! A scenario is run twice at the same path, first in a host directory and then in a mount, and the two trees
//! are compared entry by entry (`place.rs`, `compare.rs`). Most need programs that `scripts/test` installs;
//! where one is missing, the test fails and names it.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod archives;
mod builds;
mod compare;
mod databases;
mod editing;
mod git;
mod listing;
mod locks;
mod place;
mod ruled;
mod shell;
mod source;
mod suites;
mod together;

/// Flags of a mount in a test that sets none itself.
const MOUNT_FLAGS: &[&str] = &[];
