//! A mounted working tree, used as programs use it. Needs `/dev/fuse` and the right to mount.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attributes;
mod contents;
mod fixture;
mod locks;
mod names;
mod notifications;
mod requests;
