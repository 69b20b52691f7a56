//! Clients over HTTP: who is let in.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::{PATIENCE, project};
use crate::sandbox::Sandbox;

struct Server {
    process: Child,
    address: String,
    token: String,
}

impl Server {
    fn start(sandbox: &Sandbox) -> Server {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("avfs"));
        command.env_clear().env("HOME", sandbox.path("home"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .current_dir(sandbox.path("project"))
            .args(["mcp", "--http", "127.0.0.1:0", "--json"]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let listening: Value = serde_json::from_str(&line).unwrap();
        let url = listening["url"].as_str().unwrap();
        let address = url
            .strip_prefix("http://")
            .and_then(|rest| rest.strip_suffix("/mcp"))
            .unwrap();
        Server {
            process,
            address: address.to_owned(),
            token: listening["token"].as_str().unwrap().to_owned(),
        }
    }

    /// Sends a request with these headers besides the usual ones, and returns the status and the body.
    fn post(&self, headers: &[(&str, &str)], body: &Value) -> (u16, String) {
        let body = body.to_string();
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nContent-Length: {}\r\nConnection: close\r\n",
            body.len()
        );
        request.push_str("Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
            .write_all(format!("{request}\r\n{body}").as_bytes())
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }

    fn hello(&self, headers: &[(&str, &str)]) -> (u16, String) {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
            },
        });
        self.post(headers, &body)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let process = rustix::process::Pid::from_raw(self.process.id().cast_signed()).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn only_a_client_with_the_token_is_answered() {
    let sandbox = project();
    let server = Server::start(&sandbox);
    let bearer = format!("Bearer {}", server.token);
    let (status, body) = server.hello(&[("Authorization", &bearer)]);
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"agentvfs\""), "{body}");
    assert_eq!(server.hello(&[]).0, 401);
    assert_eq!(server.hello(&[("Authorization", "Bearer ")]).0, 401);
    assert_eq!(server.hello(&[("Authorization", &format!("{bearer}0"))]).0, 401);
    assert_eq!(server.hello(&[("Authorization", &server.token)]).0, 401);
}

#[test]
fn a_web_page_is_refused_even_with_the_token() {
    let sandbox = project();
    let server = Server::start(&sandbox);
    let bearer = format!("Bearer {}", server.token);
    let port = server.address.rsplit(':').next().unwrap();
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "127.0.0.1:1".to_owned(),
    ] {
        let (status, body) = server.hello(&[("Authorization", &bearer), ("Host", &host)]);
        assert_eq!(status, 403, "{host}: {body}");
    }
    for origin in ["http://evil.example", "null", "http://localhost:3000"] {
        let (status, body) = server.hello(&[("Authorization", &bearer), ("Origin", origin)]);
        assert_eq!(status, 403, "{origin}: {body}");
    }
    let local = format!("localhost:{port}");
    assert_eq!(
        server.hello(&[("Authorization", &bearer), ("Host", &local)]).0,
        200
    );
}

#[test]
fn tools_are_called_without_a_session_by_newer_clients() {
    let sandbox = project();
    let server = Server::start(&sandbox);
    let bearer = format!("Bearer {}", server.token);
    let call = |line: &str| {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {
                "name": "exec", "arguments": { "command": line },
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        });
        let headers = [
            ("Authorization", bearer.as_str()),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "exec"),
        ];
        server.post(&headers, &body)
    };
    let (status, body) = call("echo one >>log; cat log");
    assert_eq!(status, 200, "{body}");
    // The workspace is the same for every request.
    let (_, body) = call("echo two >>log; cat log");
    assert!(body.contains(r#""stdout":"one\ntwo\n""#), "{body}");
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let sandbox = project();
    assert_eq!(sandbox.bad("mcp --http 0.0.0.0:0"), (2, "cannot-listen".into()));
}
