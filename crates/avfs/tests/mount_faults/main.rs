//! The guarantees of a mount when something goes wrong around it: its server is killed, the power fails, the
//! disk is full, a vault is restored or changed through another door while programs hold its files open.
//!
//! Everything goes through the binary, as a user does it. Needs root, `/dev/fuse` and the packages that
//! `scripts/test` installs; if something is missing, a test fails and names it. `AVFS_KILL_ROUNDS` makes the
//! random ones longer.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail where it stands"
)]

mod busy;
mod doors;
mod dying;
mod full;
mod ground;
mod holder;
mod kills;
mod namespaces;
#[allow(dead_code, reason = "shared with the tests of runs")]
mod ordinary;
mod power;
mod program;
mod restoring;
mod several;
mod two_doors;
mod user;
mod writers;

/// Flags of a mount in a test that sets none itself.
const MOUNT_FLAGS: &[&str] = &[];
