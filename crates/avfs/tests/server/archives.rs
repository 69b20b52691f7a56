//! Whole directories in and out, forks of vaults, rules and previews.

use serde_json::json;

use crate::client::{Server, token};
use crate::sandbox::Sandbox;

#[test]
fn a_vault_goes_out_as_an_archive_and_comes_in_as_one() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope admin"));
    client.post("/api/v1/vaults", &json!({ "name": "one" })).is(201);
    client.post("/api/v1/vaults", &json!({ "name": "two" })).is(201);
    client
        .put("/api/v1/vaults/one/files?path=/src/a&mode=755", b"contents")
        .is(200);
    client
        .put("/api/v1/vaults/one/files?path=/b", &vec![7; 3 << 20])
        .is(200);
    let archive = client.get("/api/v1/vaults/one/archive").is(200);
    assert_eq!(archive.header("content-type"), Some("application/x-tar"));
    let brought = client
        .put("/api/v1/vaults/two/archive?path=/in", &archive.body)
        .is(200)
        .json();
    assert_eq!(brought, json!({ "files": 2, "bytes": (3 << 20) + 8 }));
    let found = client
        .get("/api/v1/vaults/two/files/stat?path=/in/src/a")
        .is(200)
        .json();
    assert_eq!((&found["size"], &found["mode"]), (&json!(8), &json!("755")));
    assert_eq!(
        client.get("/api/v1/vaults/two/files?path=/in/b").is(200).body,
        vec![7; 3 << 20]
    );
    // What is no archive, and what would lead out, changes nothing.
    let before = client.get("/api/v1/vaults/two").is(200).json()["head"].clone();
    assert_eq!(
        client
            .put("/api/v1/vaults/two/archive", b"no archive at all")
            .status,
        400
    );
    let mut evil = archive.body.clone();
    evil.truncate(700);
    assert_eq!(client.put("/api/v1/vaults/two/archive", &evil).status, 400);
    assert_eq!(client.get("/api/v1/vaults/two").is(200).json()["head"], before);
    assert_eq!(
        client.get("/api/v1/vaults/one/archive?path=/none").problem(404),
        "not-found"
    );
}

#[test]
fn a_fork_of_a_vault_has_its_files_and_remembers_it() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    client.post("/api/v1/vaults", &json!({ "name": "web" })).is(201);
    client.put("/api/v1/vaults/web/files?path=/f", b"first").is(200);
    client
        .post("/api/v1/vaults/web/checkpoints", &json!({ "name": "v1" }))
        .is(201);
    client.put("/api/v1/vaults/web/files?path=/f", b"second").is(200);
    let body = json!({ "names": ["a", "b"], "revision": "v1" });
    let made = client.post("/api/v1/vaults/web/forks", &body).is(201).json();
    assert_eq!(made["vaults"][1]["name"], "b");
    assert_eq!(made["vaults"][1]["parent"], "web");
    assert_eq!(
        client.get("/api/v1/vaults/a/files?path=/f").is(200).body,
        b"first"
    );
    let listed = client.get("/api/v1/vaults/web/forks").is(200).json();
    let names: Vec<&str> = listed["vaults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(
        client
            .post("/api/v1/vaults/web/forks", &json!({ "names": [] }))
            .status,
        400
    );
}

#[test]
fn rules_of_a_sandbox_hold_for_its_programs_and_are_explained() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    client.post("/api/v1/vaults", &json!({ "name": "web" })).is(201);
    for (path, text) in [("/docs/a", "a"), ("/secret", "s"), ("/open", "o")] {
        client
            .put(&format!("/api/v1/vaults/web/files?path={path}"), text.as_bytes())
            .is(200);
    }
    let rules = json!(["/**=read", "/docs/**=write", "/secret=none"]);
    let sandbox = client.sandbox(&json!({ "vault": "web", "rules": rules }));
    assert_eq!(
        client.line(
            &sandbox,
            "ls; echo b >docs/b; cat docs/b; echo x 2>/dev/null >open || echo no"
        ),
        "docs\nopen\nb\nno\n"
    );
    assert_eq!(
        client.get(&format!("{sandbox}/files?path=/secret")).problem(404),
        "not-found"
    );
    assert_eq!(
        client.put(&format!("{sandbox}/files?path=/open"), b"x").status,
        403
    );
    let explained = client
        .get(&format!("{sandbox}/rules/explain?path=/docs/a"))
        .is(200)
        .json();
    assert_eq!(
        (&explained["level"], &explained["rule"]["rule"]),
        (&json!("write"), &json!("/docs/**=write"))
    );
    assert_eq!(explained["overruled"][0]["rule"], "/**=read");
    // The vault has none, and nobody but an administrator sets any.
    assert_eq!(
        client.get("/api/v1/vaults/web/rules").is(200).json()["rules"],
        json!(null)
    );
    let json = client.clone().header("Content-Type", "application/json");
    assert_eq!(
        json.put("/api/v1/vaults/web/rules", b"{}").problem(403),
        "missing-scope"
    );
    let admin = server
        .with(&token(&house, "--scope admin"))
        .header("Content-Type", "application/json");
    admin
        .put("/api/v1/vaults/web/rules", br#"{"rules": ["/**=view"]}"#)
        .is(200);
    // Rules of the vault cannot be widened by a sandbox on it.
    let widened = client.post(
        "/api/v1/sandboxes",
        &json!({ "vault": "web", "rules": ["/**=write"] }),
    );
    assert_eq!(widened.problem(403), "rules-of-vault");
    let narrow = client.sandbox(&json!({ "vault": "web" }));
    assert_eq!(client.get(&format!("{narrow}/files?path=/open")).status, 403);
    for wrong in [json!({ "rules": ["x"] }), json!({ "preset": "nonsense" })] {
        assert_eq!(
            client.post("/api/v1/sandboxes", &wrong).problem(400),
            "bad-rules",
            "{wrong}"
        );
    }
}

#[test]
fn an_approval_shows_what_the_command_would_change() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run,approve"));
    client.post("/api/v1/vaults", &json!({ "name": "web" })).is(201);
    std::fs::write(
        house.path("policy.toml"),
        "[[rules]]\nprefix = [\"rm\"]\naction = \"ask\"\n",
    )
    .unwrap();
    client.put("/api/v1/vaults/web/files?path=/f", b"line\n").is(200);
    house.good(&format!(
        "policy set {} --everywhere",
        house.path("policy.toml").display()
    ));
    let sandbox = client.sandbox(&json!({ "vault": "web" }));
    let refused = client
        .post(&format!("{sandbox}/exec"), &json!({ "command": "rm f" }))
        .is(403)
        .json();
    assert_eq!(refused["code"], "approval_required");
    let id = refused["approval"].as_str().unwrap();
    let shown = client
        .post(&format!("/api/v1/approvals/{id}/preview"), &json!({}))
        .is(200)
        .json();
    assert!(shown["patch"].as_str().unwrap().contains("-line"), "{shown}");
    assert_eq!(shown["exit_code"], 0);
    // Nothing has happened.
    client.get(&format!("{sandbox}/files?path=/f")).is(200);
}

#[test]
fn a_task_is_applied_to_its_directory_by_an_administrator() {
    let house = Sandbox::new();
    let file = house.path("project/notes.txt");
    std::fs::write(&file, "first\n").unwrap();
    house.good(&format!(
        "task new fix --from {}",
        house.path("project").display()
    ));
    let server = Server::start(&house, &[]);
    let admin = server.with(&token(&house, "--scope admin"));
    let listed = admin.get("/api/v1/vaults").is(200).json();
    let names = listed["vaults"].as_array().unwrap().iter();
    let name = names
        .filter_map(|one| one["name"].as_str())
        .find(|name| name.ends_with("fix"))
        .unwrap();
    let place = format!("/api/v1/vaults/{}", name.replace('/', "%2F"));
    admin
        .put(&format!("{place}/files?path=/notes.txt"), b"second\n")
        .is(200);
    let apply = format!("{place}/apply");
    let runner = server.with(&token(&house, "--scope run"));
    assert_eq!(runner.post(&apply, &json!({})).problem(403), "missing-scope");
    admin.post(&apply, &json!({ "dry_run": true })).is(200);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "first\n");
    let applied = admin.post(&apply, &json!({})).is(200).json();
    assert_eq!(
        applied["files"],
        json!([{ "path": "/notes.txt", "action": "replaced" }])
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "second\n");
    admin.post("/api/v1/vaults", &json!({ "name": "web" })).is(201);
    assert!(admin.post("/api/v1/vaults/web/apply", &json!({})).status < 500);
    let theirs = server.with(&token(&house, "--tenant theirs --scope admin"));
    theirs.post("/api/v1/vaults", &json!({ "name": "web" })).is(201);
    assert_eq!(
        theirs.post("/api/v1/vaults/web/apply", &json!({})).problem(403),
        "missing-scope"
    );
}
