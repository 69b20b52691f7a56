//! Clients that go away, and clients that are there and take nothing in.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::json;

use crate::client::{Client, Server, eventually, token};
use crate::routes::described;
use crate::sandbox::Sandbox;

/// Sends some of a request, and is gone: the connection is reset as soon as anything comes back.
fn leave_after(server: &Server, bytes: &[u8]) {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let at_once = Some(std::time::Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&stream, at_once).unwrap();
    let _ = stream.write_all(bytes);
}

/// How many files the server has open, without those of the store's database: of each connection that was needed at the
/// same time, the store keeps some for the next readers.
fn open_files(server: &Server) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.worker())).unwrap();
    let is_database = |place: &Path| {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("store.db")
    };
    // One that is closed meanwhile leads nowhere.
    let places = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    places.filter(|place| !is_database(place)).count()
}

/// Ends the sessions of a sandbox that are open.
fn end_sessions(client: &Client<'_>, sandbox: &str) {
    let sessions = client.get(&format!("{sandbox}/sessions")).is(200).json();
    for session in sessions["sessions"].as_array().unwrap() {
        if session["state"] == "open" {
            let id = session["id"].as_str().unwrap();
            client.delete(&format!("{sandbox}/sessions/{id}")).is(204);
        }
    }
}

/// How many commands run, by the numbers that the server tells.
fn running(client: &Client<'_>) -> String {
    let text = String::from_utf8(client.get("/api/metrics").is(200).body).unwrap();
    let line = text.lines().find(|line| line.starts_with("avfs_processes{"));
    line.unwrap().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn a_client_that_goes_away_in_the_middle_of_any_call_leaves_nothing() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope admin");
    let client = server.with(&key);
    client.post("/api/v1/vaults", &json!({ "name": "plans" })).is(201);
    let path = client.sandbox(&json!({ "vault": "plans" }));
    // The requests below are about the first one, and whole ones may be carried out.
    for name in ["file", "kept"] {
        client.put(&format!("{path}/files?path=/{name}"), b"kept").is(200);
    }
    client.line(&path, "true");
    let value = |name: &str| match name {
        "id" => path.rsplit('/').next().unwrap().to_owned(),
        "vault" => "plans".to_owned(),
        _ => "x".to_owned(),
    };
    let before = open_files(&server);
    for route in described(&client) {
        // Those would end what the others are about.
        let ends_it =
            route.method == "DELETE" || route.path.ends_with("/expiry") || route.path.ends_with("/merge");
        if ends_it || route.path.contains("/restore") {
            continue;
        }
        let body = route.body();
        let head = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n",
            route.method,
            route.filled(value),
            server.address,
            client.all_headers(),
            body.len() + 10
        );
        let whole = [head.as_bytes(), &body, b"          "].concat();
        for sent in [
            head.len() / 2,
            head.len(),
            head.len() + body.len() / 2,
            whole.len(),
        ] {
            leave_after(&server, &whole[..sent]);
        }
    }
    // A command whose client is gone is ended; a stream of events that nobody hears is, too.
    let long = json!({ "command": "sleep 1000" }).to_string();
    let head = format!(
        "POST {path}/exec HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n{long}",
        server.address,
        client.all_headers(),
        long.len()
    );
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    eventually(|| running(&client) != "0");
    drop(stream);
    eventually(|| running(&client) == "0");
    assert_eq!(client.line(&path, "cat kept"), "kept");
    // A request that was read as a whole may be carried out before the server knows that its client is gone: a session that
    // was begun like this stays, with the files that it has open, until somebody ends it. Of the rest, some are kept for
    // the next requests.
    eventually(|| {
        end_sessions(&client, &path);
        open_files(&server) <= before + 8
    });
}

#[test]
fn clients_that_read_nothing_delay_no_others() {
    /// More than there are threads for all tenants together.
    const SLOW: usize = 600;
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let path = client.sandbox(&json!({}));
    let file = format!("{path}/files?path=/large");
    let large: Vec<u8> = (0..12_u32 << 20)
        .map(|number| (number >> 8) as u8 ^ number as u8)
        .collect();
    client.put(&file, &large).is(200);
    let head = format!(
        "GET {file} HTTP/1.1\r\nHost: {}\r\n{}\r\n",
        server.address,
        client.all_headers()
    );
    let mut slow: Vec<TcpStream> = (0..SLOW)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    // Each of them has its answer before it, and does not take it in.
    for stream in &mut slow {
        stream.read_exact(&mut [0; 12]).unwrap();
    }
    assert_eq!(client.get(&file).is(200).body, large);
    client.line(&path, "true");
    let other = server.with(&token(&house, "--tenant other --scope run"));
    let theirs = other.sandbox(&json!({}));
    other.line(&theirs, "true");
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.worker())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: usize = resident
        .unwrap()
        .trim()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // Two pieces of 64 KiB and the buffers of the connection, and not the whole file.
    assert!(kib < 350 << 10, "{kib} KiB for {SLOW} clients");
    drop(slow);
    client.delete(&path).is(204);
}

#[test]
fn unread_log_does_not_block_its_writers() {
    let house = Sandbox::new();
    let (unread, log) = std::io::pipe().unwrap();
    let server = Server::start_logging(&house, &[], &[], log.into());
    let client = server.with(&token(&house, "--scope read"));
    // Much more than a pipe holds.
    let path = format!("/api/v1/sandboxes/{}", "a".repeat(400));
    for _ in 0..400 {
        client.get(&path).problem(404);
    }
    assert_eq!(server.end(), 0);
    drop(unread);
}
