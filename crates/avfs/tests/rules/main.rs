//! Mounts through rules: what each level allows, what is hidden, ways around the rules that must not work, several
//! views of one vault, rules that change under programs that run, and tools that must go on working.
//!
//! Every refusal has its control: the same act where no rule forbids it succeeds.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod acts;
mod cells;
mod escapes;
#[allow(dead_code, reason = "shared with other tests of mounts")]
#[path = "../mount_faults/ground.rs"]
mod ground;
mod hidden;
mod live;
mod presets;
#[allow(dead_code, reason = "shared with other tests of mounts")]
#[path = "../mount_faults/program.rs"]
mod program;
mod scene;
#[allow(dead_code, reason = "shared with other tests of mounts")]
#[path = "../mount/shell.rs"]
mod shell;
mod table;
mod tools;
mod views;

/// What is said of a mount where nothing else is.
const MOUNT_FLAGS: &[&str] = &[];
