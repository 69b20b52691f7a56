//! Where a server is.

use std::path::{Path, PathBuf};

use crate::exit::ExitStatus;
use crate::failure::Failure;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket of this machine.
    Unix(PathBuf),
    /// A host, and whether the connection is encrypted.
    Tcp {
        host: String,
        port: u16,
        is_encrypted: bool,
    },
}

impl Endpoint {
    /// The server of a store.
    pub fn of_store(home: &Path) -> Endpoint {
        Endpoint::Unix(home.join("server/socket"))
    }

    /// Reads `unix:PATH`, `http://HOST:PORT` or `https://HOST:PORT`.
    pub fn parse(text: &str) -> Result<Endpoint, Failure> {
        let parsed = match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => {
                let path = if path.starts_with("///") { &path[2..] } else { path };
                Some(Endpoint::Unix(PathBuf::from(path)))
            }
            Some(("http", rest)) => tcp(rest, 80, false),
            Some(("https", rest)) => tcp(rest, 443, true),
            _ => None,
        };
        parsed.ok_or_else(|| {
            let text = format!("'{}' is no server", crate::escape::printable(text.as_bytes()));
            let hint = "it is unix:PATH, http://HOST:PORT or https://HOST:PORT";
            Failure::new("bad-server", ExitStatus::BadInput, text).hint(Some(hint.to_owned()))
        })
    }

    /// What a request says as `Host`.
    pub fn host(&self) -> String {
        match self {
            Endpoint::Unix(_) => "localhost".to_owned(),
            Endpoint::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Endpoint::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix:{}", crate::escape::printable_path(path)),
            Endpoint::Tcp { is_encrypted, .. } => {
                let scheme = if *is_encrypted { "https" } else { "http" };
                write!(f, "{scheme}://{}", self.host())
            }
        }
    }
}

fn tcp(rest: &str, usual: u16, is_encrypted: bool) -> Option<Endpoint> {
    let rest = rest.strip_prefix("//")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':').or(port.is_empty().then_some(""))?)
        }
        None => rest.split_once(':').unwrap_or((rest, "")),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_name) {
        return None;
    }
    let port = if port.is_empty() {
        usual
    } else {
        port.parse().ok()?
    };
    Some(Endpoint::Tcp {
        host: host.to_owned(),
        port,
        is_encrypted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_they_are_shown() {
        for text in [
            "unix:/run/avfs.sock",
            "http://127.0.0.1:8010",
            "https://box.example:8443",
            "http://[::1]:80",
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Endpoint::parse("https://box.example/").unwrap().to_string(),
            "https://box.example:443"
        );
        assert_eq!(
            Endpoint::parse("unix:///run/s").unwrap().to_string(),
            "unix:/run/s"
        );
        for text in [
            "",
            "box",
            "ftp://box",
            "http://",
            "http://box:port",
            "http://a b",
            "http://a/b",
            "unix:",
            "http://[::1",
        ] {
            assert_eq!(Endpoint::parse(text).unwrap_err().code, "bad-server", "{text}");
        }
    }
}
