//! What a tenant may use of all, and that one at its limit takes nothing from another.

use serde_json::json;

use crate::client::{Server, eventually, token};
use crate::sandbox::Sandbox;

#[test]
fn a_tenant_that_asks_too_often_is_refused_and_another_is_not() {
    let house = Sandbox::new();
    let server = Server::start(&house, &["--max-requests", "1"]);
    let ours = server.with(&token(&house, "--tenant ours --scope read"));
    let theirs = server.with(&token(&house, "--tenant theirs --scope read"));
    let refused = (0..100)
        .map(|_| ours.get("/api/v1/sandboxes"))
        .find(|answer| answer.status != 200)
        .expect("a machine that answers less than one request in a second");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.problem(429), "too-many-requests");
    theirs.get("/api/v1/sandboxes").is(200);
    server.open().get("/healthz").is(200);
    // It is let in again after a while.
    eventually(|| ours.get("/api/v1/sandboxes").status == 200);
}

#[test]
fn a_tenant_that_stores_too_much_stores_no_more() {
    let house = Sandbox::new();
    let server = Server::start(&house, &["--max-total-disk", "16M"]);
    let ours = server.with(&token(&house, "--tenant ours --scope admin"));
    let theirs = server.with(&token(&house, "--tenant theirs --scope admin"));
    for client in [&ours, &theirs] {
        client.post("/api/v1/vaults", &json!({ "name": "web" })).is(201);
    }
    // Bytes that no store makes smaller.
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..20 << 20)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state.to_le_bytes()[0]
        })
        .collect();
    ours.put("/api/v1/vaults/web/files?path=/big", &noise).is(200);
    eventually(|| ours.put("/api/v1/vaults/web/files?path=/small", b"x").status == 507);
    let refused = ours.post("/api/v1/sandboxes", &json!({ "vault": "web" }));
    assert_eq!(refused.problem(507), "tenant-full");
    // What is there can be read and deleted.
    assert_eq!(
        ours.get("/api/v1/vaults/web/files?path=/big").is(200).body.len(),
        noise.len()
    );
    ours.delete("/api/v1/vaults/web/files?path=/big").is(204);
    theirs.put("/api/v1/vaults/web/files?path=/small", b"x").is(200);
}
