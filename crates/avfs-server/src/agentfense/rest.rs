//! The paths of AgentFense's gateway. Each stands for a call: what the path, the query and the body say is its message.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderValue, Method, header};
use http_body_util::{BodyExt, Limited};
use prost::{Message, Name};
use prost_reflect::Kind;
use serde_json::{Map, Value};
use tonic::Status;

use super::codebases::Codebases;
use super::proto;
use super::proto::codebase_service_server::CodebaseService;
use super::proto::sandbox_service_server::SandboxService;
use super::refusal::Refusal;
use super::sandboxes::Sandboxes;
use crate::auth::Caller;
use crate::server::Server;

/// The most bytes of a body: as many as a message of gRPC may have.
const BODY_MAX: usize = 4 << 20;

/// A route whose answer is that of a call.
macro_rules! call {
    (Codebases, $call:ident) => {
        |Asked(asked): Asked<_>| async move { told(Codebases.$call(asked).await) }
    };
    (Sandboxes, $call:ident) => {
        |State(server): State<Arc<Server>>, Asked(asked): Asked<_>| async move {
            told(Sandboxes(server).$call(asked).await)
        }
    };
}

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route(
            "/v1/codebases",
            post(call!(Codebases, create_codebase)).get(call!(Codebases, list_codebases)),
        )
        .route(
            "/v1/codebases/{codebase_id}",
            get(call!(Codebases, get_codebase)).delete(call!(Codebases, delete_codebase)),
        )
        .route(
            "/v1/codebases/{codebase_id}/files",
            get(call!(Codebases, list_files)),
        )
        .route(
            "/v1/sandboxes",
            post(call!(Sandboxes, create_sandbox)).get(call!(Sandboxes, list_sandboxes)),
        )
        .route(
            "/v1/sandboxes/{sandbox_id}",
            get(call!(Sandboxes, get_sandbox)).delete(call!(Sandboxes, destroy_sandbox)),
        )
        .route(
            "/v1/sandboxes/{sandbox_id}/start",
            post(call!(Sandboxes, start_sandbox)),
        )
        .route(
            "/v1/sandboxes/{sandbox_id}/stop",
            post(call!(Sandboxes, stop_sandbox)),
        )
        .route("/v1/sandboxes/{sandbox_id}/exec", post(call!(Sandboxes, exec)))
        .route(
            "/v1/sandboxes/{sandbox_id}/sessions",
            post(call!(Sandboxes, create_session)).get(call!(Sandboxes, list_sessions)),
        )
        .route(
            "/v1/sessions/{session_id}",
            get(call!(Sandboxes, get_session)).delete(call!(Sandboxes, destroy_session)),
        )
        .route(
            "/v1/sessions/{session_id}/exec",
            post(call!(Sandboxes, session_exec)),
        )
}

/// The message that a request stands for.
struct Asked<T>(tonic::Request<T>);

impl<T: Name + Message + Default> FromRequest<Arc<Server>> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, server: &Arc<Server>) -> Result<Asked<T>, Refusal> {
        read(request, server).await.map(Asked).map_err(Refusal)
    }
}

async fn read<T: Name + Message + Default>(
    request: Request,
    server: &Arc<Server>,
) -> Result<tonic::Request<T>, Status> {
    let invalid = |text: String| Status::invalid_argument(text);
    let (mut parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned();
    let mut fields = if parts.method == Method::POST {
        let body = Limited::new(body, BODY_MAX).collect().await;
        let body = body.map_err(|error| invalid(format!("the body: {error}")))?;
        fields_of_body(&body.to_bytes())?
    } else {
        let words = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let words = words.map_err(|error| invalid(error.body_text()))?;
        fields_of_query::<T>(words.0)
    };
    let of_path = RawPathParams::from_request_parts(&mut parts, server).await;
    let of_path = of_path.map_err(|error| invalid(error.body_text()))?;
    for (name, value) in &of_path {
        fields.remove(&json_name::<T>(name));
        fields.insert(name.to_owned(), Value::String(value.to_owned()));
    }
    let message = proto::from_json(Value::Object(fields)).map_err(invalid)?;
    let mut request = tonic::Request::new(message);
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    Ok(request)
}

fn fields_of_body(body: &[u8]) -> Result<Map<String, Value>, Status> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(body).map_err(|error| Status::invalid_argument(format!("the body: {error}")))
}

/// The words of a query are texts; a message has other values too.
fn fields_of_query<T: Name>(words: Vec<(String, String)>) -> Map<String, Value> {
    let message = proto::descriptor::<T>();
    let field = |(name, word): (String, String)| {
        let field = message
            .get_field_by_name(&name)
            .or_else(|| message.get_field_by_json_name(&name));
        let value = match (field.map(|field| field.kind()), word.as_str()) {
            (Some(Kind::Bool), "true" | "1") => Value::Bool(true),
            (Some(Kind::Bool), "false" | "0") => Value::Bool(false),
            _ => Value::String(word),
        };
        (name, value)
    };
    words.into_iter().map(field).collect()
}

fn json_name<T: Name>(name: &str) -> String {
    let field = proto::descriptor::<T>().get_field_by_name(name);
    field.map_or_else(|| name.to_owned(), |field| field.json_name().to_owned())
}

fn told<T: Name + Message>(answer: Result<tonic::Response<T>, Status>) -> Response {
    match answer {
        Ok(message) => {
            let mut response = proto::to_json(message.get_ref()).into_response();
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(status) => Refusal(status).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agentfense::proto::ListFilesRequest;

    #[test]
    fn a_query_is_a_message() {
        let words = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, word)| (name.to_string(), word.to_string()));
            fields_of_query::<ListFilesRequest>(pairs.collect())
        };
        let fields = words(&[("path", "src"), ("recursive", "true"), ("other", "1")]);
        let read: ListFilesRequest = proto::from_json(Value::Object(fields)).unwrap();
        assert_eq!((read.path.as_str(), read.recursive), ("src", true));
        let wrong = words(&[("recursive", "perhaps")]);
        assert!(proto::from_json::<ListFilesRequest>(Value::Object(wrong)).is_err());
    }
}
