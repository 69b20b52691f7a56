//! Who may use which sandbox. A sandbox has a token, which is made from its id and a key of this server: nothing has to be
//! kept of it, and it ends with the sandbox. An address of a file is signed with that token.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{FromRequestParts, Query};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::failure::Failure;
use super::place;
use crate::auth::{Caller, Scope};
use crate::clock::UnixMillis;
use crate::problem::Problem;
use crate::random;
use crate::server::Server;
use crate::service::{Sandbox, ServiceError, ServiceResult, Tenant};
use crate::state;

const TOKEN: HeaderName = HeaderName::from_static("x-access-token");
pub(super) const SANDBOX: HeaderName = HeaderName::from_static("e2b-sandbox-id");
pub(super) const TRAFFIC: HeaderName = HeaderName::from_static("e2b-traffic-access-token");

/// What a token is made for. One of them is of no use for the other.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Commands and files.
    Inside,
    /// Ports, and the code interpreter.
    Traffic,
}

impl Purpose {
    fn context(self) -> &'static str {
        match self {
            Purpose::Inside => "agentvfs 2026 token of a sandbox",
            Purpose::Traffic => "agentvfs 2026 token of the ports of a sandbox",
        }
    }
}

/// The key of a server from which the tokens of its sandboxes are made.
#[derive(Default)]
pub(super) struct Key(Mutex<Option<[u8; 32]>>);

impl Key {
    /// The key, which is made when it is first needed.
    fn get(&self, home: &Path) -> ServiceResult<[u8; 32]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = *known {
            return Ok(key);
        }
        let key = kept_key(home).map_err(|error| ServiceError::host("the key of the server", &error))?;
        Ok(*known.insert(key))
    }
}

fn kept_key(home: &Path) -> io::Result<[u8; 32]> {
    let directory = state::directory(home)?;
    let place = directory.join("sandbox-key");
    match std::fs::read(&place) {
        Ok(bytes) => return bytes.try_into().map_err(|_| io::Error::other("it is damaged")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let key: [u8; 32] = random::bytes()?;
    // Under its name once it is whole: half a key would be the end of all tokens.
    let draft = directory.join("sandbox-key.new");
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        // Addresses are signed with it: a program that could read it could reach every file.
        .mode(0o600)
        .open(&draft)?;
    file.write_all(&key)?;
    file.sync_all()?;
    std::fs::rename(&draft, &place)?;
    // After the name is durable: addresses that were given out must not end with a power cut.
    std::fs::File::open(&directory)?.sync_all()?;
    Ok(key)
}

/// The token of a sandbox: the names of its tenant and its own, and a proof of both.
pub(super) fn token(server: &Server, tenant: &Tenant, id: &str, purpose: Purpose) -> ServiceResult<String> {
    let key = server.e2b.key.get(&server.options.home)?;
    Ok(token_of(&key, &tenant.name, id, purpose))
}

/// Whether a request to the ports of a sandbox has its token.
pub(super) fn check_traffic(
    server: &Server,
    tenant: &Tenant,
    sandbox: &Sandbox,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let wanted = token(server, tenant, &sandbox.id, Purpose::Traffic)?;
    let given = headers
        .get(TRAFFIC)
        .map(HeaderValue::as_bytes)
        .unwrap_or_default();
    if bool::from(wanted.as_bytes().ct_eq(given)) {
        return Ok(());
    }
    let text = "the ports of this sandbox are reached with its token: `e2b-traffic-access-token`";
    Err(Problem::new(StatusCode::FORBIDDEN, "wrong-token", text))
}

fn token_of(key: &[u8; 32], tenant: &str, id: &str, purpose: Purpose) -> String {
    let derived = blake3::derive_key(purpose.context(), key);
    // Neither name has a dot.
    let proof = blake3::keyed_hash(&derived, format!("{tenant}.{id}").as_bytes());
    format!("{tenant}.{id}.{}", proof.to_hex())
}

/// The words of an address of a file.
#[derive(Deserialize)]
pub(super) struct FileWords {
    pub path: Option<String>,
    pub username: Option<String>,
    signature: Option<String>,
    signature_expiration: Option<i64>,
}

/// A client inside a sandbox.
#[derive(Clone)]
pub(super) struct Inside {
    pub tenant: Arc<Tenant>,
    pub sandbox: Arc<Sandbox>,
}

impl FromRequestParts<Arc<Server>> for Inside {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, server: &Arc<Server>) -> Result<Inside, Failure> {
        Ok(identify(server, &parts.method, &parts.uri, &parts.headers).await?)
    }
}

/// Paths that belong to one sandbox.
const WITHIN: [&str; 3] = ["/process.Process/", "/filesystem.Filesystem/", "/contexts/"];
const WITHIN_EXACTLY: [&str; 4] = ["/files", "/health", "/execute", "/contexts"];

fn is_within(path: &str) -> bool {
    WITHIN_EXACTLY.contains(&path) || WITHIN.iter().any(|begin| path.starts_with(begin))
}

fn is_of_the_interpreter(path: &str) -> bool {
    path == "/execute" || path == "/contexts" || path.starts_with("/contexts/")
}

/// Identifies a client of a sandbox; nothing, if the request is for something else.
pub(crate) async fn admit(
    server: &Server,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<Result<Caller, Problem>> {
    if !is_within(uri.path()) {
        return None;
    }
    let inside = identify(server, method, uri, headers).await;
    Some(inside.map(|inside| Caller {
        principal: format!("sandbox {}", inside.sandbox.id),
        tenant: inside.tenant,
        scopes: [Scope::Run].into_iter().collect(),
        is_operator: false,
    }))
}

/// A refusal by the entrance, in the words of the interface that a path belongs to.
pub(crate) fn phrase(path: &str, problem: Problem) -> Response {
    let is_ours = is_within(path)
        || ["/sandboxes", "/v2/sandboxes", "/snapshots", "/templates"]
            .iter()
            .any(|begin| path.starts_with(begin));
    if is_ours {
        Failure::from(problem).into_response()
    } else {
        problem.into_response()
    }
}

async fn identify(
    server: &Server,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Inside, Problem> {
    check_user(headers)?;
    let key = server.e2b.key.get(&server.options.home)?;
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let named = text(&SANDBOX);
    let inside = match (text(&TOKEN), text(&TRAFFIC)) {
        (Some(token), _) => by_token(server, &key, (token, Purpose::Inside), named).await?,
        (None, Some(token)) if is_of_the_interpreter(uri.path()) => {
            by_token(server, &key, (token, Purpose::Traffic), named).await?
        }
        (None, _) => by_signature(server, &key, method, uri)?,
    };
    if !is_ours(&inside.sandbox) {
        return Err(gone());
    }
    if uri.path() == "/health" && is_paused(&inside.sandbox) {
        // Whoever asks whether it runs wakes it not.
        return Err(gone());
    }
    wake(&inside.tenant, &inside.sandbox).await?;
    inside.sandbox.touch();
    Ok(inside)
}

/// Lets a paused sandbox go on that a request is enough for. Another one is not found.
pub(super) async fn wake(tenant: &Arc<Tenant>, sandbox: &Arc<Sandbox>) -> Result<(), Problem> {
    if !is_paused(sandbox) {
        return Ok(());
    }
    let pausing = sandbox.spec.pausing.filter(|pausing| pausing.resumes);
    let pausing = pausing.ok_or_else(gone)?;
    if sandbox.pause_is_due() {
        // It is about to be paused: nothing of it is left out.
        tenant.pauses().pause(sandbox, pausing.memory).await?;
    }
    Ok(tenant.pauses().resume(sandbox, pausing.seconds).await?)
}

/// Whether a sandbox was made by a client of this interface.
pub(super) fn is_ours(sandbox: &Sandbox) -> bool {
    sandbox.spec.also_at.as_deref() == Some(Path::new(place::HOME))
}

async fn by_token(
    server: &Server,
    key: &[u8; 32],
    (token, purpose): (&str, Purpose),
    named: Option<&str>,
) -> Result<Inside, Problem> {
    let mut parts = token.splitn(3, '.');
    let (Some(tenant), Some(id)) = (parts.next(), parts.next()) else {
        return Err(refused());
    };
    let is_right = bool::from(
        token_of(key, tenant, id, purpose)
            .as_bytes()
            .ct_eq(token.as_bytes()),
    );
    if !is_right || named.is_some_and(|named| named != id) {
        return Err(refused());
    }
    let tenant = server.tenants.get(tenant).await?;
    let sandbox = tenant.sandbox(id).map_err(|_| gone())?;
    Ok(Inside { tenant, sandbox })
}

/// A signed address names no sandbox: it is the one with whose token the signature is right.
fn by_signature(server: &Server, key: &[u8; 32], method: &Method, uri: &Uri) -> Result<Inside, Problem> {
    let words = Query::<FileWords>::try_from_uri(uri).map_err(|_| refused())?.0;
    let given = words
        .signature
        .as_deref()
        .and_then(|text| text.strip_prefix("v1_"));
    let given = given.and_then(|text| STANDARD_NO_PAD.decode(text).ok());
    let given = given.ok_or_else(refused)?;
    if uri.path() != "/files" {
        return Err(refused());
    }
    let is_over = |expires: i64| expires.saturating_mul(1000) <= UnixMillis::now().0;
    for tenant in server.tenants.all_open() {
        for sandbox in tenant.all_sandboxes() {
            let token = token_of(key, &tenant.name, &sandbox.id, Purpose::Inside);
            if bool::from(signature(&words, method, &token)[..].ct_eq(&given)) {
                if words.signature_expiration.is_some_and(is_over) {
                    let text = "signature is already expired";
                    return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", text));
                }
                return Ok(Inside { tenant, sandbox });
            }
        }
    }
    Err(refused())
}

fn signature(words: &FileWords, method: &Method, token: &str) -> [u8; 32] {
    let operation = if method == Method::POST { "write" } else { "read" };
    let (path, user) = (words.path.as_deref(), words.username.as_deref());
    let mut text = format!(
        "{}:{operation}:{}:{token}",
        path.unwrap_or_default(),
        user.unwrap_or_default()
    );
    if let Some(expires) = words.signature_expiration {
        text.push_str(&format!(":{expires}"));
    }
    Sha256::digest(text.as_bytes()).into()
}

/// Clients name a user by HTTP's oldest means, without a password. A sandbox has one.
fn check_user(headers: &HeaderMap) -> Result<(), Problem> {
    let basic = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let Some(basic) = basic.and_then(|text| text.strip_prefix("Basic ")) else {
        return Ok(());
    };
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(basic)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    user_is_known(text.split(':').next().unwrap_or_default())
}

/// Whether this is the user of every sandbox.
pub(super) fn user_is_known(name: &str) -> Result<(), Problem> {
    if matches!(name, "" | "user") {
        return Ok(());
    }
    let name = avfs_core::printable(name.as_bytes());
    let text = format!("there is no user '{name}': everything in a sandbox is done by `user`");
    Err(Problem::new(StatusCode::UNAUTHORIZED, "unknown-user", text))
}

/// A sandbox that is paused has no time at which it ends: clients give one to each sandbox that runs.
pub(super) fn is_paused(sandbox: &Sandbox) -> bool {
    sandbox.expires().is_none() || sandbox.pause_is_due()
}

fn refused() -> Problem {
    let text = "the request needs the access token of a sandbox, or a signature that holds";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", text)
}

/// Clients know by this status and these words that a sandbox has ended.
pub(super) fn gone() -> Problem {
    Problem::new(
        StatusCode::BAD_GATEWAY,
        "unknown-sandbox",
        "The sandbox was not found",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_bound_to_one_sandbox_tenant_server_and_purpose() {
        use Purpose::{Inside, Traffic};
        let token = token_of(&[1; 32], "acme", "sb1", Inside);
        assert!(token.starts_with("acme.sb1."));
        for (key, tenant, id, purpose) in [
            ([2; 32], "acme", "sb1", Inside),
            ([1; 32], "acm", "sb1", Inside),
            ([1; 32], "acme", "sb2", Inside),
            ([1; 32], "acme", "sb1", Traffic),
        ] {
            let other = token_of(&key, tenant, id, purpose);
            assert_ne!(token.rsplit('.').next(), other.rsplit('.').next());
        }
    }

    #[test]
    fn a_key_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let key = Key::default().get(home.path()).unwrap();
        assert_eq!(Key::default().get(home.path()).unwrap(), key);
        std::fs::write(home.path().join("server/sandbox-key"), b"short").unwrap();
        assert!(Key::default().get(home.path()).is_err());
    }

    #[test]
    fn signatures_are_those_of_the_official_clients() {
        // Computed by `get_signature` of the Python SDK.
        let words = |expires| FileWords {
            path: Some("a b.txt".to_owned()),
            username: None,
            signature: None,
            signature_expiration: expires,
        };
        for (method, expires, expected) in [
            (Method::GET, None, "VtvWmRAG//CWNEQmqUFXjEg3/AjstLtRw1GeOQ95t44"),
            (
                Method::POST,
                Some(2_000_000_000),
                "gaZ8TURRXLJhgpSe9Ss8MswzGabbyPbc3yuRK6wavfE",
            ),
        ] {
            let made = signature(&words(expires), &method, "token");
            assert_eq!(STANDARD_NO_PAD.encode(made), expected);
        }
    }

    #[test]
    fn only_the_user_of_the_sandbox_is_known() {
        let named = |name: &str| {
            let mut headers = HeaderMap::new();
            let value = base64::engine::general_purpose::STANDARD.encode(format!("{name}:"));
            headers.insert(header::AUTHORIZATION, format!("Basic {value}").parse().unwrap());
            check_user(&headers).is_ok()
        };
        assert!(named("user") && named(""));
        assert!(!named("root"));
    }

    /// Addresses that were made up: they are read or refused, lead to nothing outside, and none is signed by chance.
    #[test]
    fn damaged_addresses() {
        let token = token_of(&[1; 32], "acme", "sb1", Purpose::Inside);
        let signed = |query: &str| {
            let words: FileWords = Query::try_from_uri(&format!("/files?{query}").parse().unwrap())
                .unwrap()
                .0;
            let made = STANDARD_NO_PAD.encode(signature(&words, &Method::GET, &token));
            let made = made.replace('+', "%2B").replace('/', "%2F");
            format!("/files?{query}&signature=v1_{made}").into_bytes()
        };
        let seeds = [
            signed("path=a%20b.txt&username=user"),
            signed("path=%2Fhome%2Fuser%2F..%2Fx&signature_expiration=2000000000"),
            signed("path=~/x"),
            b"/files?path=..%2f..%2fetc%2fpasswd&signature=v1_AAAA".to_vec(),
        ];
        let own: Vec<FileWords> = seeds.iter().filter_map(|seed| words_of(seed)).collect();
        avfs_testkit::fuzz(&seeds, |bytes| {
            let Some(words) = words_of(bytes) else { return };
            if let Ok(inner) = place::inner(words.path.as_deref().unwrap_or_default()) {
                assert!(
                    inner.starts_with('/') && !inner.split('/').any(|name| name == ".."),
                    "{inner}"
                );
            }
            let given = words
                .signature
                .as_deref()
                .and_then(|text| text.strip_prefix("v1_"));
            let given = given.and_then(|text| STANDARD_NO_PAD.decode(text).ok());
            let is_right =
                given.is_some_and(|given| signature(&words, &Method::GET, &token)[..] == given[..]);
            let says = |words: &FileWords| {
                let text = |words: &Option<String>| words.clone().unwrap_or_default();
                (
                    text(&words.path),
                    text(&words.username),
                    words.signature_expiration,
                )
            };
            assert!(
                !is_right || own.iter().any(|own| says(own) == says(&words)),
                "{bytes:?}"
            );
        });
    }

    fn words_of(address: &[u8]) -> Option<FileWords> {
        let uri: Uri = std::str::from_utf8(address).ok()?.parse().ok()?;
        Query::try_from_uri(&uri).ok().map(|words| words.0)
    }
}
