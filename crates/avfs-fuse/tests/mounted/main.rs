//! A mounted working tree, used as programs use it, over `/dev/fuse`. Needs `/dev/fuse` and the right to mount.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod attributes;
mod contents;
mod direct;
mod fixture;
mod given;
mod like_the_host;
mod locks;
mod modes;
mod names;
mod notifications;
mod privileges;
mod requests;
mod ruled;
mod two_like_the_host;
mod waiting;

use avfs_fuse::transport::Transport;

const TRANSPORT: Transport = Transport::Device;

/// Other mounts may show the same tree.
const EXCLUSIVE: bool = false;
