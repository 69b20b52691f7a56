//! Ports of sandboxes. `PORT-SANDBOX.DOMAIN` is a name of this server under which a request goes to a port inside.
//!
//! Whoever knows the name reaches the port, unless the sandbox was asked to demand a token. Two ports are not inside: the
//! calls for commands and files, and those of the code interpreter, are the server's own, and demand the tokens they always
//! do.

use std::sync::Arc;

use agentvfs::ErrorKind;
use agentvfs::exec::sandbox::network::PortConnection;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::access::{self, gone};
use super::failure::Failure;
use crate::entrance::is_ours;
use crate::server::Server;
use crate::service::{Sandbox, ServiceError, Tenant, on_a_thread};

/// The ports of the calls that the server answers itself.
const OWN: [u16; 2] = [49983, 49999];
/// How long a server inside may take to begin its answer.
const ANSWERING: std::time::Duration = std::time::Duration::from_secs(600);
/// Headers that are between two neighbours. Those of the length stay, because hyper writes them anew.
const BETWEEN: [&str; 5] = [
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
];

/// A port of a sandbox, as the name of a host has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortName {
    port: u16,
    sandbox: String,
    /// The rest of the host, with its port.
    domain: String,
}

impl PortName {
    /// The port that a request is for, if that is one of this server.
    pub fn of(headers: &HeaderMap, names: &[String]) -> Option<PortName> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next()?.to_str().ok()?;
        let (first, domain) = host.split_once('.')?;
        let (port, sandbox) = first.split_once('-')?;
        let is_id = !sandbox.is_empty() && sandbox.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_alone = hosts.next().is_none();
        let name = PortName {
            port: port.parse().ok().filter(|port| *port != 0)?,
            sandbox: sandbox.to_ascii_lowercase(),
            domain: domain.to_owned(),
        };
        (is_id && is_alone && is_ours(domain, names)).then_some(name)
    }

    /// Whether the server answers it itself. The request is then one for the server, with the sandbox in a header.
    pub fn take(&self, headers: &mut HeaderMap) -> bool {
        if !OWN.contains(&self.port) {
            return false;
        }
        for (name, value) in [(header::HOST, &self.domain), (access::SANDBOX, &self.sandbox)] {
            // Both were read from a header.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        true
    }

    /// Answers a request by what is at the port.
    pub async fn answer(&self, server: &Server, request: Request<Body>) -> Response {
        match self.forward(server, request).await {
            Ok(response) => response,
            Err(failure) => failure.into_response(),
        }
    }

    async fn forward(&self, server: &Server, mut request: Request<Body>) -> Result<Response, Failure> {
        let (tenant, sandbox) = self.find(server).ok_or_else(gone)?;
        if sandbox.spec.private_ports {
            access::check_traffic(server, &tenant, &sandbox, request.headers())?;
        }
        let reaching = async {
            access::wake(&tenant, &sandbox).await?;
            sandbox.touch();
            self.connect(&sandbox).await
        };
        let (stream, connection) = tenant.share().scope(reaching).await?;
        let connection = Arc::new(connection);
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        prepare(&mut request)?;
        let failed = |error: hyper::Error| {
            Failure::new(
                StatusCode::BAD_GATEWAY,
                format!("the server at the port: {error}"),
            )
        };
        let (mut sender, talk) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let held = Arc::clone(&connection);
        tokio::spawn(async move {
            // How it ended is seen by whoever reads the answer.
            let _ = talk.with_upgrades().await;
            drop(held);
        });
        let answer = tokio::time::timeout(ANSWERING, sender.send_request(request)).await;
        let late = |_| {
            Failure::new(
                StatusCode::GATEWAY_TIMEOUT,
                "the server at the port does not answer",
            )
        };
        let mut response = answer.map_err(late)?.map_err(failed)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let inner = response.extensions_mut().remove::<OnUpgrade>();
            if let (Some(outer), Some(inner)) = (upgrade, inner) {
                tokio::spawn(join(outer, inner, connection));
            }
        } else {
            take_between(response.headers_mut());
        }
        Ok(response.map(Body::new))
    }

    /// Ids of sandboxes are not repeated, so a name needs no tenant.
    fn find(&self, server: &Server) -> Option<(Arc<Tenant>, Arc<Sandbox>)> {
        let tenants = server.tenants.all_open().into_iter();
        tenants
            .filter_map(|tenant| {
                let sandbox = tenant.sandbox(&self.sandbox).ok()?;
                access::is_ours(&sandbox).then_some((tenant, sandbox))
            })
            .next()
    }

    async fn connect(&self, sandbox: &Arc<Sandbox>) -> Result<(TcpStream, PortConnection), Failure> {
        let (of, port) = (Arc::clone(sandbox), self.port);
        let connected = on_a_thread(move || {
            of.check_published(port)?;
            of.connect_port(port)
                .map_err(|error| ServiceError::new("port-closed", ErrorKind::Busy, error.to_string()))
        });
        let closed = |error: ServiceError| {
            if error.code != "port-closed" {
                return error.into();
            }
            let text = "The sandbox is running but port is not open";
            Failure::new(StatusCode::BAD_GATEWAY, text)
        };
        let (stream, connection) = connected.await.map_err(closed)?;
        let stream = stream
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(stream));
        let stream = stream.map_err(|error| Failure::from(ServiceError::host("the port", &error)))?;
        Ok((stream, connection))
    }
}

/// Makes it a request for the server inside: with its path alone, and without what was meant for this one.
fn prepare(request: &mut Request<Body>) -> Result<(), Failure> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path: Uri = path
        .parse()
        .map_err(|_| Failure::bad_request("the request has no path"))?;
    *request.uri_mut() = path;
    *request.version_mut() = http::Version::HTTP_11;
    let headers = request.headers_mut();
    headers.remove(access::TRAFFIC);
    let upgrade = headers.get(header::UPGRADE).cloned();
    take_between(headers);
    if let Some(upgrade) = upgrade {
        headers.insert(header::UPGRADE, upgrade);
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    Ok(())
}

/// Takes away what concerns one connection only.
fn take_between(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).iter();
    let named = named.filter_map(|value| value.to_str().ok());
    let named = named.flat_map(|value| value.split(','));
    let named: Vec<HeaderName> = named.filter_map(|name| name.trim().parse().ok()).collect();
    for name in named {
        headers.remove(name);
    }
    for name in BETWEEN {
        headers.remove(name);
    }
    headers.remove(header::CONNECTION);
    headers.remove(header::UPGRADE);
}

/// Passes bytes on in both directions, once both sides have agreed to speak something else.
async fn join(outer: OnUpgrade, inner: OnUpgrade, connection: Arc<PortConnection>) {
    if let (Ok(outer), Ok(inner)) = (outer.await, inner.await) {
        let io = |upgraded: Upgraded| TokioIo::new(upgraded);
        // Either side may go at any time.
        let _ = tokio::io::copy_bidirectional(&mut io(outer), &mut io(inner)).await;
    }
    drop(connection);
}

/// The domain of the ports of sandboxes, for a client that has called the server by this host.
pub(super) fn domain(host: Option<&str>, names: &[String]) -> Option<String> {
    let host = host?;
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, format!(":{port}")),
        _ => (host, String::new()),
    };
    if names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Some(host.to_owned());
    }
    let is_local = name.eq_ignore_ascii_case("localhost")
        || name == "[::1]"
        || name
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|address| address.is_loopback());
    let known = names.first().filter(|_| !is_local).cloned();
    known
        .or_else(|| is_local.then(|| "localhost".to_owned()))
        .map(|name| format!("{name}{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str) -> Option<(u16, String, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        let name = PortName::of(&headers, &["sandbox.example".to_owned()])?;
        Some((name.port, name.sandbox, name.domain))
    }

    #[test]
    fn names_of_ports_are_those_of_our_domains() {
        let of = |port, id: &str, domain: &str| Some((port, id.to_owned(), domain.to_owned()));
        assert_eq!(named("8000-sb1.localhost:80"), of(8000, "sb1", "localhost:80"));
        assert_eq!(named("1-SB1.Sandbox.Example"), of(1, "sb1", "Sandbox.Example"));
        for other in [
            "localhost",
            "127.0.0.1:80",
            "8000-sb1.evil.example",
            "8000-sb1.x.sandbox.example",
            "8000.localhost",
            "0-sb1.localhost",
            "65536-sb1.localhost",
            "8000-.localhost",
            "8000-sb1-x.localhost",
            "8000-../x.localhost",
        ] {
            assert_eq!(named(other), None, "{other}");
        }
    }

    #[test]
    fn the_domain_is_the_name_under_which_the_server_is_called() {
        let names = ["sandbox.example".to_owned()];
        let domain = |host| domain(Some(host), &names);
        assert_eq!(domain("127.0.0.1:8010").as_deref(), Some("localhost:8010"));
        assert_eq!(domain("[::1]:8010").as_deref(), Some("localhost:8010"));
        assert_eq!(domain("localhost").as_deref(), Some("localhost"));
        assert_eq!(
            domain("sandbox.example:443").as_deref(),
            Some("sandbox.example:443")
        );
        assert_eq!(domain("10.1.2.3:8010").as_deref(), Some("sandbox.example:8010"));
        assert_eq!(super::domain(Some("10.1.2.3:8010"), &[]), None);
        assert_eq!(super::domain(None, &names), None);
    }

    #[test]
    fn headers_of_one_connection_are_not_forwarded() {
        let mut request = Request::builder()
            .uri("http://evil.example/a?b=1")
            .header("connection", "x-own, keep-alive")
            .header("x-own", "1")
            .header("te", "trailers")
            .header("e2b-traffic-access-token", "secret")
            .header("cookie", "a=b")
            .body(Body::empty())
            .unwrap();
        prepare(&mut request).unwrap();
        assert_eq!(request.uri(), "/a?b=1");
        let names: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["cookie"]);
        let mut upgrade = Request::builder()
            .header("connection", "keep-alive, Upgrade")
            .header("upgrade", "websocket")
            .body(Body::empty())
            .unwrap();
        prepare(&mut upgrade).unwrap();
        assert_eq!(upgrade.headers()["connection"], "upgrade");
        assert_eq!(upgrade.headers()["upgrade"], "websocket");
    }
}
