//! Files and states.

use std::fs;

use serde_json::json;

use crate::client::{Server, token};
use crate::sandbox::Sandbox;

#[test]
fn files_are_written_and_read_in_parts() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let files = format!("{}/files", client.sandbox(&json!({})));
    let written = client
        .put(&format!("{files}?path=/a/b.txt&mode=755"), b"0123456789")
        .is(200);
    let tag = written.header("etag").unwrap().to_owned();
    assert_eq!(written.json()["mode"], "755");
    let read = client.get(&format!("{files}?path=/a/b.txt")).is(200);
    assert_eq!(
        (&read.body[..], read.header("etag")),
        (&b"0123456789"[..], Some(tag.as_str()))
    );
    let part = client
        .clone()
        .header("Range", "bytes=2-4")
        .get(&format!("{files}?path=a/b.txt"))
        .is(206);
    assert_eq!(
        (&part.body[..], part.header("content-range")),
        (&b"234"[..], Some("bytes 2-4/10"))
    );
    let outside = client
        .clone()
        .header("Range", "bytes=10-")
        .get(&format!("{files}?path=/a/b.txt"));
    assert_eq!(outside.header("content-range"), Some("bytes */10"));
    assert_eq!(outside.problem(416), "bad-range");
    client
        .clone()
        .header("If-None-Match", &tag)
        .get(&format!("{files}?path=/a/b.txt"))
        .is(304);
    let listed = client.get(&format!("{files}/list?depth=2")).is(200).json();
    let paths: Vec<_> = listed["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].clone())
        .collect();
    assert_eq!(paths, ["/a", "/a/b.txt"]);
    let page = client
        .get(&format!("{files}/list?depth=2&limit=1"))
        .is(200)
        .json();
    let next = page["next"].as_str().unwrap();
    let page = client
        .get(&format!("{files}/list?depth=2&limit=1&cursor={next}"))
        .is(200)
        .json();
    assert_eq!(
        (&page["files"][0]["path"], &page["next"]),
        (&json!("/a/b.txt"), &json!(null))
    );
    client
        .post(
            &format!("{files}/move"),
            &json!({ "from": "/a/b.txt", "to": "/c/d" }),
        )
        .is(204);
    assert_eq!(
        client.get(&format!("{files}/stat?path=/c/d")).is(200).json()["size"],
        10
    );
    client
        .post(&format!("{files}/directory"), &json!({ "path": "/e/f" }))
        .is(204);
    client.delete(&format!("{files}?path=/c")).is(204);
    assert_eq!(
        client.get(&format!("{files}?path=/c/d")).problem(404),
        "not-found"
    );
}

#[test]
fn a_write_over_another_version_is_refused() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let file = format!("{}/files?path=/f", client.sandbox(&json!({})));
    let new = client.clone().header("If-None-Match", "*");
    let tag = new.put(&file, b"one").is(200).header("etag").unwrap().to_owned();
    assert_eq!(new.put(&file, b"two").problem(412), "stale-version");
    let over = client.clone().header("If-Match", &tag);
    over.put(&file, b"two").is(200);
    assert_eq!(over.put(&file, b"three").problem(412), "stale-version");
    assert_eq!(over.delete(&file).problem(412), "stale-version");
    assert_eq!(client.get(&file).is(200).body, b"two");
}

#[test]
fn commands_and_requests_see_the_same_files() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let path = client.sandbox(&json!({}));
    client.line(&path, "echo inside >a");
    assert_eq!(
        client.get(&format!("{path}/files?path=/a")).is(200).body,
        b"inside\n"
    );
    client.put(&format!("{path}/files?path=/b"), b"outside\n").is(200);
    assert_eq!(client.line(&path, "cat b"), "outside\n");
    client
        .post(&format!("{path}/checkpoints"), &json!({ "name": "good" }))
        .is(201);
    client.line(&path, "rm a b");
    let restored = client
        .post(&format!("{path}/restore"), &json!({ "revision": "good" }))
        .is(200)
        .json();
    assert!(restored["changed"].as_u64().unwrap() >= 2, "{restored}");
    assert_eq!(client.line(&path, "cat a b"), "inside\noutside\n");
    let patch = client.get(&format!("{path}/patch")).is(200);
    assert!(String::from_utf8(patch.body).unwrap().contains("+inside"));
    let found = client.get(&format!("{path}/search?pattern=^out")).is(200).json();
    assert_eq!(
        found["lines"],
        json!([{ "path": "/b", "line": 1, "text": "outside" }])
    );
    let history = client.get(&format!("{path}/history?limit=1")).is(200).json();
    assert!(history["next"].as_u64().is_some(), "{history}");
}

#[test]
fn rules_hold_for_programs_and_not_for_the_owner() {
    let house = Sandbox::with_files();
    house.good("--vault web rules set --rule /**=write --rule /notes.txt=none");
    let server = Server::start(&house, &[]);
    let (agent, owner) = (token(&house, "--scope run"), token(&house, "--scope admin"));
    let path = server.with(&agent).sandbox(&json!({ "vault": "web" }));
    let file = format!("{path}/files?path=/notes.txt");
    assert_eq!(server.with(&agent).get(&file).status, 404);
    assert_eq!(
        server
            .with(&agent)
            .get("/api/v1/vaults/web/files?path=/notes.txt")
            .status,
        404
    );
    assert_eq!(server.with(&owner).get(&file).is(200).body, b"first\n");
    assert_eq!(server.with(&agent).line(&path, "ls"), "link\nsrc\n");
}

#[test]
fn no_token_below_admin_reads_what_a_task_hides() {
    let house = Sandbox::new();
    fs::write(house.path("project/src/.env"), "TOKEN=1\n").unwrap();
    fs::write(house.path("project/src/a"), "a\n").unwrap();
    house.good("run --name t1 -- touch b");
    let server = Server::start(&house, &[]);
    let (reader, agent) = (token(&house, "--scope read"), token(&house, "--scope run"));
    let (reader, agent) = (server.with(&reader), server.with(&agent));
    let forks = "/api/v1/vaults/src%2Ft1/forks";
    agent.post(forks, &json!({ "names": ["fork"] })).is(201);
    for vault in ["src", "src%2Ft1", "fork"] {
        let file = |name: &str| reader.get(&format!("/api/v1/vaults/{vault}/files?path=/{name}"));
        assert_eq!(file(".env").status, 404, "{vault}");
        file("a").is(200);
    }
    for vault in ["src", "src/t1", "fork"] {
        let path = agent.sandbox(&json!({ "vault": vault }));
        assert_eq!(
            agent.get(&format!("{path}/files?path=/.env")).status,
            404,
            "{vault}"
        );
        assert_eq!(
            agent.line(&path, "cat a; cat .env 2>/dev/null; true"),
            "a\n",
            "{vault}"
        );
    }
}
