//! Programs in a mount, and faults around it, again with mounts with `--alone`: nothing may differ, except
//! that a second mount is refused (`only.rs`).
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail where it stands"
)]
#![allow(dead_code, reason = "what tests share is used in part")]

#[path = "../mount/archives.rs"]
mod archives;
#[path = "../mount_faults/busy.rs"]
mod busy;
#[path = "../mount/compare.rs"]
mod compare;
#[path = "../mount/databases.rs"]
mod databases;
#[path = "../mount_faults/doors.rs"]
mod doors;
#[path = "../mount/editing.rs"]
mod editing;
#[path = "../mount_faults/full.rs"]
mod full;
#[path = "../mount/git.rs"]
mod git;
#[path = "../mount_faults/ground.rs"]
mod ground;
#[path = "../mount_faults/holder.rs"]
mod holder;
#[path = "../mount_faults/kills.rs"]
mod kills;
#[path = "../mount/locks.rs"]
mod locks;
mod only;
#[path = "../mount/place.rs"]
mod place;
#[path = "../mount_faults/program.rs"]
mod program;
#[path = "../mount_faults/restoring.rs"]
mod restoring;
#[path = "../mount/shell.rs"]
mod shell;
#[path = "../mount/source.rs"]
mod source;
#[path = "../mount/suites.rs"]
mod suites;
#[path = "../mount_faults/writers.rs"]
mod writers;

/// Flags of a mount in a test that sets none itself.
const MOUNT_FLAGS: &[&str] = &["--alone"];
