//! Sandboxes on images. Needs runc.

use serde_json::json;

use crate::client::{Server, token};
use crate::rootfs::rootfs;
use crate::sandbox::Sandbox;

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
        // Container runtimes alone make this part of `/proc` a mount of its own.
        let probe = "while read line; do case $line in *' /proc/fs '*) echo runtime;; esac; done </proc/self/mountinfo";
        let expected = if isolation == "oci" { "runtime\n" } else { "" };
        assert_eq!(client.line(&path, probe), expected);
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
