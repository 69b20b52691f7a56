//! The description of the interface, for programs and for people.

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header;
use serde_json::Value;

use super::api::ROOT;
use crate::server::Server;

pub(super) fn routes(description: Value) -> Router<Arc<Server>> {
    let page: Arc<str> = page(&description).into();
    let text: Arc<str> = description.to_string().into();
    let json = move || async move { ([(header::CONTENT_TYPE, "application/json")], text.to_string()) };
    let html = move || async move {
        // Nothing on the page needs a script or anything from elsewhere.
        let headers = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (
                header::CONTENT_SECURITY_POLICY,
                "default-src 'none'; style-src 'unsafe-inline'",
            ),
        ];
        (headers, page.to_string()).into_response()
    };
    Router::new()
        .route(&format!("{ROOT}/openapi.json"), get(json))
        .route(&format!("{ROOT}/docs"), get(html))
}

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
code,h3{font-family:monospace}h3{margin:1.5em 0 0}td{padding:0 1em 0 0;vertical-align:top}pre{background:#8881;padding:1em}";

/// The description as a page. Its texts are those of this program.
fn page(description: &Value) -> String {
    let mut page = format!("<!doctype html><title>agentvfs</title><style>{STYLE}</style><h1>agentvfs</h1>");
    let paths = description["paths"].as_object().into_iter().flatten();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let _ = write!(page, "<h3>{} {}</h3>", method.to_uppercase(), escaped(path));
            let _ = write!(
                page,
                "<p>{}. {}</p>",
                text(&operation["summary"]),
                text(&operation["description"])
            );
            let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
            if !parameters.is_empty() {
                page.push_str("<table>");
                for parameter in parameters {
                    let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
                    let about = text(&parameter["description"]);
                    let _ = write!(page, "<tr><td><code>{name}</code><td>{place}<td>{about}");
                }
                page.push_str("</table>");
            }
            if let Some(body) = operation["requestBody"]["content"].as_object() {
                let _ = write!(page, "<p>Takes {}.</p>", kinds(body));
            }
        }
    }
    page.push_str("<h2>Bodies</h2>");
    for (name, schema) in description["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let shown = serde_json::to_string_pretty(schema).unwrap_or_default();
        let _ = write!(
            page,
            "<h3 id=\"{0}\">{0}</h3><pre>{1}</pre>",
            escaped(name),
            escaped(&shown)
        );
    }
    page
}

fn kinds(content: &serde_json::Map<String, Value>) -> String {
    let shown = content.iter().map(|(kind, about)| {
        let reference = about["schema"]["$ref"].as_str().unwrap_or_default();
        match reference.rsplit('/').next().filter(|name| !name.is_empty()) {
            Some(name) => format!("<a href=\"#{0}\"><code>{0}</code></a>", escaped(name)),
            None => format!("<code>{}</code>", escaped(kind)),
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
