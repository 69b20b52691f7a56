//! A vault that another process serves: all processes see and change the same state. The owner is this test
//! binary, started again, and controlled through its standard input.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod busy;
mod merging;
mod mounting;
mod owner;
mod sharing;
mod socket;
#[path = "../support/mod.rs"]
mod support;
