//! Applying a task's changes to a real directory, and taking them back.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod attackers;
mod disks;
mod guarded;
mod kills;
mod random;
mod renames;
mod scene;
mod sides;
mod undoing;
mod unread;
mod writers;
