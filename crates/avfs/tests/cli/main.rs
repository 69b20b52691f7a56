//! The binary as a user meets it.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod agents;
mod apply;
mod change;
mod config;
mod diff;
mod exchange;
mod git;
mod graph;
mod here;
mod house;
mod images;
mod interrupted;
mod look;
mod merging;
mod output;
mod owned;
mod policy;
mod query;
mod repair;
mod rules;
mod sandbox;
mod seed;
mod sizes;
mod tasks;
mod trouble;
mod upkeep;
mod vault;
mod versions;
