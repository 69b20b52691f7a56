//! Sandboxes on images. Needs runc.

use serde_json::json;

use crate::client::{Client, Server, token};
use crate::rootfs::rootfs;
use crate::sandbox::Sandbox;

/// Tells whether a container runtime has built the sandbox: these alone make this part of `/proc` a mount of its own.
const RUNTIME_PROBE: &str =
    "while read line; do case $line in *' /proc/fs '*) echo runtime;; esac; done </proc/self/mountinfo";

/// With the image `small`.
fn house() -> Sandbox {
    let house = Sandbox::new();
    let root = rootfs(&house.path(""));
    house.good(&format!("image import {} --name small", root.display()));
    house
}

#[test]
fn a_sandbox_on_an_image_keeps_what_is_installed_and_forks_have_it() {
    let house = house();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    for isolation in ["bubblewrap", "oci"] {
        let made = client
            .post(
                "/api/v1/sandboxes",
                &json!({ "image": "small", "isolation": isolation }),
            )
            .is(201)
            .json();
        assert_eq!(made["image"], "small");
        let path = format!("/api/v1/sandboxes/{}", made["id"].as_str().unwrap());
        assert_eq!(client.line(&path, "cat /etc/os-release"), "ID=small\n");
        client.line(&path, "echo 1.0 > /srv/tool; echo text > file");
        let expected = if isolation == "oci" { "runtime\n" } else { "" };
        assert_eq!(client.line(&path, RUNTIME_PROBE), expected);
        let forks = client
            .post(&format!("{path}/forks"), &json!({ "count": 1 }))
            .is(201)
            .json();
        let fork = format!(
            "/api/v1/sandboxes/{}",
            forks["sandboxes"][0]["id"].as_str().unwrap()
        );
        assert_eq!(client.line(&fork, "cat /srv/tool file"), "1.0\ntext\n");
        client.line(&fork, "echo 2.0 > /srv/tool");
        assert_eq!(client.line(&path, "cat /srv/tool"), "1.0\n");
        for one in [path, fork] {
            client.delete(&one).is(204);
        }
        let left = house.good("vault list");
        assert!(left.contains("small") && !left.contains("sandbox-"), "{left}");
    }
}

/// What the line writes in a sandbox of AgentFense's clients.
#[track_caller]
fn line_of_agentfense(client: &Client<'_>, sandbox: &str, line: &str) -> String {
    let ran = client.post(
        &format!("/v1/sandboxes/{sandbox}/exec"),
        &json!({ "command": line }),
    );
    let ran = ran.is(200).json();
    assert_eq!(ran["exitCode"], 0, "{ran}");
    ran["stdout"].as_str().unwrap().to_owned()
}

#[test]
fn a_docker_sandbox_of_agentfense_is_a_container_whose_changes_go_back() {
    let house = house();
    let server = Server::start(&house, &[]);
    let client = server.operator();
    let codebase = client.post("/v1/codebases", &json!({ "name": "n", "ownerId": "o" }));
    let codebase = codebase.is(200).json()["id"].as_str().unwrap().to_owned();
    for (runtime, expected) in [("RUNTIME_TYPE_DOCKER", "runtime\n"), ("RUNTIME_TYPE_BWRAP", "")] {
        let asked = json!({
            "codebaseId": codebase, "runtime": runtime, "image": "small",
            "permissions": [{ "pattern": "**/*", "permission": "PERMISSION_WRITE" }],
        });
        let made = client.post("/v1/sandboxes", &asked).is(200).json();
        assert_eq!(
            (&made["runtime"], &made["image"]),
            (&json!(runtime), &json!("small"))
        );
        let sandbox = made["id"].as_str().unwrap();
        client
            .post(&format!("/v1/sandboxes/{sandbox}/start"), &json!({}))
            .is(200);
        assert_eq!(
            line_of_agentfense(&client, sandbox, "cat /etc/os-release"),
            "ID=small\n"
        );
        assert_eq!(line_of_agentfense(&client, sandbox, RUNTIME_PROBE), expected);
        line_of_agentfense(&client, sandbox, &format!("echo made >{runtime}"));
        client.delete(&format!("/v1/sandboxes/{sandbox}")).is(200);
        let kept = client.get(&format!("/api/v1/vaults/{codebase}/files?path=/{runtime}"));
        assert_eq!(kept.is(200).body, b"made\n");
    }
}

#[test]
fn a_container_is_refused_at_once_where_nothing_could_build_it() {
    let house = house();
    let server = Server::start_in(&house, &[], &[("AVFS_CONTAINERS_RUNTIME", "/nowhere/runc")]);
    let client = server.operator();
    let asked = json!({ "image": "small", "isolation": "oci" });
    assert_eq!(
        client.post("/api/v1/sandboxes", &asked).problem(409),
        "no-runtime"
    );
    let codebase = client.post("/v1/codebases", &json!({ "name": "n", "ownerId": "o" }));
    let codebase = codebase.is(200).json()["id"].clone();
    let asked = json!({ "codebaseId": codebase, "runtime": "RUNTIME_TYPE_DOCKER", "image": "small" });
    let refused = client.post("/v1/sandboxes", &asked).is(400).json();
    assert_eq!(refused["code"], 9, "{refused}");
    let text = refused["message"].as_str().unwrap();
    assert!(
        text.contains("no container runtime") && text.contains("/nowhere/runc"),
        "{text}"
    );
    assert!(!house.good("vault list").contains("sandbox-"));
}

#[test]
fn an_image_that_there_is_not_and_a_container_without_one_are_refused() {
    let house = house();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    for (body, status, code) in [
        (json!({ "image": "smal" }), 404, "unknown-image"),
        (json!({ "isolation": "oci" }), 400, "invalid"),
        (
            json!({ "image": "small", "isolation": "landlock" }),
            400,
            "invalid",
        ),
        (json!({ "image": "small", "isolation": "vm" }), 400, "invalid"),
    ] {
        assert_eq!(
            client.post("/api/v1/sandboxes", &body).problem(status),
            code,
            "{body}"
        );
    }
    assert!(!house.good("vault list").contains("sandbox-"));
}
