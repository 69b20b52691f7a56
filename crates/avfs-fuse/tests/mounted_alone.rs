//! A working tree that is mounted alone, over `/dev/fuse`. Needs `/dev/fuse` and the right to mount.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "mounted/alone.rs"]
mod alone;
#[path = "mounted/attributes.rs"]
mod attributes;
#[path = "mounted/contents.rs"]
mod contents;
#[path = "mounted/direct.rs"]
mod direct;
#[allow(dead_code, reason = "no rules here")]
#[path = "mounted/fixture.rs"]
mod fixture;
#[path = "mounted/like_the_host.rs"]
mod like_the_host;
#[path = "mounted/names.rs"]
mod names;
#[path = "mounted/notifications.rs"]
mod notifications;
#[path = "mounted/privileges.rs"]
mod privileges;
#[path = "mounted/requests.rs"]
mod requests;
#[path = "mounted/waiting.rs"]
mod waiting;

use avfs_fuse::transport::Transport;

const TRANSPORT: Transport = Transport::Device;

/// Nobody else shows the same tree.
const ALONE: bool = true;
