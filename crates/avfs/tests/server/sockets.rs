//! A process over a WebSocket, by a client that frames its messages by hand.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::client::{PATIENCE, Server, token};
use crate::sandbox::Sandbox;

struct Socket(TcpStream);

impl Socket {
    fn open(server: &Server, key: &str, path: &str) -> Socket {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            server.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        let answer = String::from_utf8(answer).unwrap().to_lowercase();
        // The answer to this key, from the specification of the protocol.
        assert!(
            answer.starts_with("http/1.1 101") && answer.contains("s3pplmbitxaq9kygzzhzrbk+xoo="),
            "{answer}"
        );
        Socket(stream)
    }

    /// Sends a message of a kind: 1 is text, 2 bytes.
    fn send(&mut self, kind: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | kind, 0x80 | u8::try_from(payload.len()).unwrap()];
        let mask = [1, 2, 3, 4];
        frame.extend_from_slice(&mask);
        frame.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        self.0.write_all(&frame).unwrap();
    }

    /// The next event.
    fn event(&mut self) -> Value {
        loop {
            let mut head = [0; 2];
            self.0.read_exact(&mut head).unwrap();
            let mut length = u64::from(head[1]);
            if length == 126 {
                let mut long = [0; 2];
                self.0.read_exact(&mut long).unwrap();
                length = u64::from(u16::from_be_bytes(long));
            }
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).unwrap();
            if head[0] & 0x0f == 1 {
                return serde_json::from_slice(&payload).unwrap();
            }
        }
    }

    /// The text of a stream, up to one that has these words.
    fn hear(&mut self, words: &str) -> String {
        let mut text = String::new();
        while !text.contains(words) {
            let event = self.event();
            assert_eq!(event["event"], "stdout", "{event}");
            text.push_str(event["text"].as_str().unwrap());
        }
        text
    }
}

#[test]
fn a_process_is_heard_and_spoken_to_on_one_connection() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let sandbox = client.sandbox(&json!({}));
    let body = json!({ "command": "while read line; do echo \"<$line>\"; done; exit 5", "stdin": true });
    let started = client.post(&format!("{sandbox}/processes"), &body).is(201);
    let place = format!("{}/socket", started.header("location").unwrap());
    let mut socket = Socket::open(&server, &key, &place);
    socket.send(1, br#"{"stdin": "one\n"}"#);
    assert_eq!(socket.hear("<one>\n"), "<one>\n");
    socket.send(2, b"two\n");
    socket.hear("<two>\n");
    socket.send(1, br#"{"shout": "three"}"#);
    assert_eq!(socket.event()["event"], "error");
    // Another one hears what was written before.
    let mut late = Socket::open(&server, &key, &place);
    late.hear("<two>\n");
    socket.send(1, br#""close_stdin""#);
    let end = socket.event();
    assert_eq!((&end["event"], &end["exit_code"]), (&json!("end"), &json!(5)));
    assert_eq!(late.event()["event"], "end");
    let body = json!({ "command": "stty size; sleep 1000", "terminal": { "rows": 20, "columns": 60 } });
    let started = client.post(&format!("{sandbox}/processes"), &body).is(201);
    let place = format!("{}/socket", started.header("location").unwrap());
    let mut terminal = Socket::open(&server, &key, &place);
    terminal.hear("20 60");
    terminal.send(1, br#"{"signal": 9}"#);
    while terminal.event()["event"] != "end" {}
}

#[test]
fn attach_needs_permission_to_run_commands_and_a_socket() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let sandbox = client.sandbox(&json!({}));
    let started = client
        .post(
            &format!("{sandbox}/processes"),
            &json!({ "command": "sleep 1000" }),
        )
        .is(201);
    let place = format!("{}/socket", started.header("location").unwrap());
    assert_eq!(client.get(&place).problem(426), "not-a-socket");
    let reader = server.with(&token(&house, "--scope read"));
    assert_eq!(reader.get(&place).problem(403), "missing-scope");
    // A page of another server is not let in, whatever its browser sends along.
    let page = client.clone().header("Origin", "http://evil.example");
    assert_eq!(page.get(&place).problem(403), "wrong-origin");
}
