//! `avfs review`, the pager and the questions of `apply` and `discard`, in a terminal that tmux provides,
//! with simulated key presses.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod approving;
mod asking;
mod danger;
mod deciding;
mod json;
mod looking;
mod pager;
mod pane;
mod project;
