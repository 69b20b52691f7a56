//! Real sandboxes, and what is and is not possible in them. Needs bubblewrap and user namespaces.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod kit;

mod calls;
mod commands;
mod harmless;
mod landlocked;
mod limits;
mod neighbours;
mod network;
mod ordinary;
mod output;
mod shells;
mod survivors;
mod terminals;
mod tools;
mod walls;
