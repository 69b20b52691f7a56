//! The exec boundary: what a command would do, what the policy says of it, and the sandbox that it runs in.
//!
//! [`classify`](classify::classify) finds everything that a command can do, and a [`Policy`] decides. A
//! [`Plan`] says everything about one sandbox and is only data. A [`Launcher`] turns it into processes, and answers
//! with an [`Outcome`]. The first program in the sandbox is our own ([`inside`]): it locks the door behind itself and
//! starts the command.
//!
//! The class of a command is advice; the sandbox is the boundary. A wrong class must be harmless there.

mod capability;
pub mod classify;
pub mod in_place;
pub mod inside;
pub mod launch;
pub mod limits;
pub mod network;
pub mod output;
pub mod plan;
pub mod policy;
pub mod profile;
pub mod session;
pub mod support;
mod syscalls;
pub mod terminal;

pub use capability::{Capabilities, NetworkGrant};
pub use classify::{Class, Classes, Classification, Command, classify};
pub use launch::{Bubblewrap, Cancel, Event, Landlocked, LaunchError, Launcher, Outcome, Stdin};
pub use plan::{Limits, Network, Plan};
pub use policy::Policy;
