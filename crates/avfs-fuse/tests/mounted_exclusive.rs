//! A working tree with a single mount, over `/dev/fuse`. Needs `/dev/fuse` and the right to mount.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "mounted/attributes.rs"]
mod attributes;
#[path = "mounted/contents.rs"]
mod contents;
#[path = "mounted/direct.rs"]
mod direct;
#[path = "mounted/exclusive.rs"]
mod exclusive;
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

/// No other mount shows the same tree.
const EXCLUSIVE: bool = true;
