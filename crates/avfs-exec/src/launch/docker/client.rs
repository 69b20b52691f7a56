//! The little of HTTP that the Engine API of Docker needs, over its Unix socket: one request per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// How long a daemon may take for one step of an answer: starting a container on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most bytes of an answer, and of one of its lines.
const ANSWER_MAX: u64 = 16 << 20;
const LINE_MAX: u64 = 64 << 10;

/// The oldest version of the API with everything that is used here: of Docker 20.10, and of Podman 3.
const VERSION: &str = "v1.40";

/// A daemon with the Engine API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DockerSocket {
    place: PathBuf,
}

/// An answer of the daemon.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    body: Vec<u8>,
}

impl DockerSocket {
    /// The one at this path.
    pub fn at(place: impl Into<PathBuf>) -> DockerSocket {
        DockerSocket { place: place.into() }
    }

    /// Its path.
    pub fn place(&self) -> &Path {
        &self.place
    }

    pub(super) fn get(&self, path: &str) -> io::Result<Reply> {
        self.ask("GET", path, "application/json", b"")
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> io::Result<Reply> {
        self.ask("POST", path, "application/json", body.to_string().as_bytes())
    }

    pub(super) fn post_archive(&self, path: &str, archive: &[u8]) -> io::Result<Reply> {
        self.ask("POST", path, "application/x-tar", archive)
    }

    pub(super) fn delete(&self, path: &str) -> io::Result<Reply> {
        self.ask("DELETE", path, "application/json", b"")
    }

    fn ask(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> io::Result<Reply> {
        let mut stream = UnixStream::connect(&self.place)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = format!(
            "{method} /{VERSION}{path} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        // In one piece: a daemon that does not look at the body may answer and close before a second one arrives, and a
        // connection that is closed with something unread is reset, answer and all.
        stream.write_all(&[head.as_bytes(), body].concat())?;
        Reply::read(&mut BufReader::new(stream))
    }
}

impl Reply {
    fn read(from: &mut impl BufRead) -> io::Result<Reply> {
        let first = line(from)?;
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1)?.parse().ok())
            .ok_or_else(|| wrong("the first line"))?;
        let (mut length, mut is_chunked) = (None, false);
        loop {
            let header = line(from)?;
            let Some((name, value)) = header.split_once(':') else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = Some(value.trim().parse().map_err(|_| wrong("its length"))?),
                "transfer-encoding" => is_chunked = value.to_ascii_lowercase().contains("chunked"),
                _ => {}
            }
        }
        let mut body = Vec::new();
        match (is_chunked, length) {
            (true, _) => read_chunks(from, &mut body)?,
            (false, Some(length)) => read_exactly(from, length, &mut body)?,
            // Neither: until the daemon closes, which it does after each answer.
            (false, None) => drop(from.take(ANSWER_MAX).read_to_end(&mut body)?),
        }
        Ok(Reply { status, body })
    }

    pub(super) fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Why the daemon refuses something.
    pub(super) fn complaint(&self) -> String {
        let said = self.json()["message"].as_str().map(str::to_owned);
        let said = said.unwrap_or_else(|| String::from_utf8_lossy(&self.body).trim().to_owned());
        format!("{said} (status {})", self.status)
    }
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(LINE_MAX).read_until(b'\n', &mut bytes)?;
    if bytes.last() != Some(&b'\n') {
        return Err(wrong("a line"));
    }
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

fn read_exactly(from: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if length.saturating_add(body.len() as u64) > ANSWER_MAX {
        return Err(wrong("its length"));
    }
    let read = from.take(length).read_to_end(body)?;
    if read as u64 == length {
        Ok(())
    } else {
        Err(wrong("its end"))
    }
}

fn read_chunks(from: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = line(from)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| wrong("a part"))?;
        if size == 0 {
            return Ok(());
        }
        read_exactly(from, size, body)?;
        line(from)?;
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{what} of the answer is not as HTTP has it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(text: &str) -> io::Result<(u16, String)> {
        let reply = Reply::read(&mut text.as_bytes())?;
        Ok((reply.status, String::from_utf8(reply.body).unwrap()))
    }

    #[test]
    fn answers_are_read_in_each_form_of_a_body() {
        for (text, status, body) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more",
                200,
                "hi",
            ),
            ("HTTP/1.1 404 No\r\n\r\nuntil the end", 404, "until the end"),
            ("HTTP/1.0 204 No Content\r\ncontent-length:0\r\n\r\n", 204, ""),
            (
                "HTTP/1.1 201 C\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
                201,
                "abc0123456789",
            ),
        ] {
            assert_eq!(read(text).unwrap(), (status, body.to_owned()), "{text}");
        }
    }

    #[test]
    fn malformed_answers_are_refused() {
        for text in [
            "",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 two\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_complaint_is_what_the_daemon_says() {
        let reply = |text: &str| Reply {
            status: 400,
            body: text.into(),
        };
        assert_eq!(
            reply(r#"{"message":"no such image"}"#).complaint(),
            "no such image (status 400)"
        );
        assert_eq!(reply("plain\n").complaint(), "plain (status 400)");
    }
}
