//! The binary as a user meets it.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod config;
mod house;
mod output;
mod sandbox;
