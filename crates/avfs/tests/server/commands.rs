//! Sandboxes, and what runs in them.

use serde_json::{Value, json};

use crate::client::{Server, eventually, token};
use crate::sandbox::Sandbox;

#[test]
fn a_sandbox_is_made_used_and_deleted() {
    let house = Sandbox::with_files();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let made = client
        .post(
            "/api/v1/sandboxes",
            &json!({ "vault": "web", "metadata": { "job": "7" } }),
        )
        .is(201)
        .json();
    assert_eq!(made["parent"], "web");
    assert_eq!(made["state"], "idle");
    let path = format!("/api/v1/sandboxes/{}", made["id"].as_str().unwrap());
    assert_eq!(
        client.line(&path, "cat notes.txt && echo new >notes.txt"),
        "first\n"
    );
    assert_eq!(client.get(&path).is(200).json()["state"], "open");
    let ran = client.post(
        &format!("{path}/exec"),
        &json!({ "command": ["sh", "-c", "cat; echo e >&2; exit 3"], "stdin": "in" }),
    );
    let ran = ran.is(200).json();
    assert_eq!(
        (&ran["exit_code"], &ran["stdout"], &ran["stderr"]),
        (&json!(3), &json!("in"), &json!("e\n"))
    );
    assert_eq!(ran["success"], false);
    let diff = client.get(&format!("{path}/diff")).is(200).json();
    assert_eq!(diff["changes"][0]["path"], "/notes.txt", "{diff}");
    // The vault that it came from is as it was.
    assert_eq!(house.good("--vault web cat notes.txt"), "first\n");
    client.delete(&path).is(204);
    assert_eq!(client.get(&path).problem(404), "unknown-sandbox");
    assert!(!house.good("vault list").contains("sandbox-"));
}

#[test]
fn a_process_is_heard_fed_and_killed() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let path = client.sandbox(&json!({}));
    let line = "echo begun; while read word; do echo got $word; done; echo over";
    let started = client
        .post(
            &format!("{path}/processes"),
            &json!({ "command": line, "stdin": true }),
        )
        .is(201)
        .json();
    assert_eq!(started["running"], true);
    let process = format!("{path}/processes/{}", started["id"].as_str().unwrap());
    let send = |text: &str, close: bool| {
        let head = format!(
            "POST {process}/stdin?close={close} HTTP/1.1\r\nContent-Length: {}\r\n",
            text.len()
        );
        client
            .raw(&format!("{head}{}", client.authorization()), text.as_bytes())
            .is(204);
    };
    send("one\n", false);
    send("two\n", true);
    let events = client.follow(&format!("{process}/output"), "", "end");
    let text: String = events
        .iter()
        .filter_map(|(_, data)| data["text"].as_str())
        .collect();
    assert_eq!(text, "begun\ngot one\ngot two\nover\n");
    assert_eq!(events.last().unwrap().1["exit_code"], 0);
    // A listener that was cut off goes on where it was.
    let rest = client.follow(&format!("{process}/output"), "Last-Event-ID: 1\r\n", "end");
    assert_eq!(rest.len(), events.len() - 1);

    let sleeping = client
        .post(&format!("{path}/processes"), &json!({ "command": "sleep 1000" }))
        .is(201)
        .json();
    let sleeping = format!("{path}/processes/{}", sleeping["id"].as_str().unwrap());
    client
        .post(&format!("{sleeping}/signal"), &json!({ "signal": 15 }))
        .is(204);
    let ended = client.get(&format!("{sleeping}?wait_seconds=100")).is(200).json();
    assert_eq!(
        (&ended["running"], &ended["signal"]),
        (&json!(false), &json!(15)),
        "{ended}"
    );
    assert_eq!(
        client
            .post(&format!("{sleeping}/signal"), &json!({ "signal": 15 }))
            .problem(409),
        "process-ended"
    );
    assert_eq!(
        client.get(&format!("{path}/processes/none")).problem(404),
        "unknown-process"
    );
    let missing = client.post(
        &format!("{path}/processes"),
        &json!({ "command": ["no-such-program"] }),
    );
    assert_eq!(missing.problem(409), "not-started");
}

#[test]
fn a_terminal_has_the_size_that_it_is_given() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let path = client.sandbox(&json!({}));
    let asked =
        json!({ "command": "stty size; read x; stty size", "terminal": { "rows": 31, "columns": 97 } });
    let started = client.post(&format!("{path}/processes"), &asked).is(201).json();
    let process = format!("{path}/processes/{}", started["id"].as_str().unwrap());
    client.follow(&format!("{process}/output"), "", "stdout");
    client
        .post(
            &format!("{process}/resize"),
            &json!({ "rows": 10, "columns": 20 }),
        )
        .is(204);
    let head = format!("POST {process}/stdin HTTP/1.1\r\nContent-Length: 1\r\n");
    client
        .raw(&format!("{head}{}", client.authorization()), b"\n")
        .is(204);
    let events = client.follow(&format!("{process}/output"), "", "end");
    let text: String = events
        .iter()
        .filter_map(|(_, data)| data["text"].as_str())
        .collect();
    assert!(text.contains("31 97") && text.contains("10 20"), "{text:?}");
}

#[test]
fn a_command_whose_client_goes_away_is_killed() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let path = client.sandbox(&json!({}));
    let id = path.rsplit('/').next().unwrap();
    let running = || {
        server
            .operator()
            .get(&format!("/api/v1/sandboxes/{id}"))
            .is(200)
            .json()["running"]
            .clone()
    };
    std::thread::scope(|scope| {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
        let body = json!({ "command": "sleep 1000" }).to_string();
        let key = token(&house, "--scope run");
        let head = format!(
            "POST {path}/exec HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        scope
            .spawn(|| eventually(|| running() == json!(1)))
            .join()
            .unwrap();
        drop(stream);
    });
    eventually(|| running() == json!(0));
}

#[test]
fn forks_start_with_the_present_files_and_go_their_own_way() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let path = client.sandbox(&json!({}));
    client.line(&path, "echo one >file");
    let forks = client
        .post(&format!("{path}/forks"), &json!({ "count": 3 }))
        .is(201)
        .json();
    let forks = forks["sandboxes"].as_array().unwrap().clone();
    assert_eq!(forks.len(), 3);
    let fork = format!("/api/v1/sandboxes/{}", forks[0]["id"].as_str().unwrap());
    assert_eq!(forks[0]["parent"].as_str(), path.rsplit('/').next());
    assert_eq!(client.line(&fork, "cat file; echo two >file"), "one\n");
    assert_eq!(client.line(&path, "cat file"), "one\n");
    assert_eq!(
        client
            .post(&format!("{path}/forks"), &json!({ "count": 101 }))
            .problem(400),
        "invalid"
    );
}

#[test]
fn a_list_has_pages_and_finds_metadata() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    for number in 0..5 {
        client.sandbox(&json!({ "metadata": { "odd": (number % 2).to_string() } }));
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = client
            .get(&format!("/api/v1/sandboxes?limit=2{cursor}"))
            .is(200)
            .json();
        seen.extend(
            page["sandboxes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["id"].clone()),
        );
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let mut once = seen.clone();
    once.sort_by_key(Value::to_string);
    once.dedup();
    assert_eq!((seen.len(), once.len()), (5, 5));
    let odd = client.get("/api/v1/sandboxes?metadata=odd%3D1").is(200).json();
    assert_eq!(odd["sandboxes"].as_array().unwrap().len(), 2);
    assert_eq!(
        client.get("/api/v1/sandboxes?cursor=nonsense").problem(400),
        "invalid"
    );
}

#[test]
fn a_command_that_needs_an_approval_runs_after_it() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let asked = client
        .post("/api/v1/sandboxes", &json!({ "network": ["example.com"] }))
        .is(201)
        .json();
    let path = format!("/api/v1/sandboxes/{}", asked["id"].as_str().unwrap());
    let refused = client
        .post(&format!("{path}/exec"), &json!({ "command": "true" }))
        .is(403)
        .json();
    assert_eq!(refused["code"], "approval_required", "{refused}");
    let id = refused["approval"].as_str().unwrap().to_owned();
    let answer = format!("/api/v1/approvals/{id}/answer");
    assert_eq!(
        client.post(&answer, &json!({ "answer": "once" })).problem(403),
        "missing-scope"
    );
    let person = server.with(&token(&house, "--scope approve"));
    let shown = person.get(&format!("/api/v1/approvals/{id}")).is(200).json();
    assert_eq!(shown["state"], "pending");
    assert_eq!(
        person.post(&answer, &json!({ "answer": "once" })).is(200).json()["state"],
        "allowed"
    );
    client.line(&path, "true");
}
