//! What survives: kills, restarts and repetitions.

use serde_json::json;

use crate::client::{Server, eventually, token};
use crate::left_over::mounts;
use crate::sandbox::Sandbox;

#[test]
fn acknowledged_changes_survive_a_kill() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let path = client.sandbox(&json!({ "metadata": { "a": "b" }, "expires_seconds": 5000 }));
    let gone = client.sandbox(&json!({}));
    client.delete(&gone).is(204);
    client.line(&path, "echo kept >file; sync");
    client.put(&format!("{path}/files?path=/other"), b"also").is(200);
    let started = client
        .post(&format!("{path}/processes"), &json!({ "command": "sleep 1000" }))
        .is(201)
        .json();
    let before = client.get(&path).is(200).json();
    server.kill();

    let server = Server::start(&house, &[]);
    let client = server.with(&key);
    let after = client.get(&path).is(200).json();
    assert_eq!(after["expires_ms"], before["expires_ms"]);
    assert_eq!(after["metadata"], json!({ "a": "b" }));
    assert_eq!((&after["running"], &after["state"]), (&json!(0), &json!("idle")));
    assert_eq!(client.get(&gone).problem(404), "unknown-sandbox");
    // A process ended with its server, and no other one ever has its name.
    let process = format!("{path}/processes/{}", started["id"].as_str().unwrap());
    assert_eq!(client.get(&process).problem(404), "unknown-process");
    assert_eq!(client.line(&path, "cat file other"), "kept\nalso");
    assert!(mounts(&house).len() <= 1, "{:?}", mounts(&house));
}

#[test]
fn nothing_is_left_of_a_server_that_ended() {
    let house = Sandbox::new();
    let server = Server::start(&house, &["--grace", "0s"]);
    let client = server.with(&token(&house, "--scope run"));
    let path = client.sandbox(&json!({}));
    client.line(&path, "echo kept >file");
    client
        .post(&format!("{path}/processes"), &json!({ "command": "sleep 1000" }))
        .is(201);
    assert_eq!(mounts(&house).len(), 1);
    assert_eq!(server.end(), 0);
    assert_eq!(mounts(&house), Vec::<String>::new());
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    assert_eq!(
        client.get(&format!("{path}/files?path=/file")).is(200).body,
        b"kept\n"
    );
}

#[test]
fn a_repeated_request_is_carried_out_once() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key).header("Idempotency-Key", "k-1");
    let first = client.post("/api/v1/sandboxes", &json!({})).is(201).json();
    let again = client.post("/api/v1/sandboxes", &json!({})).is(201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json(), first);
    let other = json!({ "read_only": true });
    assert_eq!(
        client.post("/api/v1/sandboxes", &other).problem(422),
        "key-reused"
    );
    let path = format!("/api/v1/sandboxes/{}", first["id"].as_str().unwrap());
    let exec = server.with(&key).header("Idempotency-Key", "k-2");
    let line = json!({ "command": "echo x >>file; wc -l <file" });
    let ran = exec.post(&format!("{path}/exec"), &line).is(200).json();
    server.kill();

    let server = Server::start(&house, &[]);
    let exec = server.with(&key).header("Idempotency-Key", "k-2");
    assert_eq!(exec.post(&format!("{path}/exec"), &line).is(200).json(), ran);
    let client = server.with(&key).header("Idempotency-Key", "k-1");
    assert_eq!(
        client.post("/api/v1/sandboxes", &json!({})).is(201).json()["id"],
        first["id"]
    );
    assert_eq!(server.with(&key).line(&path, "wc -l <file"), "1\n");
    // A key belongs to whoever used it.
    let other = server
        .with(&token(&house, "--scope run"))
        .header("Idempotency-Key", "k-1");
    assert_ne!(
        other.post("/api/v1/sandboxes", &json!({})).is(201).json()["id"],
        first["id"]
    );
}

#[test]
fn a_sandbox_expires_and_an_idle_one_is_closed() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let idle = client.sandbox(&json!({ "idle_seconds": 1 }));
    client.line(&idle, "echo kept >file");
    eventually(|| client.get(&idle).is(200).json()["state"] == "idle");
    assert_eq!(client.line(&idle, "cat file"), "kept\n");
    let path = client.sandbox(&json!({}));
    client.line(&path, "true");
    let expiry = format!("{path}/expiry");
    let body = json!({ "seconds": 0 }).to_string();
    let json = client.clone().header("Content-Type", "application/json");
    json.put(&expiry, body.as_bytes());
    assert_eq!(client.get(&path).problem(404), "unknown-sandbox");
    eventually(|| {
        !house
            .good("vault list")
            .contains(path.rsplit('/').next().unwrap())
    });
}

#[test]
fn a_second_server_of_a_store_does_not_start() {
    let house = Sandbox::new();
    let _server = Server::start(&house, &[]);
    let (status, code) = house.bad("serve --json");
    assert_eq!((status, code.as_str()), (5, "cannot-listen"));
}

#[test]
fn a_port_that_another_program_uses_is_busy() {
    let house = Sandbox::new();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let (status, code) = house.bad(&format!("serve --json --listen 127.0.0.1:{port}"));
    assert_eq!((status, code.as_str()), (5, "cannot-listen"));
}
