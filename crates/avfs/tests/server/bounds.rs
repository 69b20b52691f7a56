//! What one client can make the server hold has an end.

use serde_json::{Value, json};

use crate::client::{Client, Server, eventually, token};
use crate::sandbox::Sandbox;

/// Memory that is the server's own, in KiB.
fn own_memory(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.worker())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.unwrap().trim().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn of_processes_that_have_ended_so_much_is_kept() {
    const PROCESSES: usize = 60;
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let path = client.sandbox(&json!({}));
    client.line(&path, "true");
    let before = own_memory(&server);
    let mut last = Value::Null;
    for _ in 0..PROCESSES {
        let body = json!({ "command": "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2" });
        let started = client.post(&format!("{path}/processes"), &body).is(201).json();
        last = started["id"].clone();
        let process = format!("{path}/processes/{}?wait_seconds=300", last.as_str().unwrap());
        assert_eq!(client.get(&process).is(200).json()["exit_code"], 0);
    }
    let kept = || client.get(&format!("{path}/processes")).is(200).json()["processes"].clone();
    eventually(|| kept().as_array().unwrap().len() < PROCESSES);
    assert!(
        kept()
            .as_array()
            .unwrap()
            .iter()
            .any(|process| process["id"] == last)
    );
    let more = own_memory(&server).saturating_sub(before);
    assert!(more < 160 << 10, "{more} KiB");
}

#[test]
fn last_place_is_given_to_exactly_one_client() {
    let house = Sandbox::new();
    let server = Server::start(&house, &["--max-sandboxes", "3"]);
    let client = server.with(&token(&house, "--scope run"));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..12)
            .map(|_| scope.spawn(|| client.post("/api/v1/sandboxes", &json!({})).status))
            .collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(
        statuses.iter().filter(|status| **status == 201).count(),
        3,
        "{statuses:?}"
    );
    assert!(
        statuses.iter().all(|status| matches!(status, 201 | 429)),
        "{statuses:?}"
    );
    let all = client.get("/api/v1/sandboxes").is(200).json();
    let first = all["sandboxes"][0]["id"].as_str().unwrap();
    client.delete(&format!("/api/v1/sandboxes/{first}")).is(204);
    client.sandbox(&json!({}));
}

#[test]
fn metadata_and_environment_of_a_sandbox_have_limits() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let large = json!({ "metadata": { "a": "x".repeat(100_000) } });
    assert_eq!(client.post("/api/v1/sandboxes", &large).problem(400), "invalid");
    let many: serde_json::Map<String, Value> = (0..20_000)
        .map(|number| (format!("NAME_{number}"), json!("x")))
        .collect();
    assert_eq!(
        client
            .post("/api/v1/sandboxes", &json!({ "env": many }))
            .problem(400),
        "invalid"
    );
    client.sandbox(&json!({ "metadata": { "a": "x".repeat(10_000) } }));
}

/// A client of E2B's interface, in a sandbox of its own.
fn inside<'a>(server: &'a Server, client: &Client<'_>) -> Client<'a> {
    let made = client
        .post("/sandboxes", &json!({ "templateID": "base" }))
        .is(201)
        .json();
    server
        .open()
        .header("X-Access-Token", made["envdAccessToken"].as_str().unwrap())
        .header("E2b-Sandbox-Id", made["sandboxID"].as_str().unwrap())
}

#[test]
fn a_form_with_many_files_takes_one_open_file() {
    const FILES: usize = 3000;
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let inside = inside(&server, &client);
    let part = |name: String, text: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{text}\r\n")
    };
    let form = |count: usize| {
        let parts: String = (0..count)
            .map(|number| part(format!("f{number}"), &number.to_string()))
            .collect();
        format!("{parts}--b--\r\n")
    };
    let send = |body: String| {
        let head = format!(
            "POST /files HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n{}",
            body.len(),
            inside.all_headers()
        );
        inside.raw(&head, body.as_bytes())
    };
    assert_eq!(send(form(20_000)).status, 400);
    // A part that is no good spoils the others: nothing of the form is written.
    let spoiled = form(5).replace("--b--", "") + &part("/etc/passwd".to_owned(), "x") + "--b--\r\n";
    assert_eq!(send(spoiled).status, 400);
    inside.get("/files?path=f1").is(404);
    let limit = std::fs::read_to_string(format!("/proc/{}/limits", server.worker())).unwrap();
    let limit = limit
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let words: Vec<&str> = limit.split_whitespace().collect();
    assert_eq!(
        words[3], words[4],
        "it may have as many as the machine allows: {limit}"
    );
    let written = send(form(30)).is(200).json();
    assert_eq!(written.as_array().unwrap().len(), 30);
    assert_eq!(inside.get("/files?path=f29").is(200).body, b"29");
    // So many open files at the same time would be more than some machines allow in all.
    let most = std::sync::atomic::AtomicUsize::new(0);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    use std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let place = format!("/proc/{}/fd", server.worker());
                most.fetch_max(std::fs::read_dir(place).unwrap().count(), Relaxed);
            }
        });
        let body = form(FILES).replace("--b--\r\n", "--b\r\nX: y\r\n\r\n");
        assert_eq!(send(body).status, 400);
        is_over.store(true, Relaxed);
    });
    assert!(most.load(Relaxed) < 500, "{most:?} open files");
}
