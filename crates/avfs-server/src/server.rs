//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::agentfense;
use crate::auth::{Caller, Peer, Scope, Scopes, Tokens};
use crate::e2b;
use crate::options::ServerOptions;
use crate::problem::Problem;
use crate::service::{DEFAULT_TENANT, Tenants, on_a_thread};

/// A server that runs.
pub(crate) struct Server {
    pub options: ServerOptions,
    pub tenants: Arc<Tenants>,
    pub e2b: e2b::Door,
    pub agentfense: agentfense::Door,
    tokens: Arc<Tokens>,
    /// Cancelled when no new connection is taken any more: streams end then.
    pub ending: CancellationToken,
    is_ready: AtomicBool,
}

impl Server {
    pub fn new(options: ServerOptions, tokens: Tokens) -> Server {
        Server {
            tenants: Arc::new(Tenants::new(options.clone())),
            options,
            e2b: e2b::Door::default(),
            agentfense: agentfense::Door::default(),
            tokens: Arc::new(tokens),
            ending: CancellationToken::new(),
            is_ready: AtomicBool::new(false),
        }
    }

    /// Whoever is at a port where no credential is needed.
    pub async fn open_caller(&self) -> Result<Caller, Problem> {
        let tenant = self
            .agentfense
            .tenant
            .get()
            .ok_or_else(Problem::unauthenticated)?;
        Ok(Caller {
            tenant: self.tenants.get(tenant).await?,
            scopes: [Scope::Read, Scope::Run].into_iter().collect(),
            principal: "agentfense".to_owned(),
            is_operator: false,
        })
    }

    pub fn set_ready(&self, ready: bool) {
        self.is_ready.store(ready, Ordering::Release);
    }

    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Who a request is from: whoever the token says, or else the user at the other end of the Unix socket. That user may
    /// name a tenant.
    pub async fn caller(
        &self,
        peer: Peer,
        token: Option<&str>,
        tenant: Option<&str>,
    ) -> Result<Caller, Problem> {
        if let Some(token) = token {
            let (tokens, token) = (Arc::clone(&self.tokens), token.to_owned());
            let found = on_a_thread(move || {
                tokens.check(&token).map_err(|error| {
                    let text = avfs_core::with_causes(&error);
                    crate::service::ServiceError::new("server-database", agentvfs::ErrorKind::Internal, text)
                })
            });
            let info = found.await?.ok_or_else(Problem::invalid_token)?;
            return Ok(Caller {
                tenant: self.tenants.get(&info.tenant).await?,
                scopes: info.scopes,
                principal: format!("token {}", info.id),
                is_operator: false,
            });
        }
        let Peer::Local { uid } = peer else {
            return Err(Problem::unauthenticated());
        };
        if !peer.is_operator() {
            return Err(Problem::unauthenticated());
        }
        let tenant = match tenant {
            Some(name) => self.tenants.existing(name).await?,
            None => self.tenants.get(DEFAULT_TENANT).await?,
        };
        Ok(Caller {
            tenant,
            scopes: Scopes::all(),
            principal: format!("uid {uid}"),
            is_operator: true,
        })
    }
}
