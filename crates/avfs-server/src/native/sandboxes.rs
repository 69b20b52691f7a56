//! `/sandboxes`.

use std::collections::BTreeMap;

use axum::Json;
use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::input::{Input, Made, Millis, Words, made_body};
use super::once::OnceKey;
use super::subject::OneSandbox;
use crate::auth::{Caller, Scope};
use crate::problem::Problem;
use crate::service::{NewSandbox, Sandbox, SandboxSource, SandboxSpec, ServiceError, on_a_thread, rule_list};

/// How many sandboxes a page has, unless the client says otherwise, and at most.
const PAGE: [usize; 2] = [100, 1000];

pub(super) fn routes(api: &mut Api) {
    let about = About::new("createSandbox", "Make a sandbox", Scope::Run);
    let about = about
        .takes::<CreateSandbox>()
        .gives::<SandboxBody>(201)
        .made_as("id")
        .again();
    api.route(Method::POST, "/sandboxes", about, create);
    let about = About::new(
        "listSandboxes",
        "List sandboxes, in the order in which they were made",
        Scope::Read,
    );
    api.route(
        Method::GET,
        "/sandboxes",
        about.query::<ListSandboxes>().gives::<SandboxList>(200),
        list,
    );
    let about = About::new("getSandbox", "Show a sandbox", Scope::Read).gives::<SandboxBody>(200);
    api.route(Method::GET, "/sandboxes/{id}", about, get);
    let about = About::new("deleteSandbox", "End a sandbox and delete its files", Scope::Run);
    api.route(Method::DELETE, "/sandboxes/{id}", about.again(), delete);
    let about = About::new(
        "openSandbox",
        "Prepare a sandbox, so that the next command in it starts at once",
        Scope::Run,
    );
    let about = about.gives::<SandboxBody>(200).again();
    api.route(Method::POST, "/sandboxes/{id}/open", about, open);
    let about = About::new(
        "closeSandbox",
        "End everything that runs in a sandbox; its files stay",
        Scope::Run,
    );
    api.route(Method::POST, "/sandboxes/{id}/close", about, close);
    let about = About::new(
        "expireSandbox",
        "Change when a sandbox is deleted by itself",
        Scope::Run,
    );
    let about = about.takes::<Expiry>().gives::<SandboxBody>(200);
    api.route(Method::PUT, "/sandboxes/{id}/expiry", about, expire);
    let about = About::new(
        "forkSandbox",
        "Make copies of a sandbox with its present files",
        Scope::Run,
    );
    let about = about.takes::<ForkSandbox>().gives::<SandboxList>(201);
    api.route(Method::POST, "/sandboxes/{id}/forks", about, fork);
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateSandbox {
    /// The vault whose files it starts with; none, if not said. The vault itself is not changed.
    vault: Option<String>,
    /// The state of that vault: `@` (the present one), a checkpoint, or the id of a snapshot.
    revision: Option<String>,
    /// Seconds until it is deleted by itself; never, if not said.
    expires_seconds: Option<u64>,
    /// Seconds without a command after which everything that runs in it is ended. Its files stay.
    idle_seconds: Option<u64>,
    /// Seconds that a command may take, unless it says otherwise; 600, if not said.
    timeout_seconds: Option<u64>,
    /// Hosts that its commands may reach, such as `registry.npmjs.org` or a group such as `+npm`. More than the policy grants
    /// needs an approval.
    #[serde(default)]
    network: Vec<String>,
    /// Its commands cannot change anything.
    #[serde(default)]
    read_only: bool,
    /// A preset of rules through which its programs, and requests without the scope `admin`, see its files: `agent-safe`,
    /// `development`, `read-only`, `view-only` or `full-access`. Rules that are stored with the vault stay in any case.
    preset: Option<String>,
    /// Rules on top of the preset: `PATTERN=LEVEL` or `PATTERN=LEVEL@PRIORITY`.
    rules: Option<Vec<String>>,
    /// The image whose system its commands run in, instead of that of the server's machine. What they install is kept with
    /// the sandbox.
    image: Option<String>,
    /// What builds it: `bubblewrap`, or `oci` or `docker` for a container on an image; `bubblewrap`, if not said.
    isolation: Option<String>,
    /// Variables of all its commands.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Bytes of memory of all its processes together.
    memory: Option<u64>,
    /// Texts of the client's choice, by which sandboxes can be listed.
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

/// A sandbox.
#[derive(Serialize, JsonSchema)]
pub(super) struct SandboxBody {
    id: String,
    /// The vault with its files.
    vault: String,
    /// The sandbox or vault that it is a copy of.
    parent: Option<String>,
    /// `open` if a command in it starts at once, or `idle`.
    state: &'static str,
    /// How many of its processes run.
    running: usize,
    /// Milliseconds since 1970.
    created_ms: Millis,
    /// When it is deleted by itself, in milliseconds since 1970.
    expires_ms: Option<Millis>,
    /// When something was last done with it, in milliseconds since 1970.
    last_used_ms: Millis,
    network: Vec<String>,
    read_only: bool,
    /// The image whose system its commands run in.
    image: Option<String>,
    metadata: BTreeMap<String, String>,
}

/// Some sandboxes.
#[derive(Serialize, JsonSchema)]
struct SandboxList {
    sandboxes: Vec<SandboxBody>,
    /// The `cursor` with which the list goes on; nothing at its end.
    next: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListSandboxes {
    /// Where the list goes on: `next` of the page before.
    cursor: Option<String>,
    /// The most sandboxes of the page; 100, if not said, and at most 1000.
    limit: Option<usize>,
    /// `NAME=VALUE`: only those with this text in their metadata.
    metadata: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Expiry {
    /// Seconds from now; `null` means never.
    seconds: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForkSandbox {
    /// How many, at most 100.
    #[serde(default = "one")]
    count: usize,
    /// Seconds until they are deleted by themselves; never, if not said.
    expires_seconds: Option<u64>,
}

fn one() -> usize {
    1
}

fn body_of(sandbox: &Sandbox) -> Result<SandboxBody, ServiceError> {
    Ok(SandboxBody {
        id: sandbox.id.clone(),
        vault: sandbox.vault().name()?.to_string(),
        parent: sandbox.parent.clone(),
        state: if sandbox.is_open() { "open" } else { "idle" },
        running: sandbox.running(),
        created_ms: sandbox.created,
        expires_ms: sandbox.expires(),
        last_used_ms: sandbox.last_used(),
        network: sandbox.spec.network.clone(),
        read_only: sandbox.spec.read_only,
        image: sandbox.spec.image.clone(),
        metadata: sandbox.spec.metadata.clone(),
    })
}

async fn bodies(sandboxes: Vec<std::sync::Arc<Sandbox>>) -> Result<Vec<SandboxBody>, Problem> {
    let read = on_a_thread(move || sandboxes.iter().map(|sandbox| body_of(sandbox)).collect());
    Ok(read.await?)
}

async fn one_body(sandbox: std::sync::Arc<Sandbox>) -> Result<SandboxBody, Problem> {
    Ok(on_a_thread(move || body_of(&sandbox)).await?)
}

async fn create(
    caller: Caller,
    OnceKey(used): OnceKey,
    Input(asked): Input<CreateSandbox>,
) -> Result<Made<SandboxBody>, Problem> {
    let source = match (asked.vault, asked.revision) {
        (Some(name), revision) => SandboxSource::Vault { name, revision },
        (None, Some(_)) => return Err(Problem::bad_request("`revision` needs `vault`")),
        (None, None) => SandboxSource::Empty,
    };
    let rules = rule_list(asked.preset.as_deref(), asked.rules.as_deref())?;
    let new = NewSandbox {
        source,
        rules,
        spec: SandboxSpec {
            network: asked.network,
            read_only: asked.read_only,
            env: asked.env,
            memory: asked.memory,
            timeout_seconds: asked.timeout_seconds,
            idle_seconds: asked.idle_seconds,
            metadata: asked.metadata,
            principal: caller.principal.clone(),
            image: asked.image,
            isolation: asked.isolation,
            ..SandboxSpec::default()
        },
        expires_seconds: asked.expires_seconds,
        prefix: None,
        key: used.map(|used| format!("{} {}", used.principal, used.key)),
    };
    let sandbox = caller.tenant.create_sandbox(new).await?;
    Ok(made_body(one_body(sandbox).await?))
}

async fn list(caller: Caller, Words(asked): Words<ListSandboxes>) -> Result<Json<SandboxList>, Problem> {
    let limit = asked.limit.unwrap_or(PAGE[0]).clamp(1, PAGE[1]);
    let wanted = asked
        .metadata
        .as_deref()
        .map(|text| text.split_once('=').unwrap_or((text, "")));
    let admit = |sandbox: &Sandbox| {
        wanted.is_none_or(|(name, value)| sandbox.spec.metadata.get(name).is_some_and(|has| has == value))
    };
    let page = caller.tenant.sandboxes(asked.cursor.as_deref(), limit, admit)?;
    Ok(Json(SandboxList {
        sandboxes: bodies(page.sandboxes).await?,
        next: page.next,
    }))
}

async fn get(of: OneSandbox) -> Result<Json<SandboxBody>, Problem> {
    one_body(of.sandbox).await.map(Json)
}

async fn delete(of: OneSandbox) -> Result<StatusCode, Problem> {
    of.caller.tenant.delete_sandbox(&of.sandbox).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn open(of: OneSandbox) -> Result<Json<SandboxBody>, Problem> {
    of.caller.tenant.open_sandbox(&of.sandbox).await?;
    one_body(of.sandbox).await.map(Json)
}

async fn close(of: OneSandbox) -> Result<StatusCode, Problem> {
    of.caller.tenant.close_sandbox(&of.sandbox).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn expire(of: OneSandbox, Input(asked): Input<Expiry>) -> Result<Json<SandboxBody>, Problem> {
    of.caller
        .tenant
        .expire_sandbox(&of.sandbox, asked.seconds)
        .await?;
    one_body(of.sandbox).await.map(Json)
}

async fn fork(of: OneSandbox, Input(asked): Input<ForkSandbox>) -> Result<Made<SandboxList>, Problem> {
    let principal = of.caller.principal.clone();
    let forks = of
        .caller
        .tenant
        .fork_sandbox(&of.sandbox, asked.count, asked.expires_seconds, principal)
        .await?;
    Ok(made_body(SandboxList {
        sandboxes: bodies(forks).await?,
        next: None,
    }))
}
