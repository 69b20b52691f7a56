//! How processes talk to the owner of a vault: a socket in its work directory.
//!
//! A connection carries lines of JSON: a greeting with the version of the protocol and its answer, then
//! requests, one answer each. Others read what the owner has stored, so the first request is mostly to store
//! what it has not yet (`Request::Settle`); and they give it states that they have stored themselves
//! (`Request::Adopt`). No file operation ever travels through the socket.

mod channel;
mod client;
mod desk;
pub(crate) mod place;
mod protocol;
mod server;

pub use client::LiveOwner;
pub(crate) use desk::Desk;
pub use desk::{Host, NoMounts, Unmounted};
pub(crate) use protocol::{Adopt, Bytes};
pub(crate) use server::Server;

/// The file of the socket in the work directory of a vault.
const SOCKET: &str = "control";
