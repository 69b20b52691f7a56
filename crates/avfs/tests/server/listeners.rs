//! Many clients that hear the same process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::client::{PATIENCE, Server, token};
use crate::sandbox::Sandbox;

const LISTENERS: usize = 1000;

/// This process holds one end of every connection.
fn allow_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, most).unwrap();
}

fn threads(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", server.worker()))
        .unwrap()
        .count()
}

/// Memory that is the server's own, in KiB.
fn own_memory(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.worker())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.unwrap().trim().split(' ').next().unwrap().parse().unwrap()
}

/// Reads until a line has this text.
fn hear(listener: &mut BufReader<TcpStream>, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert_ne!(
            listener.read_line(&mut line).unwrap(),
            0,
            "the stream ended before '{text}'"
        );
    }
}

#[test]
fn a_thousand_clients_hear_a_process_and_take_up_neither_threads_nor_much_memory() {
    allow_files();
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let path = client.sandbox(&json!({}));
    let asked = json!({ "command": "while read line; do echo heard $line; done; exit 7", "stdin": true });
    let started = client.post(&format!("{path}/processes"), &asked).is(201).json();
    let process = format!("{path}/processes/{}", started["id"].as_str().unwrap());
    let (threads_before, memory_before) = (threads(&server), own_memory(&server));
    let head = format!(
        "GET {process}/output HTTP/1.1\r\nHost: {}\r\n{}\r\n",
        server.address,
        client.all_headers()
    );
    let mut listeners: Vec<BufReader<TcpStream>> = (0..LISTENERS)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            BufReader::with_capacity(1024, stream)
        })
        .collect();
    for listener in &mut listeners {
        let mut status = [0; 12];
        listener.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    // All of them hear each line as it comes.
    for word in ["first", "second"] {
        let line = format!("{word}\n");
        let kind = client.clone().header("Content-Type", "application/octet-stream");
        let write = format!(
            "POST {process}/stdin HTTP/1.1\r\nContent-Length: {}\r\n{}",
            line.len(),
            kind.all_headers()
        );
        client.raw(&write, line.as_bytes()).is(204);
        for listener in &mut listeners {
            hear(listener, &format!("heard {word}"));
        }
    }
    // Threads that wait for the library are shared by all requests, and few of these were made at a time.
    let more_threads = threads(&server).saturating_sub(threads_before);
    assert!(more_threads < 64, "{more_threads} threads");
    let more = own_memory(&server).saturating_sub(memory_before);
    assert!(more < 96 << 10, "{more} KiB for {LISTENERS} listeners");
    // Others are served meanwhile.
    assert_eq!(client.line(&path, "echo other"), "other\n");
    let end = format!(
        "POST {process}/stdin?close=true HTTP/1.1\r\nContent-Length: 0\r\n{}",
        client.all_headers()
    );
    client.raw(&end, b"").is(204);
    for listener in &mut listeners {
        hear(listener, "event: end");
        hear(listener, "\"exit_code\":7");
    }
}
