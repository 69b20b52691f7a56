//! A server of the [Model Context Protocol](https://modelcontextprotocol.io): the files, commands, checkpoints and forks
//! of vaults, as tools for agents.
//!
//! [`serve_stdio`] answers one client over standard input and output, [`serve_http`] several over HTTP on this machine.
//! Both are given [`ServerOptions`]: the vaults that clients may name ([`Scope`]), the rules through which they see them,
//! and a [`FrontEnd`] for what belongs to the program around the server, such as words for people.
//!
//! Only this crate is asynchronous. The library is called on threads of its own, which may wait; whatever waits for a
//! command ends when its request is cancelled or its connection is gone.
//!
//! A client decides nothing that belongs to a person: no tool applies, merges, discards or answers an approval
//! ([0034](../../../docs/decisions/0034-mcp-tools-and-who-decides.md)).

#![warn(missing_docs)]

mod approval;
mod approval_page;
mod catalogue;
mod command;
mod connections;
mod ending;
mod http;
mod options;
mod outputs;
mod paths;
mod progress;
mod reply;
mod resources;
mod server;
mod stdio;
mod tool_error;
mod tools;
mod workspaces;

pub use http::{HttpServer, serve_http};
pub use options::{FrontEnd, RuleChoice, Scope, ServerOptions};
pub use stdio::serve_stdio;
