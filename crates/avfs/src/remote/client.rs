//! Requests to a server, and what it says went wrong as errors of this program.

use std::io::{BufRead, Read};

use agentvfs::ErrorCode;
use anyhow::{Context as _, Result};
use serde_json::Value;

use super::endpoint::Endpoint;
use super::http::{self, Answer, Body};
use super::variable;
use crate::exit::ExitStatus;
use crate::failure::{Failure, of_library};

/// The codes that only a server has.
const CODES: &[&str] = &[
    "bad-range",
    "bad-request",
    "key-reused",
    "missing-scope",
    "not-started",
    "outcome-unknown",
    "process-ended",
    "request-under-way",
    "rules-of-vault",
    "server-database",
    "server-ending",
    "session-closed",
    "stdin-closed",
    "tenant-full",
    "too-large",
    "too-many-commands",
    "too-many-requests",
    "too-many-sandboxes",
    "too-many-sessions",
    "unauthenticated",
    "unknown-path",
    "unknown-process",
    "unknown-sandbox",
    "unknown-tenant",
    "wrong-host",
    "wrong-origin",
];

/// A server.
pub struct Client {
    endpoint: Endpoint,
    token: Option<String>,
}

impl Client {
    pub fn new(endpoint: Endpoint) -> Client {
        Client {
            endpoint,
            token: variable("AVFS_TOKEN"),
        }
    }

    /// Asks, and reads an answer of JSON.
    pub fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let text = body.map(Value::to_string);
        let headers = match body {
            Some(_) => vec![("Content-Type", "application/json".to_owned())],
            None => Vec::new(),
        };
        let body = text
            .as_ref()
            .map_or(Body::Nothing, |text| Body::Bytes(text.as_bytes()));
        self.read(self.ask(method, path, &headers, body)?)
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.json("GET", path, None)
    }

    /// The whole of a list that comes in pages; `query` begins with `?` or is empty.
    pub fn list(&self, path: &str, query: &str, name: &str) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let start = if query.is_empty() { "?" } else { "&" };
            let mut page = self.get(&format!("{path}{query}{start}limit=1000{cursor}"))?;
            if let Some(things) = page[name].as_array_mut() {
                all.append(things);
            }
            let next = &page["next"];
            if next.is_null() {
                return Ok(all);
            }
            let next = next.as_str().map_or_else(|| next.to_string(), str::to_owned);
            cursor = format!("&cursor={}", part(&next));
        }
    }

    /// Asks; an answer that tells a problem is an error.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: Body<'_>,
    ) -> Result<Answer> {
        let mut all = headers.to_vec();
        if let Some(token) = &self.token {
            all.push(("Authorization", format!("Bearer {token}")));
        }
        let path = format!("/api/v1{path}");
        let answer =
            http::ask(&self.endpoint, method, &path, &all, body).map_err(|error| self.failed(&error))?;
        if answer.status < 400 {
            return Ok(answer);
        }
        let status = answer.status;
        let told = self.read(answer).unwrap_or_default();
        Err(problem(status, &told).into())
    }

    fn read(&self, answer: Answer) -> Result<Value> {
        let mut bytes = Vec::new();
        let mut body = answer.body;
        body.read_to_end(&mut bytes)
            .map_err(|error| self.failed(&error))?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).context("reading the answer of the server")
    }

    /// Hands on each event of an answer.
    pub fn events(
        &self,
        body: Box<dyn BufRead>,
        mut take: impl FnMut(&str, Value) -> Result<()>,
    ) -> Result<()> {
        let mut name = String::new();
        for line in body.lines() {
            let line = line.map_err(|error| self.failed(&error))?;
            if let Some(event) = line.strip_prefix("event:") {
                name = event.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                take(
                    &name,
                    serde_json::from_str(data).context("reading an event of the server")?,
                )?;
            }
        }
        Ok(())
    }

    pub fn failed(&self, error: &std::io::Error) -> Failure {
        let text = format!("no answer from {}: {error}", self.endpoint);
        let hint = match &self.endpoint {
            Endpoint::Unix(_) => "`avfs serve` starts a server; `--server` or AVFS_SERVER names another one",
            Endpoint::Tcp { .. } => "`--server` or AVFS_SERVER names the server",
        };
        Failure::new("server-unreachable", ExitStatus::Busy, text).hint(Some(hint.to_owned()))
    }
}

/// What went wrong, as the server tells it (RFC 9457).
pub fn problem(status: u16, told: &Value) -> Failure {
    let code = told["code"].as_str().unwrap_or_default();
    let known = ErrorCode::named(code);
    let own = CODES.iter().find(|known| **known == code).copied();
    let message = match told["detail"].as_str() {
        Some(detail) => crate::escape::printable_text(detail.as_bytes()),
        None => format!("the server answered with status {status}"),
    };
    let approval = told["approval"].as_str();
    let hint = approval.map(|id| {
        let id = crate::escape::printable(id.as_bytes());
        format!("`avfs approvals show {id}` shows the request, and `avfs approvals allow {id}` answers it")
    });
    let hint = hint.or_else(|| match code {
        "unauthenticated" => Some("put a token of `avfs token create` into AVFS_TOKEN".to_owned()),
        _ => None,
    });
    let (code, exit) = match (code, known) {
        ("approval_required", _) => ("approval_required", ExitStatus::ApprovalNeeded),
        ("approval_denied", _) => ("approval_denied", ExitStatus::PolicyDenies),
        ("denied_by_policy", _) => ("denied_by_policy", ExitStatus::PolicyDenies),
        ("cannot_isolate", _) => ("cannot_isolate", ExitStatus::CannotIsolate),
        (_, Some(known)) => (known.as_str(), of_library(known)),
        (_, None) => (own.unwrap_or("server-error"), of_status(status)),
    };
    Failure::new(code, exit, message).hint(hint)
}

fn of_status(status: u16) -> ExitStatus {
    match status {
        401 | 403 => ExitStatus::Denied,
        404 | 405 | 410 => ExitStatus::NotFound,
        409 | 412 => ExitStatus::Conflict,
        408 | 429 | 503 => ExitStatus::Busy,
        507 => ExitStatus::NoSpace,
        400..=499 => ExitStatus::BadInput,
        _ => ExitStatus::Refused,
    }
}

/// A name as one part of a path, or one value after `?`.
pub fn part(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn problems_have_the_codes_and_statuses_of_this_program() {
        let check = |status: u16, code: &str| {
            let failure = problem(status, &json!({ "code": code, "detail": "x" }));
            (failure.code, failure.status)
        };
        assert_eq!(
            check(404, "unknown-vault"),
            ("unknown-vault", ExitStatus::NotFound)
        );
        assert_eq!(
            check(404, "unknown-sandbox"),
            ("unknown-sandbox", ExitStatus::NotFound)
        );
        assert_eq!(
            check(403, "approval_required"),
            ("approval_required", ExitStatus::ApprovalNeeded)
        );
        assert_eq!(
            check(429, "too-many-commands"),
            ("too-many-commands", ExitStatus::Busy)
        );
        assert_eq!(
            check(500, "of-a-later-version"),
            ("server-error", ExitStatus::Refused)
        );
        assert_eq!(problem(502, &Value::Null).code, "server-error");
    }

    #[test]
    fn the_documentation_lists_the_codes_of_servers() {
        let page = include_str!("../../../../docs/server.md");
        for code in CODES {
            assert!(page.contains(&format!("`{code}`")), "{code}");
        }
    }
}
