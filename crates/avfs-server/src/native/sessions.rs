//! Shells that stay: `/sandboxes/ID/sessions`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api, EVENTS};
use super::exec::{CommandWords, ExecAnswer, answer_of_envelope, timeout};
use super::input::{Headers, Input, Made, Millis, Words, made_body, part_of_path};
use super::listing::PageWords;
use super::once::wants_events;
use super::stream::run_events;
use super::subject::OneSandbox;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::service::{NewSessionCommand, Session};

pub(super) fn routes(api: &mut Api) {
    const ALL: &str = "/sandboxes/{id}/sessions";
    const ONE: &str = "/sandboxes/{id}/sessions/{session}";
    let about = About::new(
        "startSession",
        "Start a shell that keeps its directory and variables between commands",
        Scope::Run,
    );
    let about = about
        .takes::<StartSession>()
        .gives::<SessionBody>(201)
        .made_as("id");
    api.route(Method::POST, ALL, about, start);
    let about = About::new(
        "listSessions",
        "List sessions, also those that have ended",
        Scope::Read,
    );
    api.route(
        Method::GET,
        ALL,
        about.query::<PageWords>().gives::<SessionList>(200),
        list,
    );
    let about = About::new("getSession", "Show a session", Scope::Read).gives::<SessionBody>(200);
    api.route(Method::GET, ONE, about, get);
    let about = About::new("endSession", "End a session and everything in it", Scope::Run);
    api.route(Method::DELETE, ONE, about.again(), end);
    let about = About::new(
        "execInSession",
        "Run a command in a session to its end; with `Accept: text/event-stream`, its output comes as events",
        Scope::Run,
    );
    let about = about
        .takes::<SessionExecArgs>()
        .gives::<ExecAnswer>(200)
        .also_gives(EVENTS);
    api.route(Method::POST, &format!("{ONE}/exec"), about, exec);
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartSession {
    /// Variables in addition to those of the sandbox.
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// A shell that stays.
#[derive(Serialize, JsonSchema)]
struct SessionBody {
    id: String,
    sandbox: String,
    /// `open`, or `ended`: by a request, by itself, after its idle time, or with the server.
    state: &'static str,
    /// Milliseconds since 1970.
    created_ms: Millis,
}

#[derive(Serialize, JsonSchema)]
struct SessionList {
    sessions: Vec<SessionBody>,
    /// The `cursor` with which the list goes on; nothing at its end.
    next: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SessionExecArgs {
    command: CommandWords,
    /// What it reads from standard input; nothing, if not said.
    stdin: Option<String>,
    /// Seconds after which it is ended.
    timeout_seconds: Option<u64>,
}

fn body_of(sandbox: &str, session: &Session) -> SessionBody {
    SessionBody {
        id: session.id.clone(),
        sandbox: sandbox.to_owned(),
        state: if session.is_open() { "open" } else { "ended" },
        created_ms: session.created,
    }
}

/// The session that a path names.
struct OneSession {
    session: Arc<Session>,
    of: OneSandbox,
}

impl<S: Sync> FromRequestParts<S> for OneSession {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<OneSession, Problem> {
        let of = OneSandbox::from_request_parts(parts, state).await?;
        let id = part_of_path(parts, "session").await?;
        let session = of.sandbox.session(&id)?;
        Ok(OneSession { session, of })
    }
}

async fn start(of: OneSandbox, Input(asked): Input<StartSession>) -> Result<Made<SessionBody>, Problem> {
    let tenant = &of.caller.tenant;
    let session = tenant.sessions().start(&of.sandbox, asked.env).await?;
    Ok(made_body(body_of(&of.sandbox.id, &session)))
}

async fn list(of: OneSandbox, Words(page): Words<PageWords>) -> Json<SessionList> {
    let all = of.sandbox.sessions();
    let all = all
        .iter()
        .map(|session| body_of(&of.sandbox.id, session))
        .collect();
    let (sessions, next) = page.of(all, |one: &SessionBody| &one.id);
    Json(SessionList { sessions, next })
}

async fn get(of: OneSession) -> Json<SessionBody> {
    Json(body_of(&of.of.sandbox.id, &of.session))
}

async fn end(of: OneSession) -> Result<StatusCode, Problem> {
    let tenant = &of.of.caller.tenant;
    tenant.sessions().end(&of.of.sandbox, &of.session).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn exec(
    of: OneSession,
    headers: Headers,
    Input(asked): Input<SessionExecArgs>,
) -> Result<Response, Problem> {
    let new = NewSessionCommand {
        command: asked.command.into(),
        stdin: asked.stdin.map(String::into_bytes),
        timeout: timeout(asked.timeout_seconds)?,
    };
    let OneSession { session, of } = of;
    let tenant = Arc::clone(&of.caller.tenant);
    if wants_events(&headers.0) {
        let (output, end) = tenant.sessions().exec(&of.sandbox, &session, new).await?;
        return Ok(run_events(
            output,
            async move { Ok(answer_of_envelope(&end.await?)) },
        ));
    }
    let (_, end) = tenant.sessions().exec(&of.sandbox, &session, new).await?;
    Ok(Json(answer_of_envelope(&end.await?)).into_response())
}
