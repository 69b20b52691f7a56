//! How the server is.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};

use crate::auth::{Caller, Scope};
use crate::metrics;
use crate::problem::Problem;
use crate::server::Server;

pub(super) fn routes() -> Router<Arc<Server>> {
    health_routes().route("/api/metrics", get(numbers))
}

/// What anybody may ask.
pub(crate) fn health_routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
}

async fn health() -> &'static str {
    "ok\n"
}

/// Not before all tenants are open, and not any more when the server is about to end.
async fn ready(State(server): State<Arc<Server>>) -> Response {
    if server.is_ready() {
        return "ready\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response()
}

async fn numbers(State(server): State<Arc<Server>>, caller: Caller) -> Result<Response, Problem> {
    if !caller.scopes.allow(Scope::Read) {
        let text = "the token does not have the scope `read`";
        return Err(Problem::new(StatusCode::FORBIDDEN, "missing-scope", text));
    }
    let tenants = if caller.is_operator {
        server.tenants.all_open()
    } else {
        vec![caller.tenant]
    };
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((kind, metrics::text(&tenants)).into_response())
}
