//! One request over one connection. The server is ours, so this is the part of HTTP that it speaks.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::endpoint::Endpoint;

/// The longest head of an answer.
const HEAD_MAX: u64 = 64 << 10;
/// How long a server may be silent. A stream says every 15 seconds that it is still there; other answers may take longer.
const SILENCE: Duration = Duration::from_secs(15 * 60);
const PIECE: usize = 64 << 10;

/// What a request carries.
pub enum Body<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// As much as can be read.
    Stream(&'a mut dyn Read),
}

/// An answer whose body has not been read yet.
pub struct Answer {
    pub status: u16,
    pub body: Box<dyn BufRead>,
}

enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Connection {
    fn open(endpoint: &Endpoint) -> io::Result<Connection> {
        match endpoint {
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(SILENCE))?;
                Ok(Connection::Unix(stream))
            }
            Endpoint::Tcp {
                host,
                port,
                is_encrypted,
            } => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_read_timeout(Some(SILENCE))?;
                stream.set_nodelay(true)?;
                if !is_encrypted {
                    return Ok(Connection::Tcp(stream));
                }
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let client = ClientConnection::new(trust()?, name).map_err(io::Error::other)?;
                Ok(Connection::Tls(Box::new(StreamOwned::new(client, stream))))
            }
        }
    }

    fn stream(&mut self) -> &mut dyn ReadWrite {
        match self {
            Connection::Unix(stream) => stream,
            Connection::Tcp(stream) => stream,
            Connection::Tls(stream) => stream.as_mut(),
        }
    }
}

trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream().read(buffer)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream().flush()
    }
}

/// Where distributions keep the authorities that they trust.
const TRUSTED: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The authorities that this machine trusts, or those in the file that SSL_CERT_FILE names.
fn trust() -> io::Result<Arc<ClientConfig>> {
    let place = match super::variable("SSL_CERT_FILE") {
        Some(place) => place,
        None => TRUSTED
            .into_iter()
            .find(|place| Path::new(place).exists())
            .map(str::to_owned)
            .ok_or_else(|| io::Error::other("no file of authorities was found; SSL_CERT_FILE names one"))?,
    };
    let unreadable = |error| io::Error::other(format!("{place}: {error}"));
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(&place).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    // One that is of an unknown kind vouches for nobody.
    roots.add_parsable_certificates(found.map_err(unreadable)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.map_err(io::Error::other)?;
    Ok(Arc::new(
        config.with_root_certificates(roots).with_no_client_auth(),
    ))
}

/// Sends a request, and reads the head of its answer.
pub fn ask(
    endpoint: &Endpoint,
    method: &str,
    path: &str,
    headers: &[(&str, String)],
    body: Body<'_>,
) -> io::Result<Answer> {
    let mut connection = Connection::open(endpoint)?;
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
        endpoint.host()
    );
    for (name, value) in headers {
        if value.contains(['\r', '\n']) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a line break in {name}"),
            ));
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match &body {
        Body::Nothing => {}
        Body::Bytes(bytes) => head.push_str(&format!("Content-Length: {}\r\n", bytes.len())),
        Body::Stream(_) => head.push_str("Transfer-Encoding: chunked\r\n"),
    }
    connection.write_all(format!("{head}\r\n").as_bytes())?;
    let sent = send(&mut connection, body);
    let answer = answer(BufReader::with_capacity(PIECE, connection));
    // A server that refuses a request may not read all of it, and its answer says why.
    match (sent, answer) {
        (_, Ok(answer)) => Ok(answer),
        (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(error),
    }
}

fn send(connection: &mut Connection, body: Body<'_>) -> io::Result<()> {
    match body {
        Body::Nothing => {}
        Body::Bytes(bytes) => connection.write_all(bytes)?,
        Body::Stream(from) => {
            let mut piece = vec![0; PIECE];
            loop {
                let count = from.read(&mut piece)?;
                connection.write_all(format!("{count:x}\r\n").as_bytes())?;
                connection.write_all(&piece[..count])?;
                connection.write_all(b"\r\n")?;
                if count == 0 {
                    break;
                }
            }
        }
    }
    connection.flush()
}

fn broken(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the answer is broken: {what}"),
    )
}

fn answer(mut from: BufReader<Connection>) -> io::Result<Answer> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let count = (&mut from)
            .take(HEAD_MAX - head.len() as u64)
            .read_until(b'\n', &mut head)?;
        if count == 0 {
            return Err(if head.is_empty() {
                io::ErrorKind::UnexpectedEof.into()
            } else {
                broken("its head")
            });
        }
    }
    let head = String::from_utf8(head).map_err(|_| broken("its head"))?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
    let status = status.and_then(|line| line.get(..3)?.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let (mut length, mut is_chunked) = (None, false);
    for (name, value) in headers {
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<u64>().map_err(|_| broken("its length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let body: Box<dyn BufRead> = match (is_chunked, length) {
        (true, _) => Box::new(BufReader::new(Chunks::new(from))),
        (false, Some(length)) => Box::new(BufReader::new(Whole { from, left: length })),
        // 204 and the like.
        (false, None) => Box::new(io::empty()),
    };
    Ok(Answer {
        status: status.ok_or_else(|| broken("its status"))?,
        body,
    })
}

/// A body whose length is known. One that is shorter is an error, and not a short file.
struct Whole<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let count = self.from.read(&mut buffer[..most])?;
        self.left -= count as u64;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }
}

/// A body in chunks, up to the empty one.
struct Chunks<R> {
    from: R,
    left: u64,
    is_over: bool,
}

impl<R: BufRead> Chunks<R> {
    fn new(from: R) -> Chunks<R> {
        Chunks {
            from,
            left: 0,
            is_over: false,
        }
    }

    fn next(&mut self) -> io::Result<u64> {
        let size = self.line()?;
        let size = size.split(';').next().unwrap_or_default();
        u64::from_str_radix(size.trim(), 16).map_err(|_| broken("a chunk"))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.from).take(1024).read_line(&mut line)?;
        if line.ends_with('\n') {
            return Ok(line);
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.is_over {
            return Ok(0);
        }
        if self.left == 0 {
            self.left = self.next()?;
            if self.left == 0 {
                self.is_over = true;
                self.line()?;
                return Ok(0);
            }
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.from.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        if self.left == 0 {
            self.line()?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unchunked(wire: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Chunks::new(wire).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn chunks_are_put_together_and_what_is_cut_off_is_an_error() {
        let wire = b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(unchunked(wire).unwrap(), b"abc0123456789");
        for end in 0..wire.len() {
            unchunked(&wire[..end]).unwrap_err();
        }
        unchunked(b"zz\r\nabc").unwrap_err();
    }

    #[test]
    fn a_body_that_is_shorter_than_it_says_is_an_error() {
        let read = |left| {
            let mut bytes = Vec::new();
            Whole {
                from: &b"abcd"[..],
                left,
            }
            .read_to_end(&mut bytes)
            .map(|_| bytes)
        };
        assert_eq!(read(3).unwrap(), b"abc");
        assert_eq!(read(5).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
