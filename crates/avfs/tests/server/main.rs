//! `avfs serve` as its clients meet it: the real binary, spoken to over TCP and over its Unix socket.
//!
//! The client here is HTTP by hand, so that it can also say what no good client would. Commands run in sandboxes, so this
//! needs bubblewrap and `/dev/fuse`.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod agentfense;
mod archives;
mod attacks;
mod bounds;
mod bundles;
mod client;
mod clients_gone;
mod clock;
mod commands;
mod description;
mod e2b;
mod files;
mod full_disk;
mod images;
mod kills;
mod lasting;
mod left_over;
mod limits;
mod listeners;
mod raw;
mod remote;
mod repetition;
mod routes;
mod sessions;
mod sockets;
mod tenants;
mod tls;
mod walls;
mod warm;

#[path = "../exec/rootfs.rs"]
mod rootfs;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../cli/sandbox.rs"]
mod sandbox;
