//! Connections that are encrypted, with a certificate of an authority that the test has made.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio_rustls::TlsConnector;

use crate::client::{Answer, PATIENCE, Server, eventually, read_answer, token};
use crate::sandbox::Sandbox;

/// An authority, and the certificates that it gives out.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Authority {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    /// A certificate for a name and its key, as PEM.
    fn certify(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A client that trusts it, and nobody else.
    fn trusted(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// Makes a codebase by gRPC, as a client that speaks HTTP/2 alone. Returns the status of the call.
    fn make_codebase(&self, address: &str, token: Option<&str>) -> String {
        let mut config = self.trusted();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let call = async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let connector = TlsConnector::from(Arc::new(config));
            let stream = connector.connect(name, stream).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            let (mut client, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
            tokio::spawn(connection);
            // The name and the owner, behind a byte that says how they are compressed and their length.
            let message = b"\0\0\0\0\x06\x0a\x01n\x12\x01o";
            let mut request = Request::post("https://localhost/sandbox.v1.CodebaseService/CreateCodebase")
                .header("content-type", "application/grpc")
                .header("te", "trailers");
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let request = request.body(Full::new(Bytes::from_static(message))).unwrap();
            let answer = client.send_request(request).await.unwrap();
            // A refusal has it in its headers.
            let in_headers = answer.headers().get("grpc-status").cloned();
            let whole = answer.into_body().collect().await.unwrap();
            let status = in_headers.or_else(|| whole.trailers()?.get("grpc-status").cloned());
            status.unwrap().to_str().unwrap().to_owned()
        };
        runtime
            .block_on(async { tokio::time::timeout(PATIENCE, call).await })
            .unwrap()
    }

    /// Asks a server that it vouches for under a name.
    fn ask(&self, server: &Server, name: &str, head: &str) -> std::io::Result<Answer> {
        let config = self.trusted();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(&server.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = StreamOwned::new(connection, stream);
        stream.write_all(head.as_bytes())?;
        Ok(read_answer(stream))
    }
}

fn files(house: &Sandbox, (certificate, key): (String, String)) -> (PathBuf, PathBuf) {
    let (at, key_at) = (house.path("cert.pem"), house.path("key.pem"));
    // As programs that renew certificates do it: each file is replaced at once.
    for (place, text) in [(&at, certificate), (&key_at, key)] {
        let new = place.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, place).unwrap();
    }
    (at, key_at)
}

fn start(house: &Sandbox, files: &(PathBuf, PathBuf)) -> Server {
    let words = [
        "--tls-cert",
        files.0.to_str().unwrap(),
        "--tls-key",
        files.1.to_str().unwrap(),
    ];
    Server::start(house, &words)
}

#[test]
fn a_client_that_trusts_the_authority_is_answered_and_plain_text_is_not() {
    let house = Sandbox::new();
    let authority = Authority::new();
    let server = start(&house, &files(&house, authority.certify("localhost")));
    let key = token(&house, "--scope read");
    let head = format!(
        "GET /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    );
    let answer = authority.ask(&server, "localhost", &head).unwrap().is(200);
    assert_eq!(answer.json()["sandboxes"], serde_json::json!([]));
    // The certificate is for another name, and another authority vouches for nothing here.
    authority.ask(&server, "elsewhere", &head).unwrap_err();
    Authority::new().ask(&server, "localhost", &head).unwrap_err();
    let plain = server.with(&key).get("/api/v1/sandboxes");
    assert_eq!(plain.status, 0, "{plain}");
    // The Unix socket never leaves the machine.
    server.operator().get("/api/v1/sandboxes").is(200);
}

#[test]
fn clients_of_agentfense_are_served_over_encrypted_connections() {
    let house = Sandbox::new();
    let authority = Authority::new();
    let (certificate, key) = files(&house, authority.certify("localhost"));
    let words = [
        "--tls-cert",
        certificate.to_str().unwrap(),
        "--tls-key",
        key.to_str().unwrap(),
        "--insecure-agentfense",
        "--agentfense-grpc",
        "127.0.0.1:0",
        "--agentfense-rest",
        "127.0.0.1:0",
    ];
    let server = Server::start(&house, &words);
    let grpc = server.listening["agentfense_grpc"].as_str().unwrap();
    assert_eq!(authority.make_codebase(grpc, None), "0");
    // Where others can connect, encryption alone lets nobody in.
    assert_eq!(authority.make_codebase(&server.address, None), "16");
    let secret = token(&house, "--scope run");
    assert_eq!(authority.make_codebase(&server.address, Some(&secret)), "0");
    let listed = server.operator().get("/v1/codebases").is(200).json();
    assert_eq!(listed["codebases"].as_array().unwrap().len(), 2, "{listed}");
    let rest = server.listening["agentfense_rest"].as_str().unwrap();
    let rest = rest.strip_prefix("https://").unwrap();
    // What is not encrypted is not answered at these ports, either.
    let mut plain = TcpStream::connect(rest).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "GET /v1/codebases HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    plain.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_answer(plain).status, 0);
}

#[test]
fn a_renewed_certificate_is_taken_up_and_half_of_one_is_not() {
    let house = Sandbox::new();
    let (old, new) = (Authority::new(), Authority::new());
    let places = files(&house, old.certify("localhost"));
    let server = start(&house, &places);
    let head = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    old.ask(&server, "localhost", head).unwrap().is(200);
    // A certificate whose key is not there yet.
    let (certificate, key) = new.certify("localhost");
    let old_key = std::fs::read_to_string(&places.1).unwrap();
    files(&house, (certificate.clone(), old_key));
    old.ask(&server, "localhost", head).unwrap().is(200);
    let log = std::fs::read_to_string(house.path("log")).unwrap();
    assert!(log.contains("reading the certificate"), "{log}");
    files(&house, (certificate, key));
    eventually(|| {
        new.ask(&server, "localhost", head)
            .is_ok_and(|answer| answer.status == 200)
    });
    old.ask(&server, "localhost", head).unwrap_err();
}

#[test]
fn files_that_cannot_be_used_are_told_before_anybody_connects() {
    let house = Sandbox::new();
    let (certificate, key) = files(&house, Authority::new().certify("localhost"));
    let (_, other) = Authority::new().certify("localhost");
    let place = house.path("other.pem");
    std::fs::write(&place, other).unwrap();
    let line = |certificate: &std::path::Path, key: &std::path::Path| {
        format!(
            "serve --listen 127.0.0.1:0 --tls-cert {} --tls-key {}",
            certificate.display(),
            key.display()
        )
    };
    for (certificate, key) in [(&certificate, &place), (&key, &key), (&certificate, &certificate)] {
        assert_eq!(
            house.bad(&line(certificate, key)),
            (2, "bad-certificate".to_owned())
        );
    }
    assert_eq!(
        house.bad(&line(&house.path("none"), &key)),
        (3, "bad-certificate".to_owned())
    );
    // One without the other is a mistake, and so is a certificate that nothing uses.
    assert_eq!(house.bad("serve --listen 127.0.0.1:0 --tls-cert x").0, 2);
    assert_eq!(house.bad("serve --tls-cert x --tls-key y").0, 2);
}
