//! Pages of this machine on which the user answers, for clients that can open an address and show no form.
//!
//! The address has a secret that only the client is told, as part of its question: no tool, resource or answer to the
//! agent contains it. Looking at a page decides nothing. An answer is a `POST` of the page itself: browsers name the page
//! that a request comes from, so that another page cannot send one, and the name of the host, so that another name
//! cannot be made to lead here.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentvfs::approvals::{Approval, ApprovalId, ApprovalState};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use tokio::net::TcpListener;
use tokio::sync::{Notify, OnceCell};

use crate::approval::{self, Answer};
use crate::connections;
use crate::server::Shared;
use crate::tool_error::ToolError;

/// What the path of every page begins with; the secret follows.
const PATH: &str = "/approval/";
/// The most bytes of an answer.
const ANSWER_MAX: usize = 1_000;
/// For how long a call waits for the answer, as long as for a command that is not given more time.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often is looked whether somebody has answered elsewhere.
const LOOK: Duration = Duration::from_secs(1);

/// The pages of one server. Nothing listens before the first question.
#[derive(Default)]
pub(crate) struct ApprovalPages {
    address: OnceCell<SocketAddr>,
    /// What is asked, by the secret.
    asked: Mutex<HashMap<String, ApprovalId>>,
    /// Somebody has answered on a page.
    answered: Notify,
}

impl ApprovalPages {
    /// The address of the page about a request. A request that was asked about before keeps its page.
    pub async fn url(&self, shared: &Arc<Shared>, id: &ApprovalId) -> io::Result<String> {
        let address = *self
            .address
            .get_or_try_init(|| listen(Arc::clone(shared)))
            .await?;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let known = asked
            .iter()
            .find_map(|(secret, known)| (known == id).then(|| secret.clone()));
        let secret = match known {
            Some(secret) => secret,
            None => {
                let secret = crate::http::fresh_token()?;
                asked.insert(secret.clone(), id.clone());
                secret
            }
        };
        Ok(format!("http://{address}{PATH}{secret}"))
    }

    /// Waits until a request is answered, here or elsewhere. `false`: nobody has answered it for a long time.
    pub async fn wait(&self, shared: &Arc<Shared>, id: &ApprovalId) -> Result<bool, ToolError> {
        let over = tokio::time::Instant::now() + PATIENCE;
        loop {
            // Before the look: an answer between the two is not missed.
            let answered = self.answered.notified();
            if approval_of(shared, id).await?.state != ApprovalState::Pending {
                return Ok(true);
            }
            let next = over.min(tokio::time::Instant::now() + LOOK);
            // A timeout is no answer: the state of the request is looked at in either case.
            let _ = tokio::time::timeout_at(next, answered).await;
            if tokio::time::Instant::now() >= over {
                return Ok(false);
            }
        }
    }

    fn asked(&self, secret: &str) -> Option<ApprovalId> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.get(secret).cloned()
    }
}

async fn approval_of(shared: &Arc<Shared>, id: &ApprovalId) -> Result<Approval, ToolError> {
    let (own, id) = (Arc::clone(shared), id.clone());
    shared
        .on_a_thread(move || Ok(own.workspaces.options().store.approval(&id)?))
        .await
}

/// Listens at a free port of this machine as long as the server lives.
async fn listen(shared: Arc<Shared>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let ending = shared.ending.clone();
        let serving = connections::serve(&listener, &ending, &ending, move |request| {
            let shared = Arc::clone(&shared);
            async move { answer(&shared, address, request).await }
        });
        // Without its page, a question can still be answered on the command line.
        let _ = serving.await;
    });
    Ok(address)
}

type Page = Response<Full<Bytes>>;

async fn answer(shared: &Arc<Shared>, address: SocketAddr, request: Request<Incoming>) -> Page {
    let secret = request.uri().path().strip_prefix(PATH).unwrap_or_default();
    let Some(id) = shared.pages.asked(secret) else {
        return page(StatusCode::NOT_FOUND, "Not found", "There is nothing here.");
    };
    if !is_from_here(request.headers(), address) {
        return page(
            StatusCode::FORBIDDEN,
            "Refused",
            "The request does not come from this page.",
        );
    }
    let outcome = match *request.method() {
        Method::GET => approval_of(shared, &id).await,
        Method::POST => decide(shared, &id, request).await,
        _ => {
            return page(
                StatusCode::METHOD_NOT_ALLOWED,
                "Refused",
                "A page is read or answered.",
            );
        }
    };
    match outcome {
        Ok(approval) => page(
            StatusCode::OK,
            "agentvfs: a command needs your approval",
            &body(&approval),
        ),
        Err(error) => page(
            StatusCode::BAD_REQUEST,
            "It was not answered",
            &escaped(&avfs_core::printable(error.message().as_bytes())),
        ),
    }
}

async fn decide(
    shared: &Arc<Shared>,
    id: &ApprovalId,
    request: Request<Incoming>,
) -> Result<Approval, ToolError> {
    let unread = || ToolError::argument("the answer cannot be read");
    let read = Limited::new(request.into_body(), ANSWER_MAX).collect().await;
    let given = read.map_err(|_| unread())?.to_bytes();
    let answer = given
        .strip_prefix(b"decision=")
        .and_then(|word| std::str::from_utf8(word).ok())
        .and_then(Answer::of_word)
        .ok_or_else(unread)?;
    let (own, asked) = (Arc::clone(shared), id.clone());
    shared
        .on_a_thread(move || approval::decide(&own.workspaces.options().store, &asked, answer))
        .await?;
    shared.pages.answered.notify_waiters();
    approval_of(shared, id).await
}

/// Whether a request is for this server by its address, and from no page but its own.
fn is_from_here(headers: &HeaderMap, address: SocketAddr) -> bool {
    let is = |name, expected: String| {
        headers
            .get(name)
            .is_some_and(|value| value.as_bytes() == expected.as_bytes())
    };
    let is_ours = !headers.contains_key(header::ORIGIN) || is(header::ORIGIN, format!("http://{address}"));
    is(header::HOST, address.to_string()) && is_ours
}

/// What the page says of a request: the question while it is open, afterwards how it was answered.
fn body(approval: &Approval) -> String {
    let mut body = String::from("<dl>");
    for (what, value) in approval::facts(approval, None) {
        body.push_str(&format!("<dt>{}</dt><dd>{}</dd>", escaped(what), escaped(&value)));
    }
    body.push_str("</dl>");
    let end = match &approval.state {
        ApprovalState::Pending => {
            let button = |choice: &&str| {
                let label = match *choice {
                    "once" => "Run it once",
                    "session" => "Allow it for this session",
                    _ => "Do not run it",
                };
                format!("<button name=decision value={choice}>{label}</button> ")
            };
            let buttons: String = approval::choices(approval).iter().map(button).collect();
            format!("<form method=post>{buttons}</form>")
        }
        ApprovalState::Denied { .. } => "<p>It does not run. You can close this page.</p>".to_owned(),
        ApprovalState::Allowed { .. } | ApprovalState::Used { .. } => {
            "<p>It may run. You can close this page.</p>".to_owned()
        }
        ApprovalState::Expired => "<p>It waited too long for an answer and does not run.</p>".to_owned(),
        ApprovalState::Replaced { .. } => {
            "<p>The workspace has changed, and the question was asked again on another page.</p>".to_owned()
        }
    };
    body + &end
}

/// A page that loads nothing, runs nothing and cannot be framed. Nobody keeps it or is told its address.
fn page(status: StatusCode, title: &str, body: &str) -> Page {
    const STYLE: &str = "body{font:16px sans-serif;max-width:50em;margin:2em auto;padding:0 1em}\
        dt{font-weight:bold;margin-top:1em}dd{margin:0;font-family:monospace;white-space:pre-wrap;\
        overflow-wrap:anywhere}button{font:inherit;padding:.5em 1em;margin:2em 1em 0 0}";
    let title = escaped(title);
    let text = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>\
         <h1>{title}</h1>{body}</html>\n"
    );
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    // With `no-referrer`, a browser would not say from which page an answer comes.
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(headers: &[(&'static str, &'static str)], expected: bool) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4000));
        let pairs = headers.iter().map(|(name, value)| {
            (
                header::HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        assert_eq!(is_from_here(&pairs.collect(), address), expected, "{headers:?}");
    }

    #[test]
    fn only_the_page_itself_sends_an_answer() {
        check(&[("host", "127.0.0.1:4000")], true);
        check(
            &[("host", "127.0.0.1:4000"), ("origin", "http://127.0.0.1:4000")],
            true,
        );
        check(
            &[("host", "127.0.0.1:4000"), ("origin", "http://127.0.0.1:3000")],
            false,
        );
        check(&[("host", "127.0.0.1:4000"), ("origin", "null")], false);
        check(&[("host", "evil.example:4000")], false);
        check(&[], false);
    }

    #[test]
    fn no_word_of_a_command_is_markup() {
        assert_eq!(
            escaped("<b a='x' b=\"y\">&"),
            "&lt;b a=&#39;x&#39; b=&quot;y&quot;&gt;&amp;"
        );
    }
}
