//! `avfs --server URL`: the same commands, carried out by a server.

use std::process::Output;

use serde_json::{Value, json};

use crate::client::{Server, token};
use crate::sandbox::Sandbox;

/// A user of a server, in a house of their own.
struct User<'a> {
    house: &'a Sandbox,
    server: String,
    token: String,
}

impl User<'_> {
    fn avfs(&self, words: &[&str], input: &str) -> Output {
        let mut command = self.house.avfs();
        command
            .env("AVFS_SERVER", &self.server)
            .env("AVFS_TOKEN", &self.token);
        command.args(words).write_stdin(input).output().unwrap()
    }

    #[track_caller]
    fn good(&self, line: &str) -> String {
        let output = self.avfs(&line.split_whitespace().collect::<Vec<_>>(), "");
        assert!(output.status.success(), "{line}: {}", self.house.show(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn object(&self, line: &str) -> Value {
        let words: Vec<&str> = ["--json"].into_iter().chain(line.split_whitespace()).collect();
        let output = self.avfs(&words, "");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", self.house.show(&output)))
    }

    #[track_caller]
    fn bad(&self, line: &str) -> (i32, String) {
        let words: Vec<&str> = ["--json"].into_iter().chain(line.split_whitespace()).collect();
        let output = self.avfs(&words, "");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        (
            output.status.code().unwrap(),
            told["error"]["code"].as_str().unwrap_or_default().to_owned(),
        )
    }
}

#[test]
fn a_user_of_a_server_works_as_on_this_machine() {
    let (house, elsewhere) = (Sandbox::new(), Sandbox::new());
    let server = Server::start(&house, &[]);
    let user = User {
        house: &elsewhere,
        server: format!("http://{}", server.address),
        token: token(&house, "--scope admin"),
    };
    user.good("vault create web");
    user.good("write notes.txt first --vault web");
    assert_eq!(
        user.avfs(
            &["write", "-p", "src/big", "--vault", "web"],
            &"x".repeat(300_000)
        )
        .status
        .code(),
        Some(0)
    );
    assert_eq!(user.good("ls --vault web"), "notes.txt\nsrc\n");
    assert_eq!(user.good("cat notes.txt --vault web"), "first\n");
    assert_eq!(user.good("cat src/big --vault web").len(), 300_000);
    assert_eq!(user.good("grep -n fir --vault web"), "/notes.txt:1:first\n");
    assert_eq!(user.bad("rm src --vault web"), (2, "is-a-directory".to_owned()));
    let stale = user.bad("write notes.txt other --expect absent --vault web");
    assert_eq!(stale, (4, "stale-version".to_owned()));
    user.good("checkpoint save v1 --vault web");
    let id = user
        .good("sandbox create --from web --env WHO=me --expires 1h")
        .trim()
        .to_owned();
    let ran = user.avfs(
        &[
            "exec",
            "--vault",
            &id,
            "--stdin",
            "-c",
            "cat; echo $WHO; echo oops >&2; echo new >made; exit 3",
        ],
        "in\n",
    );
    assert_eq!(
        (ran.status.code(), ran.stdout, ran.stderr),
        (Some(3), b"in\nme\n".to_vec(), b"oops\n".to_vec())
    );
    let object = user.object(&format!("exec --vault {id} -- cat made"));
    assert_eq!(
        (&object["kind"], &object["stdout"]),
        (&json!("exec"), &json!("new\n"))
    );
    assert_eq!(user.good(&format!("diff --vault {id}")), "added     /made\n");
    assert!(user.good(&format!("diff --patch --vault {id}")).contains("+new"));
    assert!(user.good("tasks").contains(&id));
    assert!(user.good("log --vault web -n 1").contains("write"));
    assert!(user.good("audit --vault web").contains("notes.txt"));
    let forks = user.good(&format!("sandbox fork {id} --count 2"));
    assert_eq!(forks.lines().count(), 2);
    user.good(&format!("sandbox close {id}"));
    assert!(user.good(&format!("sandbox show {id}")).contains("state: idle"));
    user.good(&format!("sandbox delete {id} {}", forks.replace('\n', " ")));
    assert_eq!(user.good("sandbox list"), "");
    user.good("mv notes.txt moved.txt --vault web");
    user.good("checkpoint restore v1 --vault web");
    assert_eq!(user.good("cat notes.txt --vault web"), "first\n");
    user.good("rm -r src --vault web");
    user.good("vault delete web --yes");
    assert_eq!(user.bad("ls --vault web"), (3, "unknown-vault".to_owned()));
    // None of it was done here.
    assert!(!elsewhere.store().join("store.db").exists());
}

#[test]
fn a_person_answers_the_approvals_of_a_server() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let user = User {
        house: &house,
        server: format!("http://{}", server.address),
        token: token(&house, "--scope run,approve"),
    };
    let id = user
        .good("sandbox create --network example.com")
        .trim()
        .to_owned();
    let exec = format!("exec --vault {id} -- true");
    assert_eq!(user.bad(&exec), (121, "approval_required".to_owned()));
    let waiting = user.object("approvals list");
    let approval = waiting["approvals"][0]["id"].as_str().unwrap().to_owned();
    assert!(
        user.good(&format!("approvals show {approval}"))
            .contains("state: pending")
    );
    user.good(&format!("approvals allow {approval} --session"));
    assert_eq!(user.good("approvals list"), "");
    user.good(&exec);
}

#[test]
fn the_server_of_the_own_store_needs_no_name() {
    let house = Sandbox::new();
    assert_eq!(house.bad("sandbox list"), (5, "server-unreachable".to_owned()));
    let server = Server::start(&house, &[]);
    let id = house.good("sandbox create").trim().to_owned();
    assert!(house.good("sandbox list").contains(&id));
    let at_socket = format!("--server unix:{}", server.socket.display());
    assert!(house.good(&format!("{at_socket} tasks")).contains(&id));
    let line = format!("{at_socket} exec --vault {id} --timeout 1s -- sleep 1000");
    let timed = house.avfs().args(line.split_whitespace()).output().unwrap();
    assert_eq!(timed.status.code(), Some(124), "{}", house.show(&timed));
}

#[test]
fn unsupported_remote_command_is_not_executed_locally() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let url = format!("http://{}", server.address);
    for line in ["mount web here", "ls --at v1", "gc", "workspace list"] {
        assert_eq!(
            house.bad(&format!("--server {url} {line}")),
            (2, "not-on-server".to_owned()),
            "{line}"
        );
    }
    assert_eq!(
        house.bad(&format!("--server {url} ls --vault web")),
        (9, "unauthenticated".to_owned())
    );
    assert_eq!(
        house.bad(&format!("--server {url} ls")),
        (2, "no-vault".to_owned())
    );
    assert_eq!(house.bad("--server box ls"), (2, "bad-server".to_owned()));
    // The environment says nothing about commands for this machine.
    let mut command = house.avfs();
    command
        .env("AVFS_SERVER", "http://127.0.0.1:1")
        .args(["token", "list"]);
    let output = command.output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("AVFS_SERVER does not count here"), "{said}");
}
