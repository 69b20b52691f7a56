//! Commands in the sandbox, as a user of the binary meets them. Needs FUSE, bubblewrap, and root for the ordinary user.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[allow(dead_code, reason = "shared with other tests")]
#[path = "../cli/sandbox.rs"]
mod sandbox;

mod session;
