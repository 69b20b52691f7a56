//! The exec boundary as a user meets it: the real binary, real sandboxes, real mounts.
//!
//! Every envelope that a test sees is held against `docs/exec.schema.json`. Every wall has its control: the same act
//! outside succeeds. Needs `/dev/fuse`, bubblewrap and root; what an ordinary user does needs `fusermount3` as well.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail where it stands")]

mod always;
mod approvals;
mod capabilities;
mod runs;
mod schema;

mod changes;
mod command_line;
mod envelopes;
mod inner_door;
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

/// What is said of a mount where nothing else is.
const MOUNT_FLAGS: &[&str] = &[];
