//! The proxy of the user's own programs, where a network has one: our proxy uses it too. Its credentials stay
//! outside of the sandbox.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::block::AddressBlock;
use super::request::{LONGEST_HEAD, ProxyRequest, RequestHost, RequestedService};
use super::rule::{normal_name, split_port};

const CONNECT_PATIENCE: Duration = Duration::from_secs(20);

/// How long it may take to answer: it connects to another server first.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// The values of `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upstream {
    pages: Option<ProxyServer>,
    tunnels: Option<ProxyServer>,
    exceptions: Vec<ProxyException>,
}

/// A proxy that speaks HTTP.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ProxyServer {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
}

/// A host that is reached without the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProxyException {
    pattern: ExceptionPattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ExceptionPattern {
    Everything,
    /// A name and what is below it.
    Name(String),
    Address(IpAddr),
    Block(AddressBlock),
}

/// A variable that names a proxy of an unsupported kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedProxy {
    /// The name of the variable.
    pub variable: &'static str,
}

impl Upstream {
    /// The settings in the user's environment. Lower-case names take precedence, as everywhere.
    pub fn from_environment(env: &[(OsString, OsString)]) -> (Self, Vec<UnusedProxy>) {
        let mut unused = Vec::new();
        let mut server = |names: [&'static str; 2]| {
            let (variable, text) = names
                .iter()
                .find_map(|name| value(env, name).map(|text| (*name, text)))?;
            let server = text.to_str().and_then(ProxyServer::parse);
            if server.is_none() {
                unused.push(UnusedProxy { variable });
            }
            server
        };
        let pages = server(["http_proxy", "HTTP_PROXY"]);
        let tunnels = server(["https_proxy", "HTTPS_PROXY"]);
        // It applies to kinds of requests without a proxy of their own.
        let all = if pages.is_none() || tunnels.is_none() {
            server(["all_proxy", "ALL_PROXY"])
        } else {
            None
        };
        let exceptions = ["no_proxy", "NO_PROXY"].iter().find_map(|name| value(env, name));
        let exceptions = exceptions.and_then(OsStr::to_str).unwrap_or_default();
        let exceptions = exceptions
            .split([',', ' '])
            .filter_map(|text| ProxyException::parse(text.trim()))
            .collect();
        let upstream = Self {
            pages: pages.or_else(|| all.clone()),
            tunnels: tunnels.or(all),
            exceptions,
        };
        (upstream, unused)
    }

    /// The server for a request, unless the request bypasses the proxy.
    pub(super) fn server_for(&self, request: &ProxyRequest) -> Option<&ProxyServer> {
        let server = match request.wants {
            RequestedService::Tunnel => self.tunnels.as_ref(),
            RequestedService::Page(_) => self.pages.as_ref(),
        };
        let is_excepted = || {
            self.exceptions
                .iter()
                .any(|one| one.covers(&request.host, request.port))
        };
        server.filter(|_| !is_excepted())
    }
}

fn value<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    env.iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.as_os_str())
        .filter(|text| !text.is_empty())
}

impl ProxyServer {
    /// `http://USER:PASSWORD@HOST:PORT/`; everything but the host is optional.
    fn parse(text: &str) -> Option<Self> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => return None,
            None => text,
        };
        let place = rest.split(['/', '?', '#']).next()?;
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        let (host, port) = split_port(place)?;
        let is_host = host.parse::<IpAddr>().is_ok() || normal_name(host).is_some();
        let authorization = user.map(|user| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            let both = [percent_decoded(name), b":".to_vec(), percent_decoded(password)].concat();
            format!("Basic {}", base64(&both))
        });
        is_host.then(|| Self {
            host: host.to_owned(),
            port: port.unwrap_or(80),
            authorization,
        })
    }

    /// The header with our credentials, with the end of its line.
    pub(super) fn authorization(&self) -> String {
        self.authorization
            .as_ref()
            .map(|text| format!("Proxy-Authorization: {text}\r\n"))
            .unwrap_or_default()
    }

    pub(super) fn connect(&self) -> io::Result<TcpStream> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Requests a tunnel. Returns the bytes after the answer, or `None` if the tunnel was not opened.
    pub(super) fn open_tunnel(&self, stream: &TcpStream, target: &str) -> io::Result<Option<Vec<u8>>> {
        let mut both = stream;
        let head = format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{}\r\n",
            self.authorization()
        );
        both.write_all(head.as_bytes())?;
        stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
        let mut answer = Vec::new();
        let mut piece = [0_u8; 4096];
        let end = loop {
            if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            match both.read(&mut piece)? {
                0 => return Ok(None),
                count if answer.len() <= LONGEST_HEAD => answer.extend_from_slice(&piece[..count]),
                _ => return Ok(None),
            }
        };
        stream.set_read_timeout(None)?;
        let rest = answer.split_off(end);
        let is_open = answer.starts_with(b"HTTP/1.") && answer.get(8..11) == Some(b" 20");
        Ok(is_open.then_some(rest))
    }
}

/// Without the credentials.
impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl ProxyException {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self {
                pattern: ExceptionPattern::Everything,
                port: None,
            });
        }
        if let Some(block) = AddressBlock::parse(text) {
            return Some(Self {
                pattern: ExceptionPattern::Block(block),
                port: None,
            });
        }
        let (host, port) = match text.parse::<IpAddr>() {
            Ok(_) => (text, None),
            Err(_) => split_port(text)?,
        };
        let pattern = match host.parse::<IpAddr>() {
            Ok(address) => ExceptionPattern::Address(address.to_canonical()),
            Err(_) => {
                ExceptionPattern::Name(normal_name(host.trim_start_matches('*').trim_start_matches('.'))?)
            }
        };
        Some(Self { pattern, port })
    }

    fn covers(&self, host: &RequestHost, port: u16) -> bool {
        let named = match (&self.pattern, host) {
            (ExceptionPattern::Everything, _) => true,
            (ExceptionPattern::Name(own), RequestHost::Name(name)) => name
                .strip_suffix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
            (ExceptionPattern::Address(own), RequestHost::Address(address)) => own == address,
            (ExceptionPattern::Block(block), RequestHost::Address(address)) => block.contains(*address),
            (ExceptionPattern::Name(_), RequestHost::Address(_))
            | (ExceptionPattern::Address(_) | ExceptionPattern::Block(_), RequestHost::Name(_)) => false,
        };
        named && self.port.is_none_or(|own| own == port)
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let pair = behind
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let number = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::request::parse;
    use super::*;

    fn upstream(env: &[(&str, &str)]) -> (Upstream, Vec<&'static str>) {
        let env: Vec<(OsString, OsString)> = env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let (upstream, unused) = Upstream::from_environment(&env);
        (upstream, unused.into_iter().map(|one| one.variable).collect())
    }

    fn server(upstream: &Upstream, target: &str) -> Option<String> {
        let request = parse(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        upstream.server_for(&request).map(|server| format!("{server:?}"))
    }

    #[test]
    fn servers_are_those_of_the_environment_and_nothing_shows_the_password() {
        let (found, unused) = upstream(&[
            ("HTTPS_PROXY", "http://ignored:1"),
            ("https_proxy", "http://us%65r:p%40ss@proxy.corp:8080/"),
            ("HTTP_PROXY", "proxy.corp"),
        ]);
        assert_eq!(unused, [""; 0]);
        assert_eq!(server(&found, "example.com:443").unwrap(), "proxy.corp:8080");
        assert_eq!(
            found.tunnels.as_ref().unwrap().authorization(),
            "Proxy-Authorization: Basic dXNlcjpwQHNz\r\n"
        );
        assert_eq!(format!("{:?}", found.pages), "Some(proxy.corp:80)");
        assert!(!format!("{found:?}").contains("ss@"), "{found:?}");
        let (found, _) = upstream(&[("ALL_PROXY", "http://[::1]:3128")]);
        assert_eq!(server(&found, "example.com:443").unwrap(), "::1:3128");
    }

    #[test]
    fn a_proxy_of_another_kind_is_named_and_not_used() {
        let (found, unused) = upstream(&[
            ("all_proxy", "socks5h://127.0.0.1:1080"),
            ("HTTPS_PROXY", "https://p"),
        ]);
        assert_eq!(unused, ["HTTPS_PROXY", "all_proxy"]);
        assert_eq!(found, Upstream::default());
    }

    #[test]
    fn exceptions_are_reached_directly() {
        let no = "localhost, .corp.example,10.0.0.0/8,*.internal,192.0.2.7,one.example:8443,::1";
        let (found, _) = upstream(&[("https_proxy", "http://p:1"), ("NO_PROXY", no)]);
        for direct in [
            "localhost:80",
            "corp.example:443",
            "a.b.corp.example:443",
            "10.9.8.7:443",
            "x.internal:443",
            "192.0.2.7:443",
            "one.example:8443",
            "[::1]:80",
        ] {
            assert_eq!(server(&found, direct), None, "{direct}");
        }
        for through in [
            "example.com:443",
            "evilcorp.example:443",
            "one.example:443",
            "11.0.0.1:443",
        ] {
            assert!(server(&found, through).is_some(), "{through}");
        }
        let (found, _) = upstream(&[("https_proxy", "http://p:1"), ("no_proxy", "*")]);
        assert_eq!(server(&found, "example.com:443"), None);
    }

    #[test]
    fn digits_of_base64() {
        for (text, expected) in [
            ("", ""),
            ("a", "YQ=="),
            ("ab", "YWI="),
            ("abc", "YWJj"),
            ("abcd", "YWJjZA=="),
        ] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
