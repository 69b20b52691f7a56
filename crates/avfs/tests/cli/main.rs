//! The binary as a user meets it.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod change;
mod config;
mod exchange;
mod house;
mod look;
mod output;
mod sandbox;
mod trouble;
mod vault;
