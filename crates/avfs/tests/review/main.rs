//! `avfs review`, the pager and what `apply` and `discard` ask, in a terminal that tmux plays, with someone who presses keys.
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
