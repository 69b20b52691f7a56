//! The exec boundary: the effects of a command, the decision of the policy about it, and the sandbox in which
//! it runs.
//!
//! [`classify`](classify::classify) finds everything that a command can do, and a [`Policy`] decides. A
//! [`SandboxPlan`] describes one sandbox completely and is only data. A [`Launcher`] turns it into processes, and
//! returns an [`LaunchOutcome`]. The first program in the sandbox is our own ([`avfs_inside`]): it confines itself and
//! starts the command. A [`ProcessSandbox`] stays open instead, and any number of processes run in it side by
//! side.
//!
//! The class of a command is advice; the sandbox is the boundary. A wrong class must be harmless there.
#![warn(missing_docs, unnameable_types, unreachable_pub)]

mod capability;
pub mod classify;
pub mod in_place;
pub mod launch;
pub mod limits;
pub mod network;
pub mod output;
pub mod plan;
pub mod policy;
pub mod processes;
pub mod profile;
pub mod session;
pub mod support;
pub mod terminal;
mod text_position;

pub use avfs_inside as inside;
pub use capability::{Capabilities, NetworkGrant};
pub use classify::{Class, Classes, Classification, Command, classify};
pub use launch::{
    Bubblewrap, Cancel, Container, Docker, Landlocked, LaunchError, LaunchOutcome, Launcher, RunEvent,
    SandboxBuilder, Stdin,
};
pub use plan::{Network, RunLimits, SandboxPlan};
pub use policy::Policy;
pub use processes::{ProcessSandbox, ProcessSpec, SandboxProcess};
