//! Forks and snapshots: copies of the files of a sandbox. Neither has anything of its memory.

use std::sync::Arc;

use agentvfs::VaultName;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post};
use axum::{Json, Router};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::control::{Asked, Client, EMPTY, Made, NEXT, seconds};
use super::failure::Failure;
use crate::random;
use crate::server::Server;
use crate::service::{ServiceError, Tenant, on_a_thread};

/// With what the names of vaults begin that are snapshots.
const PREFIX: &str = "snapshot-";
/// The most bytes of the name of a snapshot.
const NAME_MAX: usize = 128;
/// How many snapshots a page has, at most.
const PAGE: usize = 100;
/// The most forks of one call.
const FORKS_MAX: usize = 100;

pub(super) fn routes() -> Router<Arc<Server>> {
    let builds = || async { Failure::absent("builds of templates") };
    Router::new()
        .route("/sandboxes/{id}/fork", post(fork))
        .route("/sandboxes/{id}/snapshots", post(snapshot))
        .route("/snapshots", get(list))
        .route("/templates/{id}", delete(remove))
        .route("/templates", any(builds))
        .route("/v2/templates", any(builds))
        .route("/v3/templates", any(builds))
}

#[derive(Deserialize)]
struct Fork {
    count: Option<usize>,
    timeout: Option<u64>,
}

async fn fork(
    client: Client,
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Asked(asked): Asked<Fork>,
) -> Result<Response, Failure> {
    let sandbox = client.sandbox(&id)?;
    let count = asked.count.unwrap_or(1);
    if !(1..=FORKS_MAX).contains(&count) {
        return Err(Failure::bad_request(format!("`count` is from 1 to {FORKS_MAX}")));
    }
    let (caller, seconds) = (&client.0, seconds(asked.timeout)?);
    let forks = caller
        .tenant
        .fork_sandbox(&sandbox, count, Some(seconds), caller.principal.clone())
        .await?;
    let told = forks.iter().map(|fork| {
        let made = Made::of(&server, &caller.tenant, fork, &headers)?;
        Ok::<Value, Failure>(json!({ "sandbox": made }))
    });
    let told = told.collect::<Result<Vec<Value>, _>>()?;
    Ok((StatusCode::CREATED, Json(told)).into_response())
}

#[derive(Deserialize)]
struct Snapshot {
    name: Option<String>,
}

/// Keeps the files of a sandbox as a vault, from which others can be made. It says in its name whose they are.
async fn snapshot(
    client: Client,
    Path(id): Path<String>,
    Asked(asked): Asked<Snapshot>,
) -> Result<Response, Failure> {
    let name = asked.name.filter(|name| !name.is_empty());
    if let Some(name) = &name {
        check_name(name)?;
    }
    let sandbox = client.sandbox(&id)?;
    let tenant = Arc::clone(&client.0.tenant);
    let made = on_a_thread(move || {
        let number =
            random::bytes::<6>().map_err(|error| ServiceError::host("asking for random bytes", &error))?;
        let vault = format!("{PREFIX}{}-{}", sandbox.id, random::hex(&number));
        let at = sandbox.vault().revision("@")?;
        at.vault.fork_at(&at, &[VaultName::new(&vault)?])?;
        if let Some(name) = &name {
            tenant.state().snapshots().set(name, &vault)?;
        }
        shown(&tenant, &vault)
    });
    Ok((StatusCode::CREATED, Json(made.await?)).into_response())
}

/// Names are words that no id of a snapshot and no template has.
fn check_name(name: &str) -> Result<(), Failure> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    let is_taken = name.starts_with(PREFIX) || EMPTY.contains(&name);
    if name.len() > NAME_MAX || is_taken || !name.bytes().all(is_word) {
        return Err(Failure::bad_request(format!(
            "the name of a snapshot has at most {NAME_MAX} letters, digits and `-_.:/`, and does not begin with `{PREFIX}`"
        )));
    }
    Ok(())
}

fn shown(tenant: &Tenant, vault: &str) -> Result<Value, ServiceError> {
    Ok(json!({ "snapshotID": vault, "names": tenant.state().snapshots().of_vault(vault)? }))
}

/// The vault that a client means by the name of a template.
pub(super) async fn vault_of(tenant: &Arc<Tenant>, name: String) -> Result<String, Failure> {
    let (tenant, asked) = (Arc::clone(tenant), name.clone());
    let found = on_a_thread(move || Ok(tenant.state().snapshots().vault_of(&asked)?)).await?;
    let vault = found.unwrap_or(name);
    if VaultName::new(&vault).is_err() {
        let text = format!(
            "there is no template '{}'",
            avfs_core::printable(vault.as_bytes())
        );
        return Err(Failure::new(StatusCode::NOT_FOUND, text));
    }
    Ok(vault)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListWords {
    #[serde(rename = "sandboxID")]
    sandbox: Option<String>,
    name: Option<String>,
    limit: Option<usize>,
    next_token: Option<String>,
}

async fn list(client: Client, Query(words): Query<ListWords>) -> Result<Response, Failure> {
    let tenant = Arc::clone(&client.0.tenant);
    let limit = words.limit.unwrap_or(PAGE).clamp(1, PAGE);
    let found = on_a_thread(move || {
        let mut found = snapshots(&tenant, &words)?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).cloned();
        let told = found.iter().map(|vault| shown(&tenant, vault));
        Ok((told.collect::<Result<Vec<Value>, _>>()?, next))
    });
    let (told, next) = found.await?;
    let mut response = Json(told).into_response();
    if let Some(next) = next.and_then(|next| HeaderValue::from_str(&next).ok()) {
        response.headers_mut().insert(NEXT, next);
    }
    Ok(response)
}

/// The vaults that are meant, in the order of their names.
fn snapshots(tenant: &Tenant, words: &ListWords) -> Result<Vec<String>, ServiceError> {
    let prefix = match &words.sandbox {
        Some(id) => format!("{PREFIX}{id}-"),
        None => PREFIX.to_owned(),
    };
    let named = match &words.name {
        Some(name) => Some(
            tenant
                .state()
                .snapshots()
                .vault_of(name)?
                .unwrap_or_else(|| name.clone()),
        ),
        None => None,
    };
    let vaults = tenant.store().vaults()?.vaults.into_iter();
    let names = vaults.map(|vault| vault.name.to_string()).filter(|vault| {
        let is_named = named.as_ref().is_none_or(|named| named == vault);
        let is_later = words.next_token.as_ref().is_none_or(|after| vault > after);
        vault.starts_with(&prefix) && is_named && is_later
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// A snapshot is deleted as if it were a template, by its id or a name. No other vault is.
async fn remove(client: Client, Path(id): Path<String>) -> Result<StatusCode, Failure> {
    let tenant = Arc::clone(&client.0.tenant);
    let shown = avfs_core::printable(id.as_bytes());
    let is_gone = on_a_thread(move || {
        let vault = tenant.state().snapshots().vault_of(&id)?.unwrap_or(id);
        if !vault.starts_with(PREFIX) || !tenant.store().has_vault(&vault)? {
            return Ok(false);
        }
        // Its names first: none of them ever leads nowhere.
        tenant.state().snapshots().forget(&vault)?;
        tenant.store().vault(&vault)?.delete(true)?;
        Ok(true)
    });
    if is_gone.await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Failure::new(
        StatusCode::NOT_FOUND,
        format!("there is no snapshot '{shown}'"),
    ))
}
