//! The REST interface: `/api/v1`, and what tells how the server is.
//!
//! Each handler translates one call of [`service`](crate::service). A route, its scope and its description are one value
//! ([`api::About`]), so the description that is served cannot say anything else than what is enforced.

mod api;
mod apply;
mod approvals;
mod archive;
mod audit;
mod bundle;
mod exec;
mod files;
mod input;
mod listing;
mod once;
mod page;
mod processes;
mod rules;
mod sandboxes;
mod search;
mod sessions;
mod socket;
mod stream;
mod subject;
mod system;
mod vaults;
mod versions;

use std::sync::Arc;

use axum::Router;

use crate::server::Server;

pub(crate) use system::health_routes;

/// All routes.
pub(crate) fn router() -> Router<Arc<Server>> {
    let mut api = api::Api::new();
    vaults::routes(&mut api);
    apply::routes(&mut api);
    bundle::routes(&mut api);
    sandboxes::routes(&mut api);
    exec::routes(&mut api);
    processes::routes(&mut api);
    socket::routes(&mut api);
    sessions::routes(&mut api);
    for base in subject::BASES {
        files::routes(&mut api, base);
        archive::routes(&mut api, base);
        rules::routes(&mut api, base);
        versions::routes(&mut api, base);
        search::routes(&mut api, base);
        audit::routes(&mut api, base);
    }
    approvals::routes(&mut api);
    let (router, description) = api.finish();
    router.merge(system::routes()).merge(page::routes(description))
}
