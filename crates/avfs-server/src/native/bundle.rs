//! A vault as one file, with its complete history, both ways as a stream.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{once, unfold};
use futures_util::{Stream, StreamExt};
use http::{HeaderValue, Method, header};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc::Receiver;

use super::api::{About, Api};
use super::files::take_in;
use super::input::{Made, made_body, part_of_path};
use super::subject::Subject;
use crate::auth::{Caller, Scope};
use crate::problem::Problem;
use crate::service::{
    Carried, ServiceError, ServiceResult, Spool, export_vault, import_vault, on_a_thread, stream_on_a_thread,
};

/// What such a file is called.
const KIND: &str = "application/octet-stream";
/// How many pieces of a file wait for a client that reads slowly.
const AHEAD: usize = 4;

pub(super) fn routes(api: &mut Api) {
    const PLACE: &str = "/vaults/{vault}/bundle";
    let about = About::new(
        "exportVault",
        "Read a vault as one file, with its history, checkpoints, rules and audit log",
        Scope::Admin,
    );
    api.route(Method::GET, PLACE, about.gives_other(KIND), export);
    let about = About::new(
        "importVault",
        "Make a vault with this name from such a file, all of it or nothing",
        Scope::Admin,
    );
    let about = about.takes_bytes().gives::<ImportedBody>(201);
    api.route(Method::PUT, PLACE, about, import);
}

/// What a file brought.
#[derive(Serialize, JsonSchema)]
struct ImportedBody {
    /// The name of the vault.
    name: String,
    /// The id of its present state.
    head: String,
    objects: u64,
    /// Bytes of all objects.
    bytes: u64,
    /// States in its history.
    snapshots: u64,
}

async fn export(of: Subject) -> Result<Response, Problem> {
    let vault = of.with_vault(|vault| Ok(vault.clone())).await?;
    let (send, mut receive) = tokio::sync::mpsc::channel::<ServiceResult<Bytes>>(AHEAD);
    stream_on_a_thread(move || export_vault(&vault, &send));
    // What fails before anything was sent is told as a problem. Later, the connection breaks off; the file says itself
    // where it ends.
    let first = receive.recv().await.ok_or_else(ServiceError::ending)??;
    let mut response = Body::from_stream(pieces(first, receive)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(KIND));
    Ok(response)
}

fn pieces(first: Bytes, receive: Receiver<ServiceResult<Bytes>>) -> impl Stream<Item = ServiceResult<Bytes>> {
    let rest = unfold(receive, |mut receive| async move {
        receive.recv().await.map(|piece| (piece, receive))
    });
    once(async { Ok(first) }).chain(rest)
}

/// The name of the vault that is to be made.
struct NewName(String);

impl<S: Sync> axum::extract::FromRequestParts<S> for NewName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut http::request::Parts, _: &S) -> Result<NewName, Problem> {
        part_of_path(parts, "vault").await.map(NewName)
    }
}

async fn import(caller: Caller, NewName(name): NewName, body: Body) -> Result<Made<ImportedBody>, Problem> {
    let upload = take_in(Spool::begin(&caller.tenant)?, body).await?;
    let made = on_a_thread(move || {
        let (vault, carried) = import_vault(&caller.tenant, &name, &upload)?;
        let Carried {
            objects,
            bytes,
            snapshots,
        } = carried;
        Ok(ImportedBody {
            name: vault.name()?.to_string(),
            head: vault.head()?.to_string(),
            objects,
            bytes,
            snapshots,
        })
    });
    made.await.map(made_body).map_err(Problem::from)
}
