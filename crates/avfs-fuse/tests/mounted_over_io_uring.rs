//! A mounted working tree, used as programs use it, over io_uring. Needs `/dev/fuse`, the right to mount, and
//! Linux 6.14.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "mounted/asking.rs"]
mod asking;
#[path = "mounted/attributes.rs"]
mod attributes;
#[path = "mounted/contents.rs"]
mod contents;
#[path = "mounted/direct.rs"]
mod direct;
#[path = "mounted/fixture.rs"]
mod fixture;
#[path = "mounted/given.rs"]
mod given;
#[path = "mounted/like_the_host.rs"]
mod like_the_host;
#[path = "mounted/locks.rs"]
mod locks;
#[path = "mounted/modes.rs"]
mod modes;
#[path = "mounted/names.rs"]
mod names;
#[path = "mounted/notifications.rs"]
mod notifications;
#[path = "mounted/privileges.rs"]
mod privileges;
#[path = "mounted/requests.rs"]
mod requests;
#[path = "mounted/ruled.rs"]
mod ruled;
#[path = "mounted/two_like_the_host.rs"]
mod two_like_the_host;
#[path = "mounted/waiting.rs"]
mod waiting;

use avfs_fuse::transport::Transport;

const TRANSPORT: Transport = Transport::Uring;

/// Other mounts may show the same tree.
const EXCLUSIVE: bool = false;
