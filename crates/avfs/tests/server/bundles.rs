//! Vaults as files that carry everything of them, out of a server and into one.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::client::{Client, Server, token};
use crate::sandbox::Sandbox;

/// A vault with several states, one of which has a name.
fn web(client: &Client<'_>) {
    client.post("/api/v1/vaults", &json!({ "name": "web" })).is(201);
    let file = "/api/v1/vaults/web/files?path=/file";
    client.put(file, b"first\n").is(200);
    let first = json!({ "name": "first" });
    client.post("/api/v1/vaults/web/checkpoints", &first).is(201);
    client.put(file, b"second\n").is(200);
}

fn history(client: &Client<'_>, vault: &str) -> Value {
    let mut body = client
        .get(&format!("/api/v1/vaults/{vault}/history"))
        .is(200)
        .json();
    body["history"].take()
}

#[test]
fn a_vault_goes_to_another_tenant_and_to_the_command_line_with_its_history() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let admin = server.with(&token(&house, "--scope admin"));
    web(&admin);
    let bundle = admin.get("/api/v1/vaults/web/bundle").is(200);
    assert_eq!(bundle.header("content-type"), Some("application/octet-stream"));
    let other = server.with(&token(&house, "--tenant other --scope admin"));
    let made = other.put("/api/v1/vaults/site/bundle", &bundle.body).is(201);
    let info = admin.get("/api/v1/vaults/web").is(200).json();
    assert_eq!(
        (&made.json()["name"], &made.json()["head"]),
        (&json!("site"), &info["head"])
    );
    // Each state with its time and its reason, and the way back to them.
    let states = |history: &Value| -> Vec<Value> {
        let entries = history.as_array().unwrap().iter();
        let mut states: Vec<Value> = entries.map(|entry| entry["snapshot"].clone()).collect();
        states.dedup();
        states
    };
    let (ours, theirs) = (states(&history(&admin, "web")), states(&history(&other, "site")));
    assert!(
        ours.len() >= 3 && ours.iter().all(|state| theirs.contains(state)),
        "{ours:?} {theirs:?}"
    );
    let place = "/api/v1/vaults/site";
    other
        .post(&format!("{place}/restore"), &json!({ "revision": "first" }))
        .is(200);
    assert_eq!(
        other.get(&format!("{place}/files?path=/file")).is(200).body,
        b"first\n"
    );
    // The file is the one that the command line reads and writes.
    std::fs::write(house.path("web.vault"), &bundle.body).unwrap();
    house.good(&format!(
        "vault import {} --name copy",
        house.path("web.vault").display()
    ));
    assert_eq!(house.good("cat file --vault copy"), "second\n");
}

#[test]
fn a_file_that_is_damaged_or_in_the_way_changes_nothing() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let admin = server.with(&token(&house, "--scope admin"));
    web(&admin);
    let whole = admin.get("/api/v1/vaults/web/bundle").is(200).body;
    assert_eq!(
        admin.put("/api/v1/vaults/web/bundle", &whole).problem(409),
        "vault-exists"
    );
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    for bytes in [&damaged[..], &whole[..whole.len() - 1], b"", b"avfsvlt1"] {
        assert_eq!(
            admin.put("/api/v1/vaults/copy/bundle", bytes).problem(400),
            "bad-vault-file"
        );
        assert_eq!(admin.get("/api/v1/vaults/copy").problem(404), "unknown-vault");
    }
    for name in ["a%2F..%2Fb", "%2e%2e", "%00"] {
        admin
            .put(&format!("/api/v1/vaults/{name}/bundle"), &whole)
            .problem(400);
    }
    assert_eq!(
        admin.get("/api/v1/vaults/none/bundle").problem(404),
        "unknown-vault"
    );
    // Rules and what they hide are in it.
    let runner = server.with(&token(&house, "--scope run,approve"));
    assert_eq!(
        runner.get("/api/v1/vaults/web/bundle").problem(403),
        "missing-scope"
    );
    assert_eq!(
        runner.put("/api/v1/vaults/own/bundle", &whole).problem(403),
        "missing-scope"
    );
    assert_eq!(
        admin.get("/api/v1/vaults").is(200).json()["vaults"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// The most memory of its own that the server had, in KiB, since this was last forgotten.
fn peak(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.worker())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap().trim().split(' ').next().unwrap().parse().unwrap()
}

fn forget_peak(server: &Server) {
    let place = format!("/proc/{}/clear_refs", server.worker());
    std::fs::File::options()
        .write(true)
        .open(place)
        .unwrap()
        .write_all(b"5")
        .unwrap();
}

#[test]
fn a_large_vault_goes_out_and_in_without_being_in_memory() {
    const MIB: usize = 192;
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let admin = server.with(&token(&house, "--scope admin"));
    admin.post("/api/v1/vaults", &json!({ "name": "large" })).is(201);
    // Bytes that no two pieces have in common, and that become no shorter.
    let mut bytes = vec![0; MIB << 20];
    std::fs::File::open("/dev/urandom")
        .unwrap()
        .read_exact(&mut bytes)
        .unwrap();
    admin.put("/api/v1/vaults/large/files?path=/file", &bytes).is(200);
    forget_peak(&server);
    let before = peak(&server);
    let bundle = admin.get("/api/v1/vaults/large/bundle").is(200).body;
    assert!(bundle.len() > bytes.len());
    let made = admin.put("/api/v1/vaults/copy/bundle", &bundle).is(201).json();
    let more = peak(&server).saturating_sub(before);
    assert!(more < 96 << 10, "{more} KiB for {MIB} MiB");
    assert!(made["bytes"].as_u64().unwrap() >= bytes.len() as u64);
    assert!(admin.get("/api/v1/vaults/copy/files?path=/file").is(200).body == bytes);
}
