//! The exec boundary as a user meets it: the real binary, real sandboxes, real mounts.
//!
//! Every envelope that a test sees is validated against `docs/exec.schema.json`. Every restriction has its
//! control: the same action outside succeeds. Needs `/dev/fuse`, bubblewrap and root; tests as an ordinary
//! user need `fusermount3` as well.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail where it stands"
)]

mod always;
mod approvals;
mod capabilities;
mod runs;
mod schema;

mod changes;
mod command_line;
mod containers;
mod docker;
mod envelopes;
mod git;
mod images;
mod inner_door;
mod rootfs;
mod session;
mod together;
mod walls;
mod walls_of_users;

#[allow(dead_code, reason = "shared with other tests of mounts")]
#[path = "../mount_faults/ground.rs"]
mod ground;
#[allow(dead_code, reason = "shared with other tests of mounts")]
#[path = "../mount_faults/ordinary.rs"]
mod ordinary;
#[allow(dead_code, reason = "shared with other tests of mounts")]
#[path = "../mount_faults/program.rs"]
mod program;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../cli/sandbox.rs"]
mod sandbox;

/// Flags of a mount in a test that sets none itself.
const MOUNT_FLAGS: &[&str] = &[];
