//! Sandboxes that are ready before anybody asks for them.

use serde_json::{Value, json};

use crate::client::{Client, Server, eventually, token};
use crate::left_over::mounts;
use crate::sandbox::Sandbox;

/// A number that the server tells.
fn number(client: &Client<'_>, name: &str) -> u64 {
    let text = String::from_utf8(client.get("/api/metrics").is(200).body).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name}{{")))
        .unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn ready(client: &Client<'_>) -> u64 {
    number(client, "avfs_sandboxes_warm")
}

fn taken(client: &Client<'_>) -> u64 {
    number(client, "avfs_sandboxes_warm_taken_total")
}

/// Makes a sandbox; what the server tells of it.
#[track_caller]
fn made(client: &Client<'_>, asked: &Value) -> (String, Value) {
    let body = client.post("/api/v1/sandboxes", asked).is(201).json();
    (
        format!("/api/v1/sandboxes/{}", body["id"].as_str().unwrap()),
        body,
    )
}

/// A vault with a file.
fn plans(client: &Client<'_>) {
    client.post("/api/v1/vaults", &json!({ "name": "plans" })).is(201);
    let file = "/api/v1/vaults/plans/files?path=/file";
    client.put(file, b"first\n").is(200);
}

#[test]
fn a_sandbox_that_is_ready_is_taken_and_another_one_is_made_ready() {
    let house = Sandbox::new();
    let server = Server::start(&house, &["--warm", "2"]);
    let client = server.with(&token(&house, "--scope admin"));
    plans(&client);
    let asked = |name: &str| json!({ "vault": "plans", "env": { "A": "b" }, "metadata": { "name": name } });
    // What is asked for once is not worth keeping.
    let mut paths = vec![made(&client, &asked("first")).0, made(&client, &asked("again")).0];
    eventually(|| ready(&client) == 2);
    assert_eq!(taken(&client), 0);
    for (number, name) in (1..).zip(["second", "third"]) {
        let body = json!({ "expires_seconds": 5000 });
        let mut words = asked(name);
        words
            .as_object_mut()
            .unwrap()
            .extend(body.as_object().unwrap().clone());
        let (path, shown) = made(&client, &words);
        assert_eq!(taken(&client), number);
        // It is open before anything ran in it, and is what was asked for all the same.
        assert_eq!(
            (&shown["state"], &shown["metadata"]["name"], &shown["parent"]),
            (&json!("open"), &json!(name), &json!("plans"))
        );
        assert!(shown["expires_ms"].is_number(), "{shown}");
        assert_eq!(
            client.line(&path, "cat file; echo $A; echo own >>file"),
            "first\nb\n"
        );
        paths.push(path);
        eventually(|| ready(&client) == 2);
    }
    assert_eq!(
        client.get("/api/v1/sandboxes").is(200).json()["sandboxes"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    for path in &paths {
        client.delete(path).is(204);
        assert_eq!(client.get(path).problem(404), "unknown-sandbox");
    }
    assert_eq!(server.end(), 0);
    assert_eq!(mounts(&house), Vec::<String>::new());
    assert!(!house.good("vault list").contains("sandbox-"));
}

#[test]
fn what_is_ready_is_taken_only_for_the_same_files_settings_rules_and_policy() {
    let house = Sandbox::new();
    let server = Server::start(&house, &["--warm", "1"]);
    let client = server.with(&token(&house, "--scope admin"));
    plans(&client);
    let asked = json!({ "vault": "plans" });
    for _ in 0..2 {
        made(&client, &asked);
    }
    eventually(|| ready(&client) == 1);
    // Other settings.
    let (path, _) = made(&client, &json!({ "vault": "plans", "read_only": true }));
    assert_ne!(
        client
            .post(&format!("{path}/exec"), &json!({ "command": "echo >file" }))
            .is(200)
            .json()["exit_code"],
        0
    );
    // Other files.
    client
        .put("/api/v1/vaults/plans/files?path=/file", b"second\n")
        .is(200);
    let (path, _) = made(&client, &asked);
    assert_eq!(client.line(&path, "cat file"), "second\n");
    // Other rules.
    let rules = json!({ "rules": ["**=write", "file=none"] }).to_string();
    let as_json = client.clone().header("Content-Type", "application/json");
    as_json
        .put("/api/v1/vaults/plans/rules", rules.as_bytes())
        .is(200);
    let (path, _) = made(&client, &asked);
    assert_eq!(client.line(&path, "ls"), "");
    // Another policy.
    let policy = house.path("policy.toml");
    std::fs::write(&policy, "[[rules]]\nprefix = [\"ls\"]\naction = \"deny\"\n").unwrap();
    house.good(&format!("policy set {} --everywhere", policy.display()));
    let (path, _) = made(&client, &asked);
    client
        .post(&format!("{path}/exec"), &json!({ "command": "ls" }))
        .problem(403);
    assert_eq!(taken(&client), 0);
    // And the same once more.
    made(&client, &asked);
    assert_eq!(taken(&client), 0);
    eventually(|| ready(&client) == 2);
    made(&client, &asked);
    assert_eq!(taken(&client), 1);
}

#[test]
fn nothing_that_was_ready_is_left_after_a_kill_and_no_request_gets_two() {
    let house = Sandbox::new();
    let server = Server::start(&house, &["--warm", "3"]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    for _ in 0..2 {
        made(&client, &json!({}));
    }
    eventually(|| ready(&client) == 3);
    let keyed = client.clone().header("Idempotency-Key", "k");
    let (path, first) = made(&keyed, &json!({}));
    assert_eq!(taken(&client), 1);
    client.line(&path, "echo kept >file; sync");
    eventually(|| ready(&client) == 3);
    server.kill();

    let server = Server::start(&house, &["--warm", "3"]);
    let client = server.with(&key);
    let keyed = client.clone().header("Idempotency-Key", "k");
    let (_, again) = made(&keyed, &json!({}));
    assert_eq!(again["id"], first["id"]);
    assert_eq!(client.line(&path, "cat file"), "kept\n");
    // The three that somebody was told of, and nothing else.
    eventually(|| house.good("vault list").matches("sandbox-").count() == 3);
    assert_eq!(mounts(&house).len(), 1, "{:?}", mounts(&house));
}
