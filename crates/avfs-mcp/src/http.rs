//! Clients on this machine, over HTTP.
//!
//! The server listens at a loopback address and answers only who brings its token. A request of a web page is refused: one
//! with the `Origin` of another server, or for another `Host` than this one, is not from a client of the user.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;

use agentvfs::exec::AfterRun;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::connections;
use crate::options::ServerOptions;
use crate::server::{Connection, Shared};
use crate::stdio::runtime;

/// Where clients find the server.
const PATH: &str = "/mcp";
/// The most bytes of one request.
const REQUEST_MAX: usize = 16 << 20;

/// A server that listens, and does not answer yet.
pub struct HttpServer {
    listener: StdListener,
    token: String,
}

impl HttpServer {
    /// Takes a port of this machine. An address that others can reach is refused.
    pub fn listen(address: SocketAddr, token: Option<String>) -> io::Result<HttpServer> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not an address of this machine alone, such as 127.0.0.1",
            ));
        }
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let token = match token {
            Some(token) => token,
            None => fresh_token()?,
        };
        Ok(HttpServer { listener, token })
    }

    /// The address that clients are given.
    pub fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}{PATH}", self.listener.local_addr()?))
    }

    /// What clients bring along as a bearer token.
    pub fn token(&self) -> &str {
        &self.token
    }
}

/// Serves clients until `stop` is cancelled. As for [`serve_stdio`](crate::serve_stdio), everything that they started has
/// ended then.
pub fn serve_http(
    server: HttpServer,
    options: ServerOptions,
    stop: &CancellationToken,
) -> io::Result<Vec<AfterRun>> {
    let shared = Shared::new(options)?;
    let runtime = runtime()?;
    let served = runtime.block_on(accept(server, &shared, stop));
    runtime.block_on(shared.end());
    runtime.shutdown_background();
    let after = shared.workspaces.end();
    served.map(|()| after)
}

async fn accept(server: HttpServer, shared: &Arc<Shared>, stop: &CancellationToken) -> io::Result<()> {
    let port = server.listener.local_addr()?.port();
    let listener = TcpListener::from_std(server.listener)?;
    let token: Arc<str> = server.token.into();
    let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
    let origins = hosts.clone().map(|host| format!("http://{host}"));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(REQUEST_MAX)
        .with_cancellation_token(shared.ending.clone());
    let made = Arc::clone(shared);
    let service = StreamableHttpService::new(
        move || Ok(Connection::new(&made)),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    connections::serve(&listener, stop, &shared.ending, move |request| {
        let (service, token) = (TowerToHyperService::new(service.clone()), Arc::clone(&token));
        async move { answer(request, service, &token).await }
    })
    .await
}

type Answered<B> = Response<Either<B, Full<Bytes>>>;

async fn answer<S, B>(request: Request<Incoming>, service: S, token: &str) -> Answered<B>
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
{
    if request.uri().path() != PATH {
        return refused(StatusCode::NOT_FOUND, "not found");
    }
    if !brings(request.headers(), token) {
        return refused(
            StatusCode::UNAUTHORIZED,
            "a request needs the token that the server was started with",
        );
    }
    match service.call(request).await {
        Ok(response) => response.map(Either::Left),
        Err(never) => match never {},
    }
}

fn refused<B>(status: StatusCode, text: &'static str) -> Answered<B> {
    let mut response = Response::new(Either::Right(Full::new(Bytes::from_static(text.as_bytes()))));
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
    }
    response
}

/// Whether a request has the token. How long the comparison takes says nothing about it.
fn brings(headers: &HeaderMap, token: &str) -> bool {
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let given = given
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    !token.is_empty() && bool::from(given.as_bytes().ct_eq(token.as_bytes()))
}

/// Words that nobody can guess.
pub(crate) fn fresh_token() -> io::Result<String> {
    let mut bytes = [0_u8; 32];
    random(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Fills a buffer with bytes that nobody can guess.
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}
