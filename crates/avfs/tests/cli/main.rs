//! The binary as a user meets it.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod config;
mod diff;
mod graph;
mod house;
mod output;
mod query;
mod sandbox;
mod seed;
mod upkeep;
mod versions;
