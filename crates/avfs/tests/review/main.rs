//! `avfs review` and the pager, in a terminal that tmux plays, with someone who presses keys.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod danger;
mod deciding;
mod json;
mod looking;
mod pager;
mod pane;
mod project;
