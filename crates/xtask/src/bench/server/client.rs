//! A server of its own, and connections to it that are kept open.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A server with an empty store.
pub struct Site {
    process: Child,
    address: String,
    token: String,
}

impl Site {
    /// Starts one with these words in addition.
    pub fn start(avfs: &Path, place: &Path, words: &[&str]) -> Result<Site> {
        std::fs::create_dir_all(place)?;
        let command = || {
            let mut command = Command::new(avfs);
            command
                .env("AVFS_HOME", place.join("store"))
                .env("XDG_CONFIG_HOME", "/nonexistent");
            command
        };
        let token = command().args(["token", "create", "--scope", "admin"]).output()?;
        ensure!(
            token.status.success(),
            "no token: {}",
            String::from_utf8_lossy(&token.stderr)
        );
        let log = std::fs::File::create(place.join("log"))?;
        let mut process = command()
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", avfs.display()))?;
        let mut line = String::new();
        let output = process.stdout.take().context("the output is a pipe")?;
        BufReader::new(output).read_line(&mut line)?;
        let told: Value = serde_json::from_str(&line).with_context(|| format!("the server says {line:?}"))?;
        let url = told["url"].as_str().unwrap_or_default();
        let site = Site {
            process,
            address: url.trim_start_matches("http://").to_owned(),
            token: String::from_utf8(token.stdout)?.trim().to_owned(),
        };
        while site.connect()?.ask("GET", "/readyz", b"")?.status != 200 {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(site)
    }

    pub fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head = format!(
            "Host: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
            self.address, self.token
        );
        let reader = BufReader::new(stream.try_clone()?);
        Ok(Connection { stream, reader, head })
    }

    /// The process that waits for the one that works.
    pub fn front(&self) -> u32 {
        self.process.id()
    }

    /// The process that works.
    pub fn worker(&self) -> Result<u32> {
        let front = self.front();
        let children = std::fs::read_to_string(format!("/proc/{front}/task/{front}/children"))?;
        let child = children
            .split_whitespace()
            .next()
            .context("the server has no worker")?;
        Ok(child.parse()?)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        // It ends all sandboxes, and says nothing more then.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.process.wait();
    }
}

pub struct Connection {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    head: String,
}

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

impl Connection {
    pub fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n",
            self.head,
            body.len()
        );
        self.stream.write_all(&[head.as_bytes(), body].concat())?;
        self.answer()
    }

    /// Asks for what must succeed.
    pub fn good(&mut self, method: &str, path: &str, body: &str) -> Result<Answer> {
        let answer = self.ask(method, path, body.as_bytes())?;
        let text = || String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(
            answer.status < 300,
            "{method} {path}: {} {}",
            answer.status,
            text()
        );
        Ok(answer)
    }

    /// Makes a sandbox and returns its path.
    pub fn sandbox(&mut self) -> Result<String> {
        let made = self.good("POST", "/api/v1/sandboxes", "{}")?.json()?;
        let id = made["id"].as_str().context("a sandbox has an id")?;
        Ok(format!("/api/v1/sandboxes/{id}"))
    }

    /// Runs a line that must succeed.
    pub fn line(&mut self, sandbox: &str, line: &str) -> Result<()> {
        let body = serde_json::json!({ "command": line }).to_string();
        let ran = self.good("POST", &format!("{sandbox}/exec"), &body)?.json()?;
        ensure!(ran["exit_code"] == 0, "{line}: {ran}");
        Ok(())
    }

    /// Uploads a file of so many pieces, each written by `piece`.
    pub fn upload(&mut self, path: &str, bytes: u64, mut piece: impl FnMut() -> Vec<u8>) -> Result<()> {
        let head = format!(
            "PUT {path} HTTP/1.1\r\n{}Content-Length: {bytes}\r\n\r\n",
            self.head
        );
        self.stream.write_all(head.as_bytes())?;
        let mut left = bytes;
        while left > 0 {
            let mut next = piece();
            next.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            self.stream.write_all(&next)?;
            left -= next.len() as u64;
        }
        let answer = self.answer()?;
        ensure!(
            answer.status == 200,
            "the upload: {}",
            String::from_utf8_lossy(&answer.body)
        );
        Ok(())
    }

    /// Downloads a file and returns how many bytes came.
    pub fn download(&mut self, path: &str) -> Result<u64> {
        self.stream
            .write_all(format!("GET {path} HTTP/1.1\r\n{}\r\n", self.head).as_bytes())?;
        let (status, length) = self.head()?;
        ensure!(status == 200, "the download: {status}");
        let length = length.context("a file has a length")?;
        Ok(std::io::copy(
            &mut (&mut self.reader).take(length),
            &mut std::io::sink(),
        )?)
    }

    /// Begins to follow a stream of events.
    pub fn follow(mut self, path: &str) -> Result<BufReader<TcpStream>> {
        self.stream
            .write_all(format!("GET {path} HTTP/1.1\r\n{}\r\n", self.head).as_bytes())?;
        let (status, _) = self.head()?;
        ensure!(status == 200, "the stream: {status}");
        Ok(self.reader)
    }

    fn head(&mut self) -> Result<(u16, Option<u64>)> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let status = line
            .split(' ')
            .nth(1)
            .context("the server has closed the connection")?;
        let status = status.parse()?;
        let mut length = None;
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                return Ok((status, length));
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = Some(value.trim().parse()?);
            }
        }
    }

    fn answer(&mut self) -> Result<Answer> {
        let (status, length) = self.head()?;
        let mut body = vec![0; usize::try_from(length.unwrap_or(0))?];
        self.reader.read_exact(&mut body)?;
        Ok(Answer { status, body })
    }
}
