//! Programs that nobody here wrote, in a mount: they work, and what they leave behind is what they leave in a
//! directory of the host.
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

/// What is said of a mount where nothing else is.
const MOUNT_FLAGS: &[&str] = &[];
