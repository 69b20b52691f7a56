//! The interface of AgentFense, as its client for Python and programs for its gateway use it. `docs/agentfense.md` says
//! what differs.
//!
//! | for | look at |
//! |---|---|
//! | the messages, by gRPC and as JSON | `proto` |
//! | codebases and their files | `codebases` |
//! | sandboxes and sessions | `sandboxes`, `sessions`, `note`, `streams` |
//! | what permissions are as rules | `permissions` |
//! | the paths of the gateway | `rest` |
//! | the ports without a credential, and the configuration file | `ports`, `config` |
//! | refusals | `refusal` |
//!
//! Both protocols end in the same calls: what a path of the gateway gets is the message that gRPC would have brought.

mod codebases;
mod config;
mod note;
mod permissions;
mod ports;
mod proto;
mod refusal;
mod rest;
mod sandboxes;
mod sessions;
mod streams;
mod values;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;

pub use config::{AgentfenseConfig, ConfigError, LogLevel};
pub use ports::AgentfensePorts;
pub(crate) use refusal::phrase;

use crate::server::Server;
use crate::service::GivesBack;
use codebases::Codebases;
use proto::codebase_service_server::CodebaseServiceServer;
use proto::sandbox_service_server::SandboxServiceServer;
use sandboxes::Sandboxes;

/// What holds for all sandboxes of AgentFense's clients.
#[derive(Clone, Debug, Default)]
pub struct AgentfenseOptions {
    /// What becomes of changes when somebody else has changed the same.
    pub gives_back: GivesBack,
    /// How long a command may take that does not say otherwise.
    pub usual_timeout: Option<Duration>,
    /// How long any command may take.
    pub most_timeout: Option<Duration>,
    /// How long a sandbox exists whose client does not say otherwise.
    pub expiration: Option<Duration>,
    /// How many sandboxes there may be on the codebases of one owner.
    pub most_per_owner: Option<usize>,
    /// The image of sandboxes whose client asks for Docker and names none.
    pub image: Option<String>,
    /// Also other sandboxes are on that image.
    pub always_on_image: bool,
    /// Hosts that sandboxes reach, as `avfs exec --net` takes them.
    pub network: Vec<String>,
}

/// What all requests of this interface share.
#[derive(Default)]
pub(crate) struct Door {
    /// Held while something of a sandbox is changed that only this interface knows.
    changing: tokio::sync::Mutex<()>,
    /// Whose clients those at the ports without a credential are.
    pub tenant: OnceLock<String>,
}

/// All routes.
pub(crate) fn router(server: &Arc<Server>) -> Router<Arc<Server>> {
    let codebases = CodebaseServiceServer::new(Codebases);
    let sandboxes = SandboxServiceServer::new(Sandboxes(Arc::clone(server)));
    let routes = rest::routes()
        .route_service("/sandbox.v1.CodebaseService/{call}", codebases)
        .route_service("/sandbox.v1.SandboxService/{call}", sandboxes);
    proto::add_reflection(routes)
}
