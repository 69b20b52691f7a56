//! `avfs mcp` as an agent's program meets it: the real binary, spoken to over pipes and over HTTP.
//!
//! The client here is the protocol by hand, so that it can also say what no good client would. Official clients are
//! driven by `scripts/mcp-clients`. Commands run in sandboxes, so this needs bubblewrap and `/dev/fuse`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may fail where it stands"
)]

mod approval_pages;
mod approvals;
mod attacks;
mod client;
mod commands;
mod hooks;
mod http;
mod resources;
mod tools;
mod workspaces;

#[allow(dead_code, reason = "shared with other tests")]
#[path = "../cli/sandbox.rs"]
mod sandbox;
