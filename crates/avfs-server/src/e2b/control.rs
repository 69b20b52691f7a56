//! Sandboxes: making, listing, pausing and ending them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post, put};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::access::{Purpose, is_ours, is_paused, token};
use super::copies;
use super::failure::Failure;
use super::{moment, place, ports};
use crate::auth::{Caller, Scope};
use crate::problem::Problem;
use crate::server::Server;
use crate::service::{
    Measurement, NewSandbox, Pausing, Sandbox, SandboxSource, SandboxSpec, ServiceResult, Tenant, on_a_thread,
};

/// The version of the program inside whose interface this is. Clients use no calls of later ones.
const INSIDE_VERSION: &str = "0.6.13";
/// Templates that stand for an empty sandbox: those that clients name if their user names none.
pub(super) const EMPTY: [&str; 2] = ["base", "code-interpreter-v1"];
/// Seconds that a sandbox exists if a client does not say how long, and at most.
const USUAL_SECONDS: u64 = 300;
/// Seconds that a sandbox exists at least when a request has let it go on.
const RESUMED_SECONDS: u64 = 300;
const SECONDS_MAX: u64 = 30 * 24 * 60 * 60;
/// Seconds until an idle sandbox is closed: not before it ends anyway.
const NEVER_IDLE: u64 = 10 * 365 * 24 * 60 * 60;
/// The most bytes of a body.
const BODY_MAX: usize = 1 << 20;
/// How many sandboxes a page has, unless the client says otherwise, and at most.
const PAGE: [usize; 2] = [100, 100];

pub(super) const NEXT: HeaderName = HeaderName::from_static("x-next-token");
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/sandboxes", post(create).get(list))
        .route("/v2/sandboxes", post(create).get(list))
        .route("/sandboxes/{id}", get(show).delete(kill))
        .route("/sandboxes/{id}/connect", post(connect))
        .route("/v2/sandboxes/{id}/connect", post(connect))
        .route("/sandboxes/{id}/timeout", post(set_timeout))
        .route("/sandboxes/{id}/pause", post(pause))
        .route("/sandboxes/{id}/metrics", get(metrics))
        .route("/sandboxes/{id}/network", put(set_network))
        .route("/sandboxes/{id}/logs", any(|| absent("logs of sandboxes")))
        .route("/volumes", any(|| absent("volumes")))
        .route("/secrets", any(|| absent("secrets")))
}

async fn absent(what: &'static str) -> Failure {
    Failure::absent(what)
}

/// A client outside of sandboxes, who may do what the method is for.
pub(super) struct Client(pub Caller);

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Client, Failure> {
        let needed = if parts.method == Method::GET {
            Scope::Read
        } else {
            Scope::Run
        };
        // The entrance has put it there.
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| Failure::from(Problem::unauthenticated()))?;
        if !caller.scopes.allow(needed) {
            let text = format!("the token has no scope `{}`", needed.as_str());
            return Err(Failure::new(StatusCode::FORBIDDEN, text));
        }
        Ok(Client(caller))
    }
}

impl Client {
    /// A sandbox that was made by a client of this interface.
    pub fn sandbox(&self, id: &str) -> Result<Arc<Sandbox>, Failure> {
        let found = self.0.tenant.sandbox(id).ok().filter(|sandbox| is_ours(sandbox));
        let id = avfs_core::printable(id.as_bytes());
        found.ok_or_else(|| Failure::new(StatusCode::NOT_FOUND, format!("sandbox {id} not found")))
    }
}

/// A body of JSON, which may be left out.
pub(super) struct Asked<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Asked<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Asked<T>, Failure> {
        let body = Limited::new(request.into_body(), BODY_MAX).collect().await;
        let bytes = body.map_err(|error| Problem::of_body(&*error))?;
        let bytes = bytes.to_bytes();
        let bytes = if bytes.is_empty() { &b"{}"[..] } else { &bytes[..] };
        let value = serde_json::from_slice(bytes);
        value
            .map(Asked)
            .map_err(|error| Failure::bad_request(format!("the body: {error}")))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Create {
    #[serde(rename = "templateID")]
    template: String,
    timeout: Option<u64>,
    metadata: Option<BTreeMap<String, String>>,
    env_vars: Option<BTreeMap<String, String>>,
    #[serde(default)]
    auto_pause: bool,
    auto_pause_memory: Option<bool>,
    auto_resume: Option<AutoResume>,
    network: Option<Network>,
    volume_mounts: Option<Vec<Value>>,
    mcp: Option<Value>,
    iam: Option<Value>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct AutoResume {
    #[serde(default)]
    enabled: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Network {
    allow_out: Option<Vec<String>>,
    allow_public_traffic: Option<bool>,
    rules: Option<Value>,
    egress_proxy: Option<Value>,
    mask_request_host: Option<Value>,
}

impl Network {
    fn refuse_absent(&self) -> Result<(), Failure> {
        let is_given = |value: &Option<Value>| match value {
            None | Some(Value::Null) => false,
            Some(Value::Object(map)) => !map.is_empty(),
            Some(_) => true,
        };
        for (value, what) in [
            (&self.rules, "rules for single hosts"),
            (&self.egress_proxy, "proxy of single sandboxes"),
            (&self.mask_request_host, "other names for the ports of sandboxes"),
        ] {
            if is_given(value) {
                return Err(Failure::absent(what));
            }
        }
        Ok(())
    }
}

/// What a client is told of a sandbox that it may use.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Made {
    #[serde(rename = "templateID")]
    template: String,
    #[serde(rename = "sandboxID")]
    id: String,
    #[serde(rename = "clientID")]
    client: &'static str,
    envd_version: &'static str,
    envd_access_token: String,
    traffic_access_token: String,
    domain: Option<String>,
}

impl Made {
    pub fn of(
        server: &Server,
        tenant: &Tenant,
        sandbox: &Sandbox,
        headers: &HeaderMap,
    ) -> Result<Made, Failure> {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        Ok(Made {
            template: template(sandbox),
            id: sandbox.id.clone(),
            client: "avfs",
            envd_version: INSIDE_VERSION,
            envd_access_token: token(server, tenant, &sandbox.id, Purpose::Inside)?,
            traffic_access_token: token(server, tenant, &sandbox.id, Purpose::Traffic)?,
            domain: ports::domain(host, &server.options.host_names),
        })
    }
}

fn template(sandbox: &Sandbox) -> String {
    let named = sandbox.parent.as_ref().or(sandbox.spec.image.as_ref());
    named.cloned().unwrap_or_else(|| EMPTY[0].to_owned())
}

/// The image that a template names, if it names one.
async fn image(tenant: &Arc<Tenant>, template: &str) -> Result<Option<String>, Failure> {
    let (tenant, name) = (Arc::clone(tenant), template.to_owned());
    let found = on_a_thread(move || -> ServiceResult<bool> {
        let images = tenant.store().images().list()?;
        Ok(images.iter().any(|image| image.vault.name.as_str() == name))
    });
    Ok(found.await?.then(|| template.to_owned()))
}

fn refuse_absent(asked: &Create) -> Result<(), Failure> {
    let is_given = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_null());
    if let Some(network) = &asked.network {
        network.refuse_absent()?;
    }
    for (is_asked, what) in [
        (
            asked
                .volume_mounts
                .as_ref()
                .is_some_and(|mounts| !mounts.is_empty()),
            "volumes",
        ),
        (is_given(&asked.mcp), "MCP gateway in sandboxes"),
        (is_given(&asked.iam), "identities of workloads"),
    ] {
        if is_asked {
            return Err(Failure::absent(what));
        }
    }
    Ok(())
}

/// A time from now that a sandbox may exist.
pub(super) fn seconds(asked: Option<u64>) -> Result<u64, Failure> {
    let seconds = asked.unwrap_or(USUAL_SECONDS);
    if seconds > SECONDS_MAX {
        return Err(Failure::bad_request(format!(
            "`timeout` is at most {SECONDS_MAX} seconds"
        )));
    }
    Ok(seconds)
}

async fn create(
    Client(caller): Client,
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    Asked(asked): Asked<Create>,
) -> Result<Response, Failure> {
    refuse_absent(&asked)?;
    let key = headers.get(KEY).and_then(|key| key.to_str().ok());
    let image = image(&caller.tenant, &asked.template).await?;
    let source = if EMPTY.contains(&asked.template.as_str()) || image.is_some() {
        SandboxSource::Empty
    } else {
        let name = copies::vault_of(&caller.tenant, asked.template.clone()).await?;
        SandboxSource::Vault { name, revision: None }
    };
    let seconds = seconds(asked.timeout)?;
    let pausing = asked.auto_pause.then(|| Pausing {
        memory: asked.auto_pause_memory.unwrap_or(true),
        resumes: asked.auto_resume.unwrap_or_default().enabled,
        seconds: seconds.max(RESUMED_SECONDS),
    });
    let network = asked.network.unwrap_or_default();
    let mut env = BTreeMap::from([("HOME".to_owned(), place::HOME.to_owned())]);
    env.extend(asked.env_vars.unwrap_or_default());
    let new = NewSandbox {
        source,
        spec: SandboxSpec {
            network: network.allow_out.unwrap_or_default(),
            private_ports: network.allow_public_traffic == Some(false),
            pausing,
            env,
            idle_seconds: Some(NEVER_IDLE),
            metadata: asked.metadata.unwrap_or_default(),
            principal: caller.principal.clone(),
            also_at: Some(PathBuf::from(place::HOME)),
            unattended: true,
            image,
            ..SandboxSpec::default()
        },
        rules: None,
        expires_seconds: Some(seconds),
        prefix: None,
        key: key.map(|key| format!("e2b {} {key}", caller.principal)),
    };
    let sandbox = caller.tenant.create_sandbox(new).await?;
    let made = Made::of(&server, &caller.tenant, &sandbox, &headers)?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// Everything about a sandbox. Its token is for those who may run commands.
fn detail(server: &Server, client: &Client, sandbox: &Sandbox) -> Result<Value, Failure> {
    let limits = client.0.tenant.limits();
    let memory = memory_limit(&client.0.tenant, sandbox);
    let mut detail = json!({
        "templateID": template(sandbox),
        "sandboxID": sandbox.id,
        "clientID": "avfs",
        "startedAt": moment::show(sandbox.created),
        "endAt": moment::show(sandbox.expires().unwrap_or(sandbox.created)),
        "cpuCount": processors(),
        "memoryMB": memory >> 20,
        "diskSizeMB": limits.disk.unwrap_or(0) >> 20,
        "state": if is_paused(sandbox) { "paused" } else { "running" },
        "metadata": sandbox.spec.metadata,
        "envdVersion": INSIDE_VERSION,
        "allowInternetAccess": !sandbox.network().is_empty(),
        "network": { "allowOut": sandbox.network(), "allowPublicTraffic": !sandbox.spec.private_ports },
        "lifecycle": {
            "onTimeout": if sandbox.spec.pausing.is_some() { "pause" } else { "kill" },
            "autoResume": sandbox.spec.pausing.is_some_and(|pausing| pausing.resumes),
        },
    });
    if client.0.scopes.allow(Scope::Run) {
        detail["envdAccessToken"] = token(server, &client.0.tenant, &sandbox.id, Purpose::Inside)?.into();
    }
    Ok(detail)
}

async fn show(
    client: Client,
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Failure> {
    let sandbox = client.sandbox(&id)?;
    detail(&server, &client, &sandbox).map(Json)
}

/// What a list is restricted to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    metadata: Vec<(String, String)>,
    states: Vec<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

impl Wanted {
    fn read(uri: &Uri) -> Result<Wanted, Failure> {
        let bad = |what: &str| Failure::bad_request(format!("the query: {what}"));
        let words =
            Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|error| bad(&error.body_text()))?;
        let mut wanted = Wanted::default();
        for (name, value) in words.0 {
            match name.as_str() {
                "metadata" => {
                    wanted.metadata = pairs(&value).ok_or_else(|| bad("`metadata` is no list of pairs"))?
                }
                "state" => wanted.states.extend(value.split(',').map(str::to_owned)),
                "limit" => wanted.limit = Some(value.parse().map_err(|_| bad("`limit` is a number"))?),
                "nextToken" => wanted.cursor = Some(value),
                // A list that leaves a condition out would be another list.
                other => return Err(Failure::absent(&format!("condition `{other}` for lists"))),
            }
        }
        Ok(wanted)
    }

    fn admits(&self, sandbox: &Sandbox) -> bool {
        let state = if is_paused(sandbox) { "paused" } else { "running" };
        let has = |(name, value): &(String, String)| sandbox.spec.metadata.get(name) == Some(value);
        is_ours(sandbox)
            && (self.states.is_empty() || self.states.iter().any(|wanted| wanted == state))
            && self.metadata.iter().all(has)
    }
}

/// A query inside a query, of which clients have encoded each name and value once more.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let decoded = |text: String| match query(&format!("x={text}")).as_deref() {
        Some([(_, decoded)]) => decoded.clone(),
        _ => text,
    };
    let pairs = query(text)?.into_iter();
    Some(
        pairs
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect(),
    )
}

fn query(text: &str) -> Option<Vec<(String, String)>> {
    let uri = Uri::builder().path_and_query(format!("/?{text}")).build().ok()?;
    Some(Query::try_from_uri(&uri).ok()?.0)
}

async fn list(client: Client, State(server): State<Arc<Server>>, uri: Uri) -> Result<Response, Failure> {
    let wanted = Wanted::read(&uri)?;
    let limit = wanted.limit.unwrap_or(PAGE[0]).clamp(1, PAGE[1]);
    let tenant = &client.0.tenant;
    let page = tenant.sandboxes(wanted.cursor.as_deref(), limit, |sandbox| wanted.admits(sandbox))?;
    let found = page.sandboxes.iter().map(|sandbox| {
        let mut detail = detail(&server, &client, sandbox)?;
        // A list tells what there is, and opens nothing.
        if let Some(detail) = detail.as_object_mut() {
            detail.remove("envdAccessToken");
        }
        Ok::<Value, Failure>(detail)
    });
    let mut response = Json(found.collect::<Result<Vec<Value>, Failure>>()?).into_response();
    if let Some(next) = page.next.and_then(|next| HeaderValue::from_str(&next).ok()) {
        response.headers_mut().insert(NEXT, next);
    }
    Ok(response)
}

async fn kill(client: Client, Path(id): Path<String>) -> Result<StatusCode, Failure> {
    let sandbox = client.sandbox(&id)?;
    client.0.tenant.delete_sandbox(&sandbox).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Timeout {
    timeout: Option<u64>,
}

async fn set_timeout(
    client: Client,
    Path(id): Path<String>,
    Asked(asked): Asked<Timeout>,
) -> Result<StatusCode, Failure> {
    let sandbox = client.sandbox(&id)?;
    if is_paused(&sandbox) {
        return Err(Failure::new(
            StatusCode::CONFLICT,
            "the sandbox is paused; connect to it first",
        ));
    }
    let seconds = seconds(asked.timeout)?;
    client.0.tenant.expire_sandbox(&sandbox, Some(seconds)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Pause {
    memory: Option<bool>,
}

/// Stops every process of a sandbox, and its clock. A sandbox without a time at which it ends is one that is paused.
async fn pause(
    client: Client,
    Path(id): Path<String>,
    Asked(asked): Asked<Pause>,
) -> Result<StatusCode, Failure> {
    let sandbox = client.sandbox(&id)?;
    if is_paused(&sandbox) {
        return Err(Failure::new(
            StatusCode::CONFLICT,
            "the sandbox is paused already",
        ));
    }
    let memory = asked.memory.unwrap_or(true);
    client.0.tenant.pauses().pause(&sandbox, memory).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lets a paused sandbox go on. The time of one that runs becomes no shorter.
async fn connect(
    client: Client,
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Asked(asked): Asked<Timeout>,
) -> Result<Json<Made>, Failure> {
    let sandbox = client.sandbox(&id)?;
    let seconds = seconds(asked.timeout)?;
    client.0.tenant.pauses().resume(&sandbox, seconds).await?;
    Made::of(&server, &client.0.tenant, &sandbox, &headers).map(Json)
}

/// Replaces the network of a sandbox. What is left out is nothing.
async fn set_network(
    client: Client,
    Path(id): Path<String>,
    Asked(asked): Asked<Network>,
) -> Result<StatusCode, Failure> {
    let sandbox = client.sandbox(&id)?;
    asked.refuse_absent()?;
    let hosts = asked.allow_out.unwrap_or_default();
    client.0.tenant.set_network(&sandbox, hosts).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A part of time, in seconds since 1970.
#[derive(Deserialize)]
struct Interval {
    start: Option<i64>,
    end: Option<i64>,
}

async fn metrics(
    client: Client,
    Path(id): Path<String>,
    Query(interval): Query<Interval>,
) -> Result<Json<Vec<Value>>, Failure> {
    let sandbox = client.sandbox(&id)?;
    let limits = client.0.tenant.limits();
    let is_wanted = |one: &&Measurement| {
        let second = one.at.div_euclid(1000);
        interval.start.is_none_or(|start| start <= second) && interval.end.is_none_or(|end| second <= end)
    };
    let cpus = processors();
    let all = sandbox.measurements().await?;
    let told = all.iter().filter(is_wanted).map(|one| {
        json!({
            "timestamp": moment::show(one.at),
            "timestampUnix": one.at.div_euclid(1000),
            "cpuCount": cpus,
            "cpuUsedPct": one.cpu * 100.0 / cpus as f64,
            "memUsed": one.memory,
            "memCache": one.cache,
            "memTotal": memory_limit(&client.0.tenant, &sandbox),
            "diskUsed": one.disk,
            "diskTotal": limits.disk.unwrap_or(0),
        })
    });
    Ok(Json(told.collect()))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn memory_limit(tenant: &Tenant, sandbox: &Sandbox) -> u64 {
    let most = tenant.limits().memory;
    sandbox.spec.memory.unwrap_or(most).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_list_are_read_as_clients_write_them() {
        let uri = "/v2/sandboxes?metadata=a%253Db%3Dann%252520b%26app%3Dx&state=running&state=paused&limit=7&nextToken=n";
        let wanted = Wanted::read(&uri.parse().unwrap()).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(wanted.metadata, [pair("a=b", "ann b"), pair("app", "x")]);
        assert_eq!(wanted.states, ["running", "paused"]);
        assert_eq!((wanted.limit, wanted.cursor.as_deref()), (Some(7), Some("n")));
        let both = Wanted::read(&"/v2/sandboxes?state=running%2Cpaused".parse().unwrap()).unwrap();
        assert_eq!(both.states, ["running", "paused"]);
        for wrong in ["limit=x", "order=asc"] {
            assert!(Wanted::read(&format!("/v2/sandboxes?{wrong}").parse().unwrap()).is_err());
        }
    }

    #[test]
    fn unsupported_fields_are_refused_by_name() {
        let check = |more: Value| {
            let mut body = json!({ "templateID": "base", "allow_internet_access": true, "secure": true });
            body.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            refuse_absent(&serde_json::from_value(body).unwrap()).map_err(|failure| failure.status)
        };
        assert_eq!(
            check(
                json!({ "autoPause": true, "autoResume": { "enabled": false }, "network": { "rules": {} } })
            ),
            Ok(())
        );
        for more in [
            json!({ "network": { "rules": { "example.com": [] } } }),
            json!({ "network": { "egressProxy": { "address": "example.com:1080" } } }),
            json!({ "volumeMounts": [{ "name": "v", "path": "/v" }] }),
            json!({ "mcp": { "x": {} } }),
        ] {
            assert_eq!(check(more), Err(StatusCode::NOT_IMPLEMENTED));
        }
    }
}
