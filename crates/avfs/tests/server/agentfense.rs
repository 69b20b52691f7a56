//! The interface of AgentFense's clients, by its gateway. Its gRPC is driven by its own client (`scripts/server-clients`).

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::client::{Client, PATIENCE, Server, eventually, token};
use crate::sandbox::Sandbox;

/// Makes a codebase with a file, and a sandbox on it that runs.
fn made(client: &Client<'_>, more: &Value) -> (String, String) {
    let codebase = client
        .post("/v1/codebases", &json!({ "name": "n", "ownerId": "o" }))
        .is(200)
        .json();
    let codebase = codebase["id"].as_str().unwrap().to_owned();
    client
        .put(&format!("/api/v1/vaults/{codebase}/files?path=/a"), b"one\n")
        .is(200);
    let mut asked = json!({
        "codebaseId": codebase, "permissions": [{ "pattern": "**/*", "permission": "PERMISSION_WRITE" }],
    });
    asked
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let sandbox = client.post("/v1/sandboxes", &asked).is(200).json();
    let sandbox = sandbox["id"].as_str().unwrap().to_owned();
    let started = client.post(&format!("/v1/sandboxes/{sandbox}/start"), &json!({}));
    assert_eq!(started.is(200).json()["status"], "SANDBOX_STATUS_RUNNING");
    (codebase, sandbox)
}

#[track_caller]
fn exec(client: &Client<'_>, of: &str, command: &str) -> String {
    let ran = client
        .post(&format!("/v1/{of}/exec"), &json!({ "command": command }))
        .is(200)
        .json();
    assert_eq!(ran["exitCode"], 0, "{ran}");
    ran["stdout"].as_str().unwrap().to_owned()
}

fn file(client: &Client<'_>, codebase: &str, path: &str) -> Vec<u8> {
    client
        .get(&format!("/api/v1/vaults/{codebase}/files?path={path}"))
        .is(200)
        .body
}

#[test]
fn answers_to_agentfense_clients_survive_a_kill() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.operator();
    let (codebase, sandbox) = made(&client, &json!({ "labels": { "l": "v" }, "expiresIn": "5000s" }));
    let of_sandbox = format!("sandboxes/{sandbox}");
    exec(&client, &of_sandbox, "echo two >>a; sync");
    let session = client
        .post(&format!("/v1/{of_sandbox}/sessions"), &json!({}))
        .is(200)
        .json();
    assert_eq!(session["status"], "SESSION_STATUS_ACTIVE");
    let of_session = format!("sessions/{}", session["id"].as_str().unwrap());
    exec(&client, &of_session, "cd /tmp");
    let before = client.get(&format!("/v1/{of_sandbox}")).is(200).json();
    server.kill();

    let server = Server::start(&house, &[]);
    let client = server.operator();
    assert_eq!(client.get(&format!("/v1/{of_sandbox}")).is(200).json(), before);
    let after = client.get(&format!("/v1/{of_session}")).is(200).json();
    assert_eq!(after["status"], "SESSION_STATUS_CLOSED");
    assert!(after["closedAt"].is_string(), "{after}");
    let refused = client.post(&format!("/v1/{of_session}/exec"), &json!({ "command": "true" }));
    assert_eq!(refused.is(400).json()["code"], 9);
    assert_eq!(
        exec(&client, &of_sandbox, "echo three >>a; cat a"),
        "one\ntwo\nthree\n"
    );
    client.delete(&format!("/v1/{of_sandbox}")).is(200);
    assert_eq!(file(&client, &codebase, "/a"), b"one\ntwo\nthree\n");
    client.delete(&format!("/v1/codebases/{codebase}")).is(200);
    server.kill();

    let server = Server::start(&house, &[]);
    let client = server.operator();
    client.get(&format!("/v1/codebases/{codebase}")).is(404);
    client.get(&format!("/v1/{of_sandbox}")).is(404);
}

#[test]
fn of_a_conflict_both_versions_are_kept_unless_the_last_writer_is_to_win() {
    for (words, wins) in [(&[][..], false), (&["--agentfense-last-writer-wins"][..], true)] {
        let house = Sandbox::new();
        let server = Server::start(&house, words);
        let client = server.operator();
        let (codebase, sandbox) = made(&client, &json!({}));
        // While the command runs, somebody else changes the same line.
        let of_sandbox = format!("/v1/sandboxes/{sandbox}/exec");
        let line = json!({ "command": "echo from the sandbox >a; touch begun; until [ -e go ]; do sleep 0.05; done" });
        std::thread::scope(|scope| {
            let command = scope.spawn(|| client.post(&of_sandbox, &line).is(200));
            let files = format!("/api/v1/sandboxes/{sandbox}/files?path=");
            eventually(|| client.get(&format!("{files}/begun")).status == 200);
            client
                .put(
                    &format!("/api/v1/vaults/{codebase}/files?path=/a"),
                    b"from outside\n",
                )
                .is(200);
            client.put(&format!("{files}/go"), b"").is(200);
            command.join().unwrap();
        });
        let destroyed = client.delete(&format!("/v1/sandboxes/{sandbox}"));
        let kept = String::from_utf8(file(&client, &codebase, "/a")).unwrap();
        if wins {
            destroyed.is(200);
            assert_eq!(kept, "from the sandbox\n");
        } else {
            let told = destroyed.is(409).json();
            assert_eq!(told["code"], 10, "{told}");
            let text = told["message"].as_str().unwrap();
            assert!(text.contains(&codebase) && text.ends_with(": /a"), "{text}");
            assert!(
                kept.contains("from the sandbox\n") && kept.contains("from outside\n"),
                "{kept}"
            );
        }
        client.get(&format!("/v1/sandboxes/{sandbox}")).is(404);
        // What nobody contests is there in any case.
        assert_eq!(file(&client, &codebase, "/begun"), b"");
    }
}

#[test]
fn a_token_is_needed_where_others_can_connect() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let refused = server.open().get("/v1/codebases").is(401).json();
    assert_eq!(refused["code"], 16);
    let client = server.with(&token(&house, "--scope read"));
    client.get("/v1/codebases").is(200);
    let refused = client.post("/v1/codebases", &json!({ "name": "n", "ownerId": "o" }));
    assert_eq!(refused.is(403).json()["code"], 7);
    // Another tenant's codebase is one that does not exist.
    let (codebase, _) = made(&server.operator(), &json!({}));
    let other = server.with(&token(&house, "--tenant other --scope run"));
    for path in [
        format!("/v1/codebases/{codebase}"),
        format!("/v1/codebases/{codebase}/files"),
    ] {
        let text = other.get(&path).is(404).json()["message"].clone();
        let unknown = other.get(&path.replace(&codebase, "cb_0123456789abcdef"));
        let unknown = unknown.is(404).json()["message"].clone();
        assert_eq!(
            text.as_str().unwrap().replace(&codebase, "ID"),
            unknown.as_str().unwrap().replace("cb_0123456789abcdef", "ID")
        );
    }
}

/// What a server answers at one of its own ports.
fn answer(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn ports_without_a_credential_serve_one_tenant_on_one_interface() {
    let house = Sandbox::new();
    let words = [
        "--insecure-agentfense=open",
        "--agentfense-grpc",
        "127.0.0.1:0",
        "--agentfense-rest",
        "127.0.0.1:0",
    ];
    let server = Server::start(&house, &words);
    let rest = server.listening["agentfense_rest"].as_str().unwrap();
    let rest = rest.strip_prefix("http://").unwrap();
    let ask = |path: &str, headers: &str| {
        let host = if headers.contains("Host:") {
            String::new()
        } else {
            format!("Host: {rest}\r\n")
        };
        answer(
            rest,
            &format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n"),
        )
    };
    assert!(ask("/v1/codebases", "").starts_with("HTTP/1.1 200 "));
    assert!(ask("/healthz", "").starts_with("HTTP/1.1 200 "));
    for path in ["/api/v1/vaults", "/sandboxes", "/api/metrics", "/files"] {
        assert!(ask(path, "").starts_with("HTTP/1.1 404 "), "{path}");
    }
    for headers in ["Origin: http://evil.example\r\n", "Host: evil.example\r\n"] {
        assert!(
            ask("/v1/codebases", headers).starts_with("HTTP/1.1 403 "),
            "{headers}"
        );
    }
    // They are those of their tenant, and of nobody else.
    made(&server.operator(), &json!({}));
    assert!(ask("/v1/codebases", "").contains("\"codebases\":[]"));
    let operator = server.operator().header("Avfs-Tenant", "open");
    made(&operator, &json!({}));
    assert!(ask("/v1/codebases", "").contains("\"name\":\"n\""));
}

#[test]
fn a_configuration_of_agentfense_does_what_it_says() {
    let house = Sandbox::new();
    let (store, database) = (house.path("codebases"), house.path("metadata.db"));
    let config = house.path("agentfense.yaml");
    let text = format!(
        "storage:\n  codebase_path: {}\n  mount_path: {}\n  db_path: {}\nruntime:\n  max_timeout: 1s\nsandbox:\n  \
         default_expiration: 1h\n  max_per_user: 1\nlogging:\n  level: warn\n  format: text\n",
        store.display(),
        house.path("mounts").display(),
        database.display()
    );
    std::fs::write(&config, text).unwrap();
    let server = Server::start(&house, &["--config", config.to_str().unwrap()]);
    let client = server.operator();
    let (codebase, sandbox) = made(&client, &json!({}));
    assert!(store.join("server/socket").exists() && database.exists());
    assert!(!store.join("server.db").exists());
    let shown = client.get(&format!("/v1/sandboxes/{sandbox}")).is(200).json();
    assert!(shown["expiresAt"].is_string(), "{shown}");
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(
        mounts.contains(&house.path("mounts/runs").display().to_string()),
        "{mounts}"
    );
    let again = client.post("/v1/sandboxes", &json!({ "codebaseId": codebase }));
    assert_eq!(again.is(429).json()["code"], 8);
    let long = client.post(
        &format!("/v1/sandboxes/{sandbox}/exec"),
        &json!({ "command": "sleep 60", "timeout": "50s" }),
    );
    assert_eq!(long.is(504).json()["code"], 4);
    assert_eq!(server.end(), 0);
    let log = std::fs::read_to_string(house.path("log")).unwrap();
    assert!(log.contains("status=429") && !log.contains("status=200"), "{log}");
}
