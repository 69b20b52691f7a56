//! What no client would send: requests that are to be read in two ways, and those that never end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{PATIENCE, Server, token};
use crate::sandbox::Sandbox;

/// How long a connection is watched on which nothing comes any more. Too short a time hides an answer, and invents none.
const QUIET: Duration = Duration::from_secs(2);

/// Sends bytes on a connection of their own and returns what comes until the server closes it, or says nothing more.
fn everything(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may close the connection before it has everything.
    let _ = stream.write_all(bytes);
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        all.extend_from_slice(&buffer[..count]);
        stream.set_read_timeout(Some(QUIET)).unwrap();
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// The statuses of the answers in a text.
fn statuses(text: &str) -> Vec<u16> {
    let begins = text.match_indices("HTTP/1.1 ");
    begins
        .filter_map(|(at, begin)| text[at + begin.len()..].get(..3)?.parse().ok())
        .collect()
}

#[test]
fn a_request_that_can_be_read_in_two_ways_brings_in_no_second_one() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let victim = client.sandbox(&json!({}));
    let who = format!("Host: {}\r\nAuthorization: Bearer {key}\r\n", server.address);
    let hidden = format!("DELETE {victim} HTTP/1.1\r\n{who}Content-Length: 0\r\nConnection: close\r\n\r\n");
    let list = "GET /api/v1/sandboxes HTTP/1.1\r\n";
    let post = "POST /api/v1/sandboxes HTTP/1.1\r\nContent-Type: application/json\r\n";
    let chunked = format!("0\r\n\r\n{hidden}");
    let length = chunked.len();
    for request in [
        // Two lengths: by the one, the second request is part of the body.
        format!("{post}{who}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"),
        format!("{post}{who}Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("{list}{who}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"),
        format!("{post}{who}Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("{post}{who}Content-Length: 0, {length}\r\n\r\n{chunked}"),
        format!("{post}{who}Content-Length: 0x0\r\n\r\n{hidden}"),
        format!("{post}{who}Content-Length: -1\r\n\r\n{hidden}"),
        format!("{post}{who}Content-Length: 99999999999999999999\r\n\r\n{hidden}"),
        // Names of the encoding that one reader knows and another one does not.
        format!("{post}{who}Transfer-Encoding: xchunked\r\n\r\n{chunked}"),
        format!("{post}{who}Transfer-Encoding: chunked, identity\r\n\r\n{chunked}"),
        format!("{post}{who}Transfer-Encoding : chunked\r\n\r\n{chunked}"),
        format!("{post}{who}Transfer-Encoding:\u{b}chunked\r\n\r\n{chunked}"),
        format!("{post}{who}X: y\r\n Transfer-Encoding: chunked\r\n\r\n{chunked}"),
        format!("{post}{who}X: y\r\n\tfolded\r\nContent-Length: 0\r\n\r\n{hidden}"),
        // Chunks whose size is none.
        format!("{post}{who}Transfer-Encoding: chunked\r\n\r\n-1\r\n{hidden}"),
        format!("{post}{who}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{hidden}"),
        format!("{post}{who}Transfer-Encoding: chunked\r\n\r\n0 1\r\n\r\n{hidden}"),
        // Lines with other ends.
        format!("{post}{who}X: a\rb\r\nContent-Length: 0\r\n\r\n{hidden}"),
        format!("{post}{who}X: a\0b\r\nContent-Length: 0\r\n\r\n{hidden}"),
    ] {
        let text = everything(&server, request.as_bytes());
        let statuses = statuses(&text);
        assert!(statuses.len() <= 1, "{request}\n{text}");
        assert!(statuses.iter().all(|status| *status < 500), "{request}\n{text}");
        client.get(&victim).is(200);
    }
    // The hidden request is one when it stands where requests do.
    let text = everything(&server, format!("{list}{who}\r\n{hidden}").as_bytes());
    assert_eq!(statuses(&text), [200, 204], "{text}");
}

#[test]
fn malformed_request_is_refused_or_cut_off() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope read");
    let address = &server.address;
    let who = format!("Host: {address}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n");
    let list = "/api/v1/sandboxes";
    for (request, expected) in [
        (format!("GET {list} HTTP/1.1\r\n{who}"), 200),
        // A proxy is asked like this: the host in the first line is the one that counts.
        (format!("GET http://{address}{list} HTTP/1.1\r\n{who}"), 200),
        (format!("GET http://evil.example{list} HTTP/1.1\r\n{who}"), 403),
        (format!("GET {list} HTTP/1.1\r\nHost: evil.example\r\n{who}"), 403),
        (
            format!("GET {list} HTTP/1.1\r\nHost: 127.0.0.1@evil.example\r\nConnection: close\r\n\r\n"),
            403,
        ),
        (
            format!("GET {list} HTTP/1.1\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"),
            403,
        ),
        (format!("CONNECT evil.example:443 HTTP/1.1\r\n{who}"), 403),
        (format!("TRACE {list} HTTP/1.1\r\n{who}"), 405),
        (format!("get {list} HTTP/1.1\r\n{who}"), 405),
        (format!("OPTIONS * HTTP/1.1\r\n{who}"), 404),
        (format!("GET {list} HTTP/3.0\r\n{who}"), 400),
        (format!("GET {list}\r\n"), 400),
        (format!("GET  {list}  HTTP/1.1\r\n{who}"), 400),
        (format!("G\0T {list} HTTP/1.1\r\n{who}"), 400),
        (format!("GET /a b HTTP/1.1\r\n{who}"), 400),
        (
            "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}".to_owned(),
            400,
        ),
    ] {
        let text = everything(&server, request.as_bytes());
        assert_eq!(statuses(&text).first(), Some(&expected), "{request}\n{text}");
    }
    let text = everything(
        &server,
        format!("GET /{} HTTP/1.1\r\n{who}", "a".repeat(100_000)).as_bytes(),
    );
    assert!(matches!(statuses(&text)[..], [400 | 414 | 431]), "{text}");
}

#[test]
fn client_that_never_finishes_its_headers_is_cut_off_without_delaying_others() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope read"));
    let mut slow: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            // Some say nothing at all.
            let begin: &[u8] = if number % 2 == 0 {
                b"GET /healthz HTTP/1.1\r\nX-Long: "
            } else {
                b""
            };
            stream.write_all(begin).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            stream
        })
        .collect();
    let until = Instant::now() + PATIENCE;
    while !slow.is_empty() {
        assert!(Instant::now() < until, "{} are still connected", slow.len());
        client.get("/api/v1/sandboxes").is(200);
        slow.retain_mut(|stream| {
            let goes_on = stream.write_all(b"a").is_ok();
            let mut buffer = [0; 256];
            let is_closed = match stream.read(&mut buffer) {
                Ok(0) => true,
                // It is told why, perhaps.
                Ok(_) => false,
                Err(error) => !matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ),
            };
            goes_on && !is_closed
        });
    }
}
