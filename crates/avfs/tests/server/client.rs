//! A server, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// How long an answer may take on a machine that has much to do.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Server {
    process: Child,
    worker: i32,
    pub address: String,
    pub socket: PathBuf,
    /// What it said when it began to listen.
    pub listening: Value,
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self}"))
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub fn is(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{self}");
        self
    }

    /// The code of a problem with this status.
    #[track_caller]
    pub fn problem(self, status: u16) -> String {
        assert_eq!(self.status, status, "{self}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self}"
        );
        let body = self.json();
        assert_eq!(body["status"], status);
        body["code"].as_str().unwrap().to_owned()
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {:?}\n{}",
            self.status,
            self.headers,
            String::from_utf8_lossy(&self.body)
        )
    }
}

impl Server {
    /// Starts a server on the store of a sandbox and waits until it is ready.
    pub fn start(sandbox: &Sandbox, words: &[&str]) -> Server {
        Server::start_in(sandbox, words, &[])
    }

    /// The same, with variables.
    pub fn start_in(sandbox: &Sandbox, words: &[&str], env: &[(&str, &str)]) -> Server {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(sandbox.path("log"))
            .unwrap();
        Server::start_logging(sandbox, words, env, log.into())
    }

    /// The same, with another place for its log.
    pub fn start_logging(sandbox: &Sandbox, words: &[&str], env: &[(&str, &str)], log: Stdio) -> Server {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("avfs"));
        command.env_clear().env("HOME", sandbox.path("home"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(env.iter().copied());
        command
            .current_dir(sandbox.path("project"))
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(words);
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let listening: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("{line}{}", std::fs::read_to_string(sandbox.path("log")).unwrap()));
        let url = listening["url"].as_str().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", process.id());
        let children = std::fs::read_to_string(children).unwrap();
        let server = Server {
            process,
            worker: children.split_whitespace().next().unwrap().parse().unwrap(),
            address: url.split_once("://").unwrap().1.to_owned(),
            socket: listening["socket"].as_str().unwrap().into(),
            listening,
        };
        eventually(|| server.operator().get("/readyz").status == 200);
        server
    }

    /// Requests over TCP, without a token.
    pub fn open(&self) -> Client<'_> {
        Client {
            server: self,
            headers: Vec::new(),
            over_socket: false,
        }
    }

    /// Requests over TCP, with a token.
    pub fn with(&self, token: &str) -> Client<'_> {
        self.open().header("Authorization", &format!("Bearer {token}"))
    }

    /// Requests over the Unix socket, by the user who runs the server.
    pub fn operator(&self) -> Client<'_> {
        Client {
            over_socket: true,
            ..self.open()
        }
    }

    /// The process that does the work; this one only waits for it.
    pub fn worker(&self) -> i32 {
        self.worker
    }

    /// Kills the server in the middle of what it does.
    pub fn kill(mut self) {
        self.kill_worker();
        self.process.wait().unwrap();
    }

    /// Kills it while clients are talking to it.
    pub fn kill_worker(&self) {
        let worker = rustix::process::Pid::from_raw(self.worker).unwrap();
        rustix::process::kill_process(worker, rustix::process::Signal::KILL).unwrap();
    }

    /// Asks the server to end, and waits until it has.
    pub fn end(mut self) -> i32 {
        let front = rustix::process::Pid::from_raw(self.process.id().cast_signed()).unwrap();
        rustix::process::kill_process(front, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process.try_wait().unwrap().is_none() {
            let front = rustix::process::Pid::from_raw(self.process.id().cast_signed()).unwrap();
            rustix::process::kill_process(front, rustix::process::Signal::TERM).unwrap();
            self.process.wait().unwrap();
        }
    }
}

/// Who asks, and over which way.
#[derive(Clone)]
pub struct Client<'a> {
    server: &'a Server,
    headers: Vec<(String, String)>,
    over_socket: bool,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client<'_> {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let kind = ("Content-Type", "application/json");
        self.ask("POST", path, &[kind], body.to_string().as_bytes())
    }

    /// The same for a client that accepts events; all of them, up to the end.
    pub fn post_for_events(&self, path: &str, body: &Value) -> Vec<(String, Value)> {
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "text/event-stream"),
        ];
        let answer = self
            .ask("POST", path, &headers, body.to_string().as_bytes())
            .is(200);
        let text = String::from_utf8(answer.body).unwrap();
        let mut events = Vec::new();
        let mut name = "";
        for line in text.lines() {
            if let Some(event) = line.strip_prefix("event: ") {
                name = event;
            } else if let Some(data) = line.strip_prefix("data: ") {
                events.push((name.to_owned(), serde_json::from_str(data).unwrap()));
            }
        }
        events
    }

    pub fn put(&self, path: &str, body: &[u8]) -> Answer {
        self.ask("PUT", path, &[], body)
    }

    /// Asks a server that may be killed meanwhile; nothing, if the answer is not whole.
    pub fn attempt(&self, method: &str, path: &str, body: &[u8]) -> Option<Answer> {
        let mut stream = TcpStream::connect(&self.server.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n",
            self.server.address,
            self.all_headers(),
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
        let mut whole = Vec::new();
        stream.read_to_end(&mut whole).ok()?;
        let answer = read_answer(&whole[..]);
        let length = answer
            .header("content-length")
            .and_then(|length| length.parse().ok());
        (length == Some(answer.body.len()) || answer.status == 204).then_some(answer)
    }

    /// Makes a sandbox and returns its path.
    #[track_caller]
    pub fn sandbox(&self, body: &Value) -> String {
        let made = self.post("/api/v1/sandboxes", body).is(201).json();
        format!("/api/v1/sandboxes/{}", made["id"].as_str().unwrap())
    }

    /// Runs a line in a sandbox and returns what it wrote.
    #[track_caller]
    pub fn line(&self, sandbox: &str, line: &str) -> String {
        let ran = self
            .post(&format!("{sandbox}/exec"), &json!({ "command": line }))
            .is(200)
            .json();
        assert_eq!(ran["exit_code"], 0, "{ran}");
        ran["stdout"].as_str().unwrap().to_owned()
    }

    /// All headers that its requests have, for a request that is written by hand.
    pub fn all_headers(&self) -> String {
        let lines = self
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"));
        lines.collect()
    }

    /// The header with the token, for a request that is written by hand.
    pub fn authorization(&self) -> String {
        let found = self.headers.iter().find(|(name, _)| name == "Authorization");
        found
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .unwrap_or_default()
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        let own = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(headers.iter().copied()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.raw(&head, body)
    }

    /// Sends the head of a request, with `Host` and `Connection` if it does not have them, and a body.
    pub fn raw(&self, head: &str, body: &[u8]) -> Answer {
        let mut head = head.to_owned();
        if !head.contains("\r\nHost:") {
            head.push_str(&format!("Host: {}\r\n", self.server.address));
        }
        if !head.contains("\r\nConnection:") {
            head.push_str("Connection: close\r\n");
        }
        let mut stream = self.connect();
        let _ = stream.write_all(format!("{head}\r\n").as_bytes());
        // A server that has refused the request may not take its body in.
        let _ = stream.write_all(body);
        read_answer(stream)
    }

    /// Follows a stream of events until one of them has this name, and returns all.
    pub fn follow(&self, path: &str, headers: &str, last: &str) -> Vec<(String, Value)> {
        let mut head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}",
            self.server.address
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = self.connect();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let mut events = Vec::new();
        let mut name = String::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                events.push((name.clone(), serde_json::from_str(data).unwrap()));
                if name == last {
                    return events;
                }
            }
        }
        panic!("the stream ended without `{last}`: {events:?}");
    }

    fn connect(&self) -> Stream {
        if self.over_socket {
            let stream = UnixStream::connect(&self.server.socket).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            return Stream::Unix(stream);
        }
        let stream = TcpStream::connect(&self.server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Stream::Tcp(stream)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub fn read_answer(stream: impl Read) -> Answer {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut body = Vec::new();
    // A connection that breaks off has sent what there was.
    let _ = reader.read_to_end(&mut body);
    let answer = Answer {
        status: status.unwrap_or(0),
        headers,
        body,
    };
    if answer.header("transfer-encoding") == Some("chunked") {
        return Answer {
            body: whole(&answer.body),
            ..answer
        };
    }
    answer
}

/// The body of an answer that was sent in chunks.
fn whole(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = chunks.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&chunks[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        chunks = &chunks[end + 2..];
        let size = size.min(chunks.len());
        body.extend_from_slice(&chunks[..size]);
        chunks = chunks.get(size + 2..).unwrap_or_default();
    }
    body
}

/// Makes a token and returns its text.
pub fn token(sandbox: &Sandbox, words: &str) -> String {
    sandbox.good(&format!("token create {words}")).trim().to_owned()
}

/// Waits until something is so.
#[track_caller]
pub fn eventually(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "it does not come to be so");
        std::thread::sleep(Duration::from_millis(20));
    }
}
