//! The entrance: every request passes it before anything else happens.
//!
//! A request of a web page is refused: one with the `Origin` of another server, or for a name that is not ours (a page can
//! make any name stand for this machine, but it cannot choose what its browser sends as `Host`). Then the caller is
//! identified, and the request gets a number, which its answer and the log have.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};

use crate::agentfense;
use crate::auth::{Caller, Peer};
use crate::draining::drain;
use crate::e2b;
use crate::log;
use crate::native;
use crate::problem::Problem;
use crate::random;
use crate::server::Server;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TENANT: HeaderName = HeaderName::from_static("avfs-tenant");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// What browsers say of themselves, and pages cannot change.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// What anybody may ask, so that whatever starts the server can see how it is.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Everything that the server answers.
pub(crate) fn router(server: &Arc<Server>) -> Router {
    native::router()
        .merge(e2b::router())
        .merge(agentfense::router(server))
        .fallback(not_found)
        .method_not_allowed_fallback(no_such_method)
        .with_state(Arc::clone(server))
        .layer(from_fn_with_state(Arc::clone(server), enter))
}

/// What clients without a credential are answered, at ports of their own.
pub(crate) fn open_router(server: &Arc<Server>) -> Router {
    native::health_routes()
        .merge(agentfense::router(server))
        .fallback(not_found)
        .method_not_allowed_fallback(no_such_method)
        .with_state(Arc::clone(server))
        .layer(from_fn_with_state(Arc::clone(server), enter))
}

async fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "unknown-path",
        "there is nothing at this path",
    )
}

async fn no_such_method() -> Problem {
    let text = "this path does not have this method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "unknown-method", text)
}

async fn enter(State(server): State<Arc<Server>>, mut request: Request<Body>, next: Next) -> Response {
    let begun = Instant::now();
    let id = random::bytes::<8>()
        .map(|bytes| random::hex(&bytes))
        .unwrap_or_default();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    // The connection has put it there.
    let peer = request
        .extensions()
        .get::<Peer>()
        .copied()
        .unwrap_or(Peer::Remote);
    if let Some(name) = e2b::PortName::of(request.headers(), &server.options.host_names)
        && !name.take(request.headers_mut())
    {
        // What is at the port decides on everything else, who may call and what the answer says.
        let response = name.answer(&server, request).await;
        let (status, took) = (response.status(), begun.elapsed());
        log::write(&server.options, (&id, None), (&method, &path), (status, took));
        return response;
    }
    let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let admitted = admit(&server, peer, &method, request.uri(), request.headers()).await;
    let headers = request.headers().clone();
    let (caller, mut response) = match admitted {
        Ok(Some(caller)) if !caller.tenant.admit_request() => {
            let problem = too_many();
            let response = match agentfense::phrase(&path, &headers, &problem) {
                Some(response) => response,
                None => e2b::phrase(&path, problem),
            };
            (Some(caller), response)
        }
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller.clone());
            let response = caller.tenant.share().scope(next.run(request)).await;
            (Some(caller), response)
        }
        Ok(None) => (None, next.run(request).await),
        Err(problem) => {
            // A client that waits for a word before it sends anything needs no patience.
            if !request.headers().contains_key(header::EXPECT) {
                drain(request.into_body()).await;
            }
            match agentfense::phrase(&path, &headers, &problem) {
                Some(response) => (None, response),
                None => (None, e2b::phrase(&path, problem)),
            }
        }
    };
    let headers = response.headers_mut();
    if is_chunked {
        // Its length may have been said in a second way, by which a proxy goes. What comes behind it is not trusted.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    // A browser that is shown an answer takes it for what it says to be, and keeps none.
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    let (status, took) = (response.status(), begun.elapsed());
    if let Some(caller) = &caller {
        caller.tenant.counters().count_request(status.as_u16(), took);
    }
    log::write(
        &server.options,
        (&id, caller.as_ref()),
        (&method, &path),
        (status, took),
    );
    response
}

fn too_many() -> Problem {
    let text = "the tenant makes more requests a second than it may";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", text)
}

/// Who a request is from; nothing, if that does not matter.
async fn admit(
    server: &Server,
    peer: Peer,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Option<Caller>, Problem> {
    if matches!(peer, Peer::Remote | Peer::Open) {
        check_host(headers, uri, &server.options.host_names)?;
    }
    check_origin(headers)?;
    if OPEN.contains(&uri.path()) {
        return Ok(None);
    }
    if peer == Peer::Open {
        return server.open_caller().await.map(Some);
    }
    if let Some(admitted) = e2b::admit(server, method, uri, headers).await {
        return admitted.map(Some);
    }
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let bearer = text(&header::AUTHORIZATION).map(|value| value.strip_prefix("Bearer ").unwrap_or_default());
    let token = bearer.or_else(|| text(&API_KEY));
    server.caller(peer, token, text(&TENANT)).await.map(Some)
}

fn check_host(headers: &HeaderMap, uri: &Uri, names: &[String]) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let is_only = match hosts.next().map(|host| host.to_str()) {
        Some(host) => host.is_ok_and(|host| is_ours(host, names)) && hosts.next().is_none(),
        // HTTP/2 has the host in the address alone.
        None => uri.authority().is_some(),
    };
    // Proxies are asked with the host in the first line, which counts more than the header then.
    let is_same = uri
        .authority()
        .is_none_or(|authority| is_ours(authority.as_str(), names));
    if is_only && is_same {
        return Ok(());
    }
    let text = "the request is for another host; `avfs serve --host NAME` adds a name";
    Err(Problem::new(StatusCode::FORBIDDEN, "wrong-host", text))
}

/// Whether a host is this server: an address cannot be made to stand for another machine, and a name has to be known.
pub(crate) fn is_ours(host: &str, names: &[String]) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => return address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::Ipv4Addr>().is_ok()
        || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// A browser says from where a page is. One that this server gave out has its own host there.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = "a page of another server may not call this one";
    let refused = || Problem::new(StatusCode::FORBIDDEN, "wrong-origin", text);
    let Some(origin) = headers.get(header::ORIGIN) else {
        // Without that, it says at least that a page asks which is not ours. Who follows a link asks for himself.
        let says = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let is_foreign = matches!(says(&FETCH_SITE), Some("cross-site" | "same-site"));
        let is_followed = says(&FETCH_MODE) == Some("navigate") && says(&FETCH_DEST) == Some("document");
        return if is_foreign && !is_followed {
            Err(refused())
        } else {
            Ok(())
        };
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let origin = origin.to_str().ok();
    let of_origin = origin.and_then(|origin| {
        let rest = origin.strip_prefix("http://");
        rest.or_else(|| origin.strip_prefix("https://"))
    });
    if host.is_some() && of_origin == host {
        return Ok(());
    }
    Err(refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_known_names_are_ours() {
        let names = ["sandbox.example".to_owned()];
        for host in [
            "127.0.0.1:8080",
            "10.1.2.3",
            "localhost:1",
            "LOCALHOST",
            "[::1]:80",
            "Sandbox.Example:443",
        ] {
            assert!(is_ours(host, &names), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:80",
            "127.0.0.1.evil.example",
            "",
            "[evil]:80",
            "x.sandbox.example",
        ] {
            assert!(!is_ours(host, &names), "{host}");
        }
    }

    #[test]
    fn a_page_of_another_server_is_refused() {
        let check = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:80"));
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            check_origin(&headers).is_ok()
        };
        assert!(check("http://127.0.0.1:80"));
        for origin in ["http://127.0.0.1:81", "http://evil.example", "null", ""] {
            assert!(!check(origin), "{origin}");
        }
    }

    #[test]
    fn what_a_page_of_another_server_loads_is_refused_and_what_a_person_follows_is_not() {
        let check = |site: &'static str, mode: &'static str, dest: &'static str| {
            let pairs = [(FETCH_SITE, site), (FETCH_MODE, mode), (FETCH_DEST, dest)];
            let headers = pairs.map(|(name, value)| (name, HeaderValue::from_static(value)));
            check_origin(&headers.into_iter().collect()).is_ok()
        };
        assert!(check("none", "navigate", "document"));
        assert!(check("same-origin", "cors", "empty"));
        assert!(check("cross-site", "navigate", "document"));
        for (site, mode, dest) in [
            ("cross-site", "no-cors", "image"),
            ("cross-site", "no-cors", "script"),
            ("cross-site", "navigate", "iframe"),
            ("same-site", "cors", "empty"),
        ] {
            assert!(!check(site, mode, dest), "{site} {mode} {dest}");
        }
    }
}
