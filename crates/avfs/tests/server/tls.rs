//! Connections that are encrypted, with a certificate of an authority that the test has made.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

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

    /// Asks a server that it vouches for under a name.
    fn ask(&self, server: &Server, name: &str, head: &str) -> std::io::Result<Answer> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
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
        (2, "bad-certificate".to_owned())
    );
    // One without the other is a mistake, and so is a certificate that nothing uses.
    assert_eq!(house.bad("serve --listen 127.0.0.1:0 --tls-cert x").0, 2);
    assert_eq!(house.bad("serve --tls-cert x --tls-key y").0, 2);
}
