//! Real sandboxes, and what is possible and impossible in them. Needs bubblewrap and user namespaces.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod kit;

mod calls;
mod commands;
mod harmless;
mod held;
mod landlocked;
mod limits;
mod neighbours;
mod network;
mod ordinary;
mod output;
mod processes;
mod shells;
mod survivors;
mod terminals;
mod tools;
mod walls;
