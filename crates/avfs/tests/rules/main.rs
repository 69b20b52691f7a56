//! Mounts through rules: what each level allows, what is hidden, attempts to bypass the rules, several views
//! of one vault, rules that change under running programs, and tools that must continue to work.
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

/// Flags of a mount in a test that sets none itself.
const MOUNT_FLAGS: &[&str] = &[];
