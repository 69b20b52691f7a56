//! Who may do what, and that tenants know nothing of each other.

use serde_json::json;

use crate::client::{Server, token};
use crate::sandbox::Sandbox;

#[test]
fn over_tcp_only_a_token_that_holds_is_answered() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let list = "/api/v1/sandboxes";
    assert_eq!(server.open().get("/healthz").is(200).body, b"ok\n");
    let refused = server.open().get(list);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert_eq!(refused.problem(401), "unauthenticated");
    let key = token(&house, "--scope read --note laptop");
    for wrong in [
        "",
        "x",
        &format!("{key}0"),
        &key[..key.len() - 1],
        &key.replace("avfs_", ""),
    ] {
        assert_eq!(
            server.with(wrong).get(list).problem(401),
            "unauthenticated",
            "{wrong}"
        );
    }
    // What would be enough on the socket is nothing here.
    assert_eq!(
        server
            .open()
            .header("Avfs-Tenant", "default")
            .get(list)
            .problem(401),
        "unauthenticated"
    );
    server.with(&key).get(list).is(200);
    assert_eq!(
        server.with(&key).post(list, &json!({})).problem(403),
        "missing-scope"
    );
    let late = token(&house, "--scope read --expires 0s");
    assert_eq!(server.with(&late).get(list).problem(401), "unauthenticated");
    let shown = house.good("token list");
    assert!(shown.contains("laptop") && !shown.contains(&key[20..]), "{shown}");
    house.good(&format!("token revoke {}", &key[5..17]));
    let revoked = server.with(&key).get(list).is(401).json();
    assert_eq!(revoked["code"], "unauthenticated");
    let detail = revoked["detail"].as_str().unwrap();
    assert!(detail.contains("revoked or expired"), "{detail}");
}

#[test]
fn the_user_who_runs_the_server_needs_no_token_on_its_socket() {
    let house = Sandbox::with_files();
    let server = Server::start(&house, &[]);
    let vaults = server.operator().get("/api/v1/vaults").is(200).json();
    assert_eq!(vaults["vaults"][0]["name"], "web");
    token(&house, "--tenant acme --scope run");
    let key = token(&house, "--tenant acme --scope run");
    server.with(&key).sandbox(&json!({}));
    let of_acme = server
        .operator()
        .header("Avfs-Tenant", "acme")
        .get("/api/v1/sandboxes")
        .is(200)
        .json();
    assert_eq!(of_acme["sandboxes"].as_array().unwrap().len(), 1);
    for name in ["none", "../..", "acme/..", ""] {
        let answer = server
            .operator()
            .header("Avfs-Tenant", name)
            .get("/api/v1/sandboxes");
        assert_eq!(answer.problem(404), "unknown-tenant", "{name}");
    }
    // A token counts for what it is there, too.
    let read = token(&house, "--scope read");
    let client = server
        .operator()
        .header("Authorization", &format!("Bearer {read}"));
    assert_eq!(
        client.post("/api/v1/sandboxes", &json!({})).problem(403),
        "missing-scope"
    );
}

#[test]
fn a_tenant_finds_nothing_of_another() {
    let house = Sandbox::with_files();
    let server = Server::start(&house, &[]);
    let ours = server.with(&token(&house, "--tenant ours --scope admin")).clone();
    let theirs = server
        .with(&token(&house, "--tenant theirs --scope admin"))
        .clone();
    ours.post("/api/v1/vaults", &json!({ "name": "plans" })).is(201);
    let path = ours.sandbox(&json!({ "vault": "plans" }));
    ours.line(&path, "echo secret >file");
    let id = path.rsplit('/').next().unwrap();
    let none = theirs.get("/api/v1/sandboxes/sb00000000000000000000").json();
    let other = theirs.get(&path).json();
    assert_eq!(
        other["detail"]
            .as_str()
            .unwrap()
            .replace(id, "sb00000000000000000000"),
        none["detail"].as_str().unwrap()
    );
    for asked in [
        "",
        "/files?path=/file",
        "/files/list",
        "/diff",
        "/history",
        "/audit",
        "/processes",
        "/checkpoints",
    ] {
        assert_eq!(
            theirs.get(&format!("{path}{asked}")).problem(404),
            "unknown-sandbox",
            "{asked}"
        );
    }
    assert_eq!(theirs.delete(&path).problem(404), "unknown-sandbox");
    assert_eq!(
        theirs
            .post(&format!("{path}/exec"), &json!({ "command": "true" }))
            .problem(404),
        "unknown-sandbox"
    );
    assert_eq!(theirs.get("/api/v1/vaults/plans").problem(404), "unknown-vault");
    assert_eq!(
        theirs.get(&format!("/api/v1/vaults/sandbox-{id}")).problem(404),
        "unknown-vault"
    );
    assert_eq!(
        theirs
            .post("/api/v1/sandboxes", &json!({ "vault": "plans" }))
            .problem(404),
        "unknown-vault"
    );
    assert_eq!(theirs.get("/api/v1/vaults").is(200).json()["vaults"], json!([]));
    let numbers = String::from_utf8(theirs.get("/api/metrics").is(200).body).unwrap();
    assert!(
        numbers.contains("tenant=\"theirs\"") && !numbers.contains("ours\""),
        "{numbers}"
    );
    // Nor does a command in a sandbox.
    let spy = theirs.sandbox(&json!({}));
    let store = house.store();
    let looked = theirs.post(
        &format!("{spy}/exec"),
        &json!({ "command": format!("ls {}", store.display()) }),
    );
    assert_ne!(looked.is(200).json()["exit_code"], 0);
    // The user who runs the server sees all.
    let all = String::from_utf8(server.operator().get("/api/metrics").is(200).body).unwrap();
    assert!(all.contains("tenant=\"ours\"") && all.contains("tenant=\"theirs\""));
}

#[test]
fn limits_are_those_of_each_tenant() {
    let house = Sandbox::new();
    let server = Server::start(
        &house,
        &[
            "--max-sandboxes",
            "1",
            "--max-running",
            "1",
            "--max-waiting",
            "0",
            "--max-disk",
            "1M",
            "--max-upload",
            "2M",
        ],
    );
    let ours = server.with(&token(&house, "--tenant ours --scope run"));
    let theirs = server.with(&token(&house, "--tenant theirs --scope run"));
    let path = ours.sandbox(&json!({}));
    let more = ours.post("/api/v1/sandboxes", &json!({}));
    assert_eq!(more.header("retry-after"), Some("1"));
    assert_eq!(more.problem(429), "too-many-sandboxes");
    let sleeping = ours
        .post(&format!("{path}/processes"), &json!({ "command": "sleep 1000" }))
        .is(201)
        .json();
    let busy = ours.post(&format!("{path}/exec"), &json!({ "command": "true" }));
    assert_eq!(busy.problem(429), "too-many-commands");
    let other = theirs.sandbox(&json!({}));
    theirs.line(&other, "true");
    ours.delete(&format!("{path}/processes/{}", sleeping["id"].as_str().unwrap()))
        .is(204);
    let file = format!("{path}/files?path=/f");
    assert_eq!(ours.put(&file, &vec![7; 3 << 20]).problem(413), "too-large");
    assert_eq!(ours.put(&file, &vec![7; 3 << 19]).problem(507), "quota-bytes");
    assert_eq!(ours.get(&file).problem(404), "not-found");
}
