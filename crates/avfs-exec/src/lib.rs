//! The exec boundary: what a command may do, and the sandbox that it runs in.
//!
//! A [`Plan`] says everything about one sandbox and is only data. A [`Launcher`] turns it into processes, and answers
//! with an [`Outcome`]. The first program in the sandbox is our own ([`inside`]): it locks the door behind itself and
//! starts the command.

pub mod inside;
pub mod launch;
pub mod limits;
pub mod network;
pub mod output;
pub mod plan;
pub mod support;
pub mod syscalls;

pub use launch::{
    Bubblewrap, Cancel, Event, Landlocked, LaunchError, Launcher, Orders, Outcome, Session, Stdin,
};
pub use plan::{Limits, Network, Plan, User};
