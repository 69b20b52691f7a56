//! How processes communicate with the owner of a vault: a socket in its work directory.
//!
//! A connection carries lines of JSON: a greeting with the version of the protocol and its answer, then
//! requests, one answer each. Other processes read what the owner has stored, so the first request is usually
//! to store the rest (`Request::Settle`); and they hand it states that they have stored themselves
//! (`Request::Adopt`). No file operation ever travels through the socket.

mod channel;
mod client;
mod mount_state;
pub(crate) mod place;
mod protocol;
mod server;

pub use client::LiveOwner;
pub use mount_state::{MountRecord, MountState, Unmounted};
pub(crate) use protocol::{Adopt, Bytes, OwnerReply, OwnerRequest, VERSION};
pub(crate) use server::SocketServer;

/// The file of the socket in the work directory of a vault.
const SOCKET: &str = "control";
