//! git in a tree and on the host, with the real program.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod attacks;
mod bringing;
mod files;
mod ground;
mod guarded;
mod hidden;
mod history;
mod inlined;
mod layouts;
mod merging;
mod revisions;
mod submodules;
mod tasks;
mod traps;
