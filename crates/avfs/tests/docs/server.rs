//! A web server at an address of this machine for which no proxy is bypassed. It replaces every host that
//! pages name.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

pub const HOST: &str = "127.0.0.2";

/// Starts it for as long as the test runs; returns its port.
pub fn start() -> u16 {
    let listener = TcpListener::bind((HOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            // A client that goes away is not an error.
            let _ = connection.and_then(answer);
        }
    });
    port
}

fn answer(mut connection: TcpStream) -> std::io::Result<()> {
    let request = BufReader::new(connection.try_clone()?);
    let _: Vec<String> = request
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n1,2\n")
}
