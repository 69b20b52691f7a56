//! Routes with what there is to know of them, from which the OpenAPI description is made.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use http::{Method, StatusCode};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::once::{Again, OnceRules, once};
use crate::auth::{Caller, Scope};
use crate::problem::{PROBLEM_JSON, Problem, ProblemBody};
use crate::server::Server;

/// Below which all of it is.
pub(super) const ROOT: &str = "/api/v1";

type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// The type of server-sent events.
pub(super) const EVENTS: &str = "text/event-stream";

/// A body that is not JSON, by its type.
const BYTES: &str = "application/octet-stream";

/// What a body is.
enum BodyAbout {
    Json(MakeSchema),
    Other(&'static str),
}

/// What there is to know of a route.
pub(super) struct About {
    name: &'static str,
    summary: &'static str,
    scope: Scope,
    takes: Option<BodyAbout>,
    query: Option<MakeSchema>,
    gives: (u16, Option<BodyAbout>),
    /// Answers with another status, by what they are.
    others: &'static [(u16, &'static str, Option<&'static str>)],
    /// Another type that the answer has if the client accepts it.
    also_gives: Option<&'static str>,
    headers: &'static [(&'static str, &'static str)],
    again: Again,
    made: Option<&'static str>,
    version: Option<&'static str>,
    /// Repeating the request needs no care: it changes nothing.
    is_harmless: bool,
}

impl About {
    pub fn new(name: &'static str, summary: &'static str, scope: Scope) -> About {
        About {
            name,
            summary,
            scope,
            takes: None,
            query: None,
            gives: (204, None),
            others: &[],
            also_gives: None,
            headers: &[],
            again: Again::Impossible,
            made: None,
            version: None,
            is_harmless: false,
        }
    }

    /// The request may be carried out again if nobody knows whether it was: it says what is to be, or is about something
    /// that is never there twice.
    pub fn again(mut self) -> About {
        self.again = Again::Possible;
        self
    }

    /// The request makes something, which this field of the answer names below its path.
    pub fn made_as(mut self, field: &'static str) -> About {
        self.made = Some(field);
        self
    }

    /// This field of the answer is the version of a file.
    pub fn version(mut self, field: &'static str) -> About {
        self.version = Some(field);
        self
    }

    /// The request changes nothing, whatever its method: no key is needed to repeat it.
    pub fn harmless(mut self) -> About {
        self.is_harmless = true;
        self
    }

    /// How a request by this method is carried out once; nothing, if it may be repeated as it is.
    fn once(&self, method: &Method) -> Option<OnceRules> {
        (method != Method::GET && !self.is_harmless).then_some(OnceRules {
            again: self.again,
            made: self.made,
            version: self.version,
            reads_body: matches!(self.takes, Some(BodyAbout::Json(_))),
            streams: self.also_gives == Some(EVENTS),
        })
    }

    pub fn takes<T: JsonSchema>(mut self) -> About {
        self.takes = Some(BodyAbout::Json(|made| made.subschema_for::<T>()));
        self
    }

    pub fn takes_bytes(mut self) -> About {
        self.takes = Some(BodyAbout::Other(BYTES));
        self
    }

    pub fn query<T: JsonSchema>(mut self) -> About {
        self.query = Some(|made| made.root_schema_for::<T>());
        self
    }

    pub fn gives<T: JsonSchema>(mut self, status: u16) -> About {
        self.gives = (status, Some(BodyAbout::Json(|made| made.subschema_for::<T>())));
        self
    }

    /// An answer of this status, without a body.
    pub fn gives_nothing(mut self, status: u16) -> About {
        self.gives = (status, None);
        self
    }

    pub fn gives_other(mut self, kind: &'static str) -> About {
        self.gives = (200, Some(BodyAbout::Other(kind)));
        self
    }

    /// The same answer in another form, for clients that accept it.
    pub fn also_gives(mut self, kind: &'static str) -> About {
        self.also_gives = Some(kind);
        self
    }

    /// Answers that are no problem and have another status: what each is, and the type of its body.
    pub fn or_gives(mut self, others: &'static [(u16, &'static str, Option<&'static str>)]) -> About {
        self.others = others;
        self
    }

    /// Headers that the request may have.
    pub fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> About {
        self.headers = headers;
        self
    }
}

/// The key of a request that is carried out once, however often it is sent.
const KEY_HEADER: (&str, &str) = (
    "Idempotency-Key",
    "A text of the client's choice. A request that is repeated with the same key gets the answer of the first.",
);

/// Collects routes.
pub(super) struct Api {
    router: Router<Arc<Server>>,
    paths: Map<String, Value>,
    schemas: SchemaGenerator,
}

impl Api {
    pub fn new() -> Api {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Api {
            router: Router::new(),
            paths: Map::new(),
            schemas: settings.into_generator(),
        }
    }

    /// Adds a route below the root. Whoever does not have its scope does not reach its handler.
    pub fn route<H, T>(&mut self, method: Method, path: &str, about: About, handler: H)
    where
        H: Handler<T, Arc<Server>>,
        T: 'static,
    {
        let path = format!("{ROOT}{path}");
        self.describe(&method, &path, &about);
        let (scope, once_rules) = (about.scope, about.once(&method));
        let filter = MethodFilter::try_from(method).expect("the methods of routes are the usual ones");
        let mut serving = on(filter, handler);
        if let Some(rules) = once_rules {
            let once = from_fn(move |request: Request, next: Next| once(rules, request, next));
            serving = serving.route_layer(once);
        }
        // The last layer is the outermost one: a key is of no use without the scope.
        let guard = from_fn(move |request: Request, next: Next| check_scope(scope, request, next));
        let router = std::mem::take(&mut self.router);
        self.router = router.route(&path, serving.route_layer(guard));
    }

    fn describe(&mut self, method: &Method, path: &str, about: &About) {
        let operation = self.operation(method, path, about);
        let of_path = self.paths.entry(path.to_owned()).or_insert_with(|| json!({}));
        of_path[method.as_str().to_lowercase()] = operation;
    }

    fn operation(&mut self, method: &Method, path: &str, about: &About) -> Value {
        let mut parameters = of_path(path);
        parameters.extend(self.of_query(about));
        let key = about.once(method).map(|_| &KEY_HEADER);
        let headers = about.headers.iter().chain(key).map(|(name, description)| {
            json!({ "name": name, "in": "header", "description": description, "schema": { "type": "string" } })
        });
        parameters.extend(headers);
        let (status, gives) = (about.gives.0.to_string(), about.gives.1.as_ref());
        let mut answer = json!({ "description": StatusCode::from_u16(about.gives.0).ok().and_then(|status| status.canonical_reason()) });
        if let Some(body) = gives {
            answer["content"] = self.content(body);
        }
        if let Some(kind) = about.also_gives {
            answer["content"][kind] = json!({});
        }
        let problem = self.schemas.subschema_for::<ProblemBody>();
        let mut operation = json!({
            // A path that two kinds of things have is described once for each.
            "operationId": if path.contains("{vault}") && !about.name.contains("Vault") {
                format!("{}OfVault", about.name)
            } else {
                about.name.to_owned()
            },
            "summary": about.summary,
            "description": format!("Needs the scope `{}`.", about.scope.as_str()),
            "tags": [tag(path)],
            "parameters": parameters,
            "responses": {
                status: answer,
                "default": {
                    "description": "What went wrong",
                    "content": { PROBLEM_JSON: { "schema": problem } },
                },
            },
        });
        for (status, description, kind) in about.others {
            let mut other = json!({ "description": description });
            if let Some(kind) = kind {
                other["content"] = json!({ *kind: {} });
            }
            operation["responses"][status.to_string()] = other;
        }
        if let Some(body) = &about.takes {
            operation["requestBody"] = json!({ "required": true, "content": self.content(body) });
        }
        operation
    }

    fn content(&mut self, body: &BodyAbout) -> Value {
        match body {
            BodyAbout::Json(make) => json!({ "application/json": { "schema": make(&mut self.schemas) } }),
            BodyAbout::Other(kind) => json!({ *kind: {} }),
        }
    }

    fn of_query(&mut self, about: &About) -> Vec<Value> {
        let Some(make) = about.query else {
            return Vec::new();
        };
        let schema = make(&mut self.schemas).to_value();
        let required: Vec<&str> = schema["required"]
            .as_array()
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        properties
            .into_iter()
            .map(|(name, mut of)| {
                let description = of.as_object_mut().and_then(|of| of.remove("description"));
                json!({
                    "required": required.contains(&name.as_str()),
                    "name": name, "in": "query", "description": description, "schema": of,
                })
            })
            .collect()
    }

    /// The routes, and their description as OpenAPI 3.1.
    pub fn finish(mut self) -> (Router<Arc<Server>>, Value) {
        let description = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "agentvfs",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "Sandboxes, files and versions. What goes wrong is told as a problem (RFC 9457), with a code that stays the same.",
            },
            "security": [{ "token": [] }],
            "paths": self.paths,
            "components": {
                "schemas": self.schemas.take_definitions(true),
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            },
        });
        (self.router, description)
    }
}

fn of_path(path: &str) -> Vec<Value> {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect()
}

/// The thing that a path is about.
fn tag(path: &str) -> &str {
    let rest = path.strip_prefix(ROOT).unwrap_or(path);
    rest.split('/').nth(1).unwrap_or_default()
}

async fn check_scope(scope: Scope, request: Request, next: Next) -> Response {
    let Some(caller) = request.extensions().get::<Caller>() else {
        return Problem::unauthenticated().into_response();
    };
    if caller.scopes.allow(scope) {
        return next.run(request).await;
    }
    let text = format!("the token does not have the scope `{}`", scope.as_str());
    Problem::new(StatusCode::FORBIDDEN, "missing-scope", text).into_response()
}
