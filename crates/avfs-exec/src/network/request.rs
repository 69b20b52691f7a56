//! The head of a request to the proxy: a tunnel to a host, or a page of one.

use std::net::IpAddr;

use super::body::BodyLength;
use super::rule::{normal_name, split_port};

/// A longer head is refused.
pub(super) const LONGEST_HEAD: usize = 64 << 10;

/// The target of a client's request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    pub(super) host: RequestHost,
    pub(super) port: u16,
    pub(super) wants: RequestedService,
}

/// A name, or an address as itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestHost {
    Name(String),
    Address(IpAddr),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestedService {
    /// Bytes in both directions.
    Tunnel,
    /// One answer.
    Page(PageRequest),
}

/// A request with or without a body, and one answer of a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageRequest {
    method: String,
    /// `HOST` or `HOST:PORT`, as in the request.
    place: String,
    path: String,
    /// Lines with their ends, without those for proxies.
    headers: String,
    pub(super) body: BodyLength,
}

impl PageRequest {
    /// The head as a server expects it.
    pub(super) fn for_server(&self) -> String {
        self.head("", "")
    }

    /// The head as another proxy expects it, with our credentials for it.
    pub(super) fn for_proxy(&self, authorization: &str) -> String {
        self.head(&format!("http://{}", self.place), authorization)
    }

    fn head(&self, before_path: &str, authorization: &str) -> String {
        let Self {
            method,
            place,
            path,
            headers,
            body: _,
        } = self;
        // One answer per connection: the next request could be for a different host.
        format!(
            "{method} {before_path}{path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n{authorization}{headers}\r\n"
        )
    }
}

/// Parses a head, which ends with an empty line. `None` if it is not one that a proxy can serve.
///
/// The next reader of the head must interpret it in the same way. Characters that only some readers treat as
/// the end of a line, of a word or of the text are refused: control characters, and non-ASCII characters
/// before the headers.
pub(super) fn parse(head: &[u8]) -> Option<ProxyRequest> {
    let text = std::str::from_utf8(head).ok()?;
    let text = text.strip_suffix("\r\n\r\n")?;
    let (first, headers) = text.split_once("\r\n").unwrap_or((text, ""));
    let headers = read_headers(headers)?;
    if !first.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        return None;
    }
    let mut words = first.split(' ');
    let (method, target, version, None) = (words.next()?, words.next()?, words.next()?, words.next()) else {
        return None;
    };
    if !matches!(version, "HTTP/1.0" | "HTTP/1.1") || !method.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    match method {
        "CONNECT" => {
            let (host, port) = authority(target)?;
            Some(ProxyRequest {
                host,
                port: port?,
                wants: RequestedService::Tunnel,
            })
        }
        _ => page(method, target, &headers),
    }
}

/// Names and lines. A continuation line has no name, so it is refused.
fn read_headers(text: &str) -> Option<Vec<(&str, &str)>> {
    let lines = text.split("\r\n").filter(|_| !text.is_empty());
    let read = |line: &'_ str| -> Option<usize> {
        let (name, value) = line.split_once(':')?;
        (is_token(name) && !value.contains(char::is_control)).then_some(name.len())
    };
    lines
        .map(|line| read(line).map(|end| (&line[..end], line)))
        .collect()
}

fn page(method: &str, target: &str, headers: &[(&str, &str)]) -> Option<ProxyRequest> {
    let rest = target
        .get(..7)
        .filter(|scheme| scheme.eq_ignore_ascii_case("http://"))
        .map(|_| &target[7..])?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let slash = if path.starts_with('/') { "" } else { "/" };
    let (host, port) = authority(place)?;
    let kept = headers.iter().filter(|(name, _)| !is_for_proxies(name));
    let page = PageRequest {
        method: method.to_owned(),
        place: place.to_owned(),
        path: format!("{slash}{path}"),
        headers: kept.map(|(_, line)| format!("{line}\r\n")).collect(),
        body: BodyLength::of(headers)?,
    };
    Some(ProxyRequest {
        host,
        port: port.unwrap_or(80),
        wants: RequestedService::Page(page),
    })
}

/// Headers that end here, and `RequestHost`, which must be the one that was checked.
fn is_for_proxies(name: &str) -> bool {
    let own = ["host", "connection", "keep-alive", "upgrade", "te"];
    own.iter().any(|own| name.eq_ignore_ascii_case(own))
        || name
            .get(..6)
            .is_some_and(|start| start.eq_ignore_ascii_case("proxy-"))
}

fn is_token(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

/// `HOST` or `HOST:PORT`, without a user in front.
fn authority(text: &str) -> Option<(RequestHost, Option<u16>)> {
    let (host, port) = split_port(text)?;
    let host = match host.parse::<IpAddr>() {
        Ok(address) => RequestHost::Address(address.to_canonical()),
        Err(_) => RequestHost::Name(normal_name(host)?),
    };
    Some((host, port))
}

impl std::fmt::Display for RequestHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel(target: &str) -> Option<(String, u16)> {
        let request = parse(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes())?;
        Some((request.host.to_string(), request.port))
    }

    #[test]
    fn tunnels_name_a_host_and_a_port() {
        assert_eq!(tunnel("Example.com:443"), Some(("example.com".into(), 443)));
        assert_eq!(tunnel("[::1]:443"), Some(("[::1]".into(), 443)));
        assert_eq!(tunnel("[::ffff:127.0.0.1]:80"), Some(("127.0.0.1".into(), 80)));
        assert_eq!(tunnel("example.com.:443"), Some(("example.com".into(), 443)));
        for bad in [
            "example.com",
            "a@b:443",
            "0x7f.1:80",
            "0x7f000001:80",
            "0177.0.0.1:80",
            "127.1:80",
            "2130706433:80",
            "example.com..:443",
            "%65xample.com:443",
            "b\u{fc}cher.example:443",
            "example.com\u{ff0e}evil.example:443",
            "example.com\\.evil.example:443",
            "[fe80::1%25eth0]:80",
            "[fe80::1%eth0]:80",
            ":443",
            "a:b:c",
            "x:0",
            "x:443/",
        ] {
            assert_eq!(tunnel(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_page_is_asked_for_as_servers_expect_it() {
        let head = b"GET http://a.example:8080/x?y HTTP/1.1\r\nHost: evil\r\nProxy-Connection: keep-alive\r\nA: b\r\n\r\n";
        let request = parse(head).unwrap();
        assert_eq!(
            (request.host, request.port),
            (RequestHost::Name("a.example".into()), 8080)
        );
        let RequestedService::Page(page) = request.wants else {
            panic!("no page")
        };
        let expected = "GET /x?y HTTP/1.1\r\nHost: a.example:8080\r\nConnection: close\r\nA: b\r\n\r\n";
        assert_eq!(page.for_server(), expected);
        let expected = "GET http://a.example:8080/x?y HTTP/1.1\r\nHost: a.example:8080\r\nConnection: close\r\nP: q\r\nA: b\r\n\r\n";
        assert_eq!(page.for_proxy("P: q\r\n"), expected);
        assert_eq!(
            parse(b"GET http://a.example?q HTTP/1.1\r\n\r\n").unwrap().port,
            80
        );
    }

    #[test]
    fn a_head_that_others_could_read_in_another_way_is_no_request() {
        let controls = (0..0x20_u8)
            .chain([0x7f])
            .map(char::from)
            .chain(['\u{80}', '\u{85}', '\u{9f}']);
        for control in controls {
            for head in [
                format!("GET http://a.example/{control}x HTTP/1.1\r\n\r\n"),
                format!("GET{control} http://a.example/ HTTP/1.1\r\n\r\n"),
                format!("GET http://a.example/ HTTP/1.1{control}\r\n\r\n"),
                format!("GET http://a.example/ HTTP/1.1\r\nA: b{control}Host: evil\r\n\r\n"),
                format!("GET http://a.example/ HTTP/1.1\r\nA{control}: b\r\n\r\n"),
                format!("CONNECT a.example:443{control} HTTP/1.1\r\n\r\n"),
                format!("CONNECT a.example:443 HTTP/1.1\r\nA: b{control}c\r\n\r\n"),
            ] {
                assert_eq!(parse(head.as_bytes()), None, "{head:?}");
            }
        }
        for headers in [
            "A: b\r\n c: folded",
            "A: b\r\n\tfolded",
            " A: b",
            "A : b",
            "no colon",
            ": b",
            "Content-Length: 1\r\nContent-Length: 1",
            "Content-Length: 1, 1",
            "Content-Length: +1",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: xchunked",
        ] {
            let head = format!("POST http://a.example/ HTTP/1.1\r\n{headers}\r\n\r\n");
            assert_eq!(parse(head.as_bytes()), None, "{headers:?}");
        }
        assert!(parse("GET http://a.example/ HTTP/1.1\r\nA: \u{fc}\r\n\r\n".as_bytes()).is_some());
    }

    #[test]
    fn everything_else_is_no_request() {
        let bad: [&[u8]; 7] = [
            b"",
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET https://a.example/ HTTP/1.1\r\n\r\n",
            b"GET http://a.example/ HTTP/2\r\n\r\n",
            b"GET http://a.example/ x HTTP/1.1\r\n\r\n",
            b"GET http://a.example/ HTTP/1.1\r\nbad header: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\r\n\r\n",
        ];
        for head in bad {
            assert_eq!(parse(head), None, "{:?}", String::from_utf8_lossy(head));
        }
    }
}
