//! `avfs run` as a user meets it: an agent in a terminal that tmux plays, on a project, with a home.
//!
//! The agent is a script that does what agents do: it replaces its files by rename, refreshes a token, speaks
//! HTTPS, is resized, interrupted, stopped and continued. Needs `/dev/fuse`, bubblewrap, tmux and root.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod caches;
mod copies;
mod detach;
mod ends;
mod full_disk;
mod git;
mod home;
mod leftovers;
mod network;
mod no_fuse;
#[allow(dead_code, reason = "shared with other tests in a terminal")]
#[path = "../review/pane.rs"]
mod pane;
mod project;
mod readers;
mod repository;
mod setup;
mod terminal;
mod unread;
mod words;
mod workspace;
