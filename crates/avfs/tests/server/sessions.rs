//! Shells that stay, and output that comes while a command runs.

use serde_json::json;

use crate::client::{Server, eventually, token};
use crate::sandbox::Sandbox;

#[test]
fn a_session_keeps_its_directory_and_variables_until_it_is_ended() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let sandbox = client.sandbox(&json!({}));
    let sessions = format!("{sandbox}/sessions");
    let made = client.post(&sessions, &json!({ "env": { "WHO": "me" } })).is(201);
    let place = made.header("location").unwrap().to_owned();
    assert_eq!(
        place,
        format!("{sessions}/{}", made.json()["id"].as_str().unwrap())
    );
    assert_eq!(made.json()["state"], "open");
    let run = |line: &str| {
        let ran = client
            .post(&format!("{place}/exec"), &json!({ "command": line }))
            .is(200)
            .json();
        ran["stdout"].as_str().unwrap().to_owned()
    };
    run("mkdir -p src && cd src && export MORE=x");
    assert_eq!(run("echo $WHO $MORE $(basename $PWD)"), "me x src\n");
    // Its files are those of the sandbox.
    run("echo made >file");
    assert_eq!(client.line(&sandbox, "cat src/file"), "made\n");
    let failed = client
        .post(
            &format!("{place}/exec"),
            &json!({ "command": "cat; exit 3", "stdin": "in" }),
        )
        .is(200)
        .json();
    assert_eq!(
        (&failed["exit_code"], &failed["stdout"]),
        (&json!(3), &json!("in"))
    );
    client.delete(&place).is(204);
    assert_eq!(client.get(&place).is(200).json()["state"], "ended");
    let late = client.post(&format!("{place}/exec"), &json!({ "command": "true" }));
    assert_eq!(late.problem(409), "session-closed");
    assert_eq!(
        client.get(&format!("{sessions}/none")).problem(404),
        "unknown-session"
    );
}

#[test]
fn a_session_is_told_as_ended_after_a_kill() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let sandbox = client.sandbox(&json!({}));
    let made = client.post(&format!("{sandbox}/sessions"), &json!({})).is(201);
    let place = made.header("location").unwrap().to_owned();
    server.kill();
    let server = Server::start(&house, &[]);
    let client = server.with(&key);
    assert_eq!(client.get(&place).is(200).json()["state"], "ended");
    let listed = client.get(&format!("{sandbox}/sessions")).is(200).json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    // With the sandbox, everything about it is gone.
    client.delete(&sandbox).is(204);
    assert_eq!(client.get(&place).problem(404), "unknown-sandbox");
}

#[test]
fn output_comes_while_a_command_runs_and_its_answer_at_the_end() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let sandbox = client.sandbox(&json!({}));
    let session = client.post(&format!("{sandbox}/sessions"), &json!({})).is(201);
    let session = session.header("location").unwrap().to_owned();
    for place in [&sandbox, &session] {
        let body = json!({ "command": "echo out; echo err >&2; exit 4" });
        let events = client.post_for_events(&format!("{place}/exec"), &body);
        let written: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
        assert!(
            written.contains(&"stdout") && written.contains(&"stderr"),
            "{events:?}"
        );
        let (name, end) = events.last().unwrap();
        assert_eq!(
            (name.as_str(), &end["exit_code"], &end["stdout"]),
            ("end", &json!(4), &json!("out\n"))
        );
    }
    let missing = client.post_for_events(
        &format!("{sandbox}/exec"),
        &json!({ "command": ["no-such-program"] }),
    );
    assert_eq!(missing.last().unwrap().1["exit_code"], 127, "{missing:?}");
}

#[test]
fn a_command_whose_reader_goes_away_is_killed() {
    use std::io::{Read, Write};

    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let sandbox = client.sandbox(&json!({}));
    let session = client.post(&format!("{sandbox}/sessions"), &json!({})).is(201);
    let session = session.header("location").unwrap().to_owned();
    for (place, file) in [(&sandbox, "one"), (&session, "two")] {
        let body = json!({ "command": format!("echo begun; sleep 1000; echo >{file}") }).to_string();
        let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
        let head = format!(
            "POST {place}/exec HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Accept: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut heard = Vec::new();
        while !heard.windows(5).any(|window| window == b"begun") {
            let mut buffer = [0; 1024];
            let count = stream.read(&mut buffer).unwrap();
            assert_ne!(count, 0);
            heard.extend_from_slice(&buffer[..count]);
        }
        drop(stream);
        eventually(|| client.line(&sandbox, "pgrep -x sleep | wc -l") == "0\n");
    }
}

#[test]
fn whatever_is_made_has_a_place_and_is_made_once() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope admin"));
    let sandbox = client.sandbox(&json!({}));
    for (number, (place, body)) in [
        ("/api/v1/sandboxes".to_owned(), json!({})),
        ("/api/v1/vaults".to_owned(), json!({ "name": "web" })),
        (format!("{sandbox}/checkpoints"), json!({ "name": "v1" })),
        (format!("{sandbox}/sessions"), json!({})),
        (format!("{sandbox}/processes"), json!({ "command": "sleep 1000" })),
    ]
    .into_iter()
    .enumerate()
    {
        let client = client.clone().header("Idempotency-Key", &format!("k-{number}"));
        let first = client.post(&place, &body).is(201);
        let location = first.header("location").unwrap().to_owned();
        assert!(location.starts_with(&place), "{location}");
        if !place.ends_with("checkpoints") {
            client.get(&location).is(200);
        }
        let again = client.post(&place, &body).is(201);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.header("location"), Some(location.as_str()));
        assert_eq!(again.json(), first.json());
    }
}
