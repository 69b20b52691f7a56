//! The interface of E2B, as its SDKs for Python and JavaScript use it. `docs/e2b.md` says what of it there is.
//!
//! | for | look at |
//! |---|---|
//! | sandboxes: making, listing, pausing, ending them | `control` |
//! | forks and snapshots | `copies` |
//! | who may use which sandbox, and signed addresses of files | `access` |
//! | how calls, streams and errors travel | `connect`, `failure` |
//! | commands and terminals | `process`, `follow` |
//! | entries of directories, and what happens to them | `filesystem`, `entry`, `watch` |
//! | the contents of files | `transfer`, `multipart` |
//! | which path of a client is which path of the vault | `place` |
//! | code in a context that stays | `interpreter` |
//! | ports of sandboxes | `ports` |
//!
//! A client has one address for everything: it names its sandbox by a token that this server has given it.

mod access;
mod connect;
mod control;
mod copies;
mod entry;
mod failure;
mod filesystem;
mod follow;
mod interpreter;
mod moment;
mod multipart;
mod place;
mod ports;
mod process;
mod transfer;
mod watch;

use std::sync::Arc;

use axum::Router;

pub(crate) use access::{admit, phrase};
pub(crate) use ports::PortName;

use crate::server::Server;

/// What all sandboxes of E2B's clients share.
#[derive(Default)]
pub(crate) struct Door {
    key: access::Key,
    watchers: watch::Watchers,
    interpreters: interpreter::Interpreters,
}

/// All routes.
pub(crate) fn router() -> Router<Arc<Server>> {
    control::routes()
        .merge(copies::routes())
        .merge(process::routes())
        .merge(filesystem::routes())
        .merge(watch::routes())
        .merge(transfer::routes())
        .merge(interpreter::routes())
}
