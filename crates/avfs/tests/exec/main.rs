//! The exec boundary as a user meets it: the real binary, real sandboxes, real mounts. Needs `/dev/fuse` and
//! bubblewrap.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod approvals;
