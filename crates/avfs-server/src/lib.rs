//! The server: sandboxes, files and versions over HTTP, for programs in any language.
//!
//! | for | look at |
//! |---|---|
//! | what a server is made of, and how it runs | [`ServerOptions`], [`serve()`] |
//! | who calls, and what they may do | [`auth`] |
//! | tenants, sandboxes, processes and files, whatever the protocol | [`service`] |
//! | the REST interface | `native` |
//! | the interface of E2B's clients | `e2b` |
//! | the interface of AgentFense's clients | `agentfense` |
//! | what survives a restart | `state` |
//!
//! A tenant is a store of its own, so nothing of one can be found from another: not by an id, not by an error, and not by
//! how long an answer takes. The library is synchronous; it is called on threads that may wait.

#![warn(missing_docs)]

mod agentfense;
pub mod auth;
mod clock;
mod connection;
mod draining;
mod e2b;
mod entrance;
mod listening;
mod log;
mod metrics;
mod native;
mod options;
mod problem;
mod random;
mod serve;
mod server;
pub mod service;
mod state;
mod tls;

pub use agentfense::{AgentfenseConfig, AgentfenseOptions, AgentfensePorts, ConfigError, LogLevel};
pub use listening::{Listening, ListeningError};
pub use log::LogWriter;
pub use options::{LogLines, ServerOptions, TenantLimits};
pub use serve::serve;
pub use service::GivesBack;
pub use tls::{PemProblem, Tls, TlsError};
