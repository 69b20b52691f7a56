//! Who calls, and what they may do.

mod scope;
mod tokens;

pub use scope::{Scope, Scopes};
pub(crate) use tokens::check_tenant;
pub use tokens::{NewToken, TokenError, TokenInfo, Tokens};

use std::sync::Arc;

use crate::service::Tenant;

/// Who a request is from. Only the entrance of the server makes one.
#[derive(Clone)]
pub struct Caller {
    /// Whose sandboxes and vaults the request is about.
    pub tenant: Arc<Tenant>,
    /// What the caller may do.
    pub scopes: Scopes,
    /// The caller in logs and audit logs: `token ID`, or `uid N` on the Unix socket.
    pub principal: String,
    /// The user who runs the server, on its Unix socket: the only one who sees all tenants.
    pub is_operator: bool,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, and the user that runs it, as the kernel says.
    Local {
        /// The number of that user.
        uid: u32,
    },
    /// A client that has only its token.
    Remote,
    /// A client at a port of this machine where none is needed, for the interface of AgentFense alone.
    Open,
}

impl Peer {
    /// Whether it is the user who runs this server, or root: both could read its files anyway.
    pub fn is_operator(self) -> bool {
        match self {
            Peer::Local { uid } => uid == 0 || uid == rustix::process::geteuid().as_raw(),
            Peer::Remote | Peer::Open => false,
        }
    }
}
