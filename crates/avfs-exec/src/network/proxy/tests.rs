use std::net::Ipv4Addr;

use rustix::net::{AddressFamily, SocketType};

use super::*;
use crate::inside::give;

/// A server on this machine that answers each connection with what it was sent first, and a proxy for `rules`.
struct Fixture {
    proxy: Proxy,
    at: SocketAddr,
    server: SocketAddr,
}

fn fixture(rules: impl FnOnce(u16) -> Vec<String>) -> Fixture {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || server.incoming().flatten().for_each(|stream| echo(&stream)));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (outer, inner) = std::os::unix::net::UnixStream::pair().unwrap();
    let hosts = rules(address.port()).iter().map(|rule| rule.parse().unwrap()).collect();
    let proxy = Proxy::start(hosts, outer.into()).unwrap();
    give(&listener, &inner.into()).unwrap();
    Fixture { proxy, at: listener.local_addr().unwrap(), server: address }
}

fn echo(stream: &TcpStream) {
    let mut buffer = [0_u8; 4096];
    let mut both = stream;
    let count = both.read(&mut buffer).unwrap();
    both.write_all(&buffer[..count]).unwrap();
}

impl Fixture {
    fn ask(&self, text: &str) -> String {
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn refusals(self) -> Vec<(String, &'static str, u64)> {
        let all = self.proxy.finish();
        all.into_iter().map(|one| (one.target, one.because.code(), one.count)).collect()
    }
}

#[test]
fn a_listed_address_is_reached_by_tunnel_and_by_page() {
    let fixture = fixture(|port| vec![format!("127.0.0.1:{port}")]);
    let server = fixture.server;
    let answer = fixture.ask(&format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\nhello"));
    assert_eq!(answer, "HTTP/1.1 200 Connection established\r\n\r\nhello");
    let answer = fixture.ask(&format!("GET http://{server}/page HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_eq!(answer, format!("GET /page HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n"));
    assert_eq!(fixture.refusals(), []);
}

#[test]
fn what_is_not_listed_is_refused_with_its_reason_and_counted() {
    let fixture = fixture(|_| vec!["listed.example".to_owned()]);
    let server = fixture.server;
    for _ in 0..2 {
        let answer = fixture.ask("CONNECT other.example:443 HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\nX-Refused: host_not_listed\r\n"), "{answer}");
    }
    assert!(fixture.ask("CONNECT 1.1.1.1:443 HTTP/1.1\r\n\r\n").contains("host_not_listed"));
    assert!(fixture.ask(&format!("GET http://{server}/ HTTP/1.1\r\n\r\n")).contains("private_address"));
    assert!(fixture.ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 Bad Request"));
    let expected = [
        ("other.example:443".to_owned(), "host_not_listed", 2),
        ("1.1.1.1:443".to_owned(), "host_not_listed", 1),
        (server.to_string(), "private_address", 1),
        (String::new(), "bad_request", 1),
    ];
    assert_eq!(fixture.refusals(), expected);
}

#[test]
fn a_listed_name_that_leads_to_this_machine_is_refused_unless_the_address_is_listed() {
    let only_name = fixture(|_| vec!["localhost".to_owned()]);
    let request =
        |fixture: &Fixture| format!("CONNECT localhost:{} HTTP/1.1\r\n\r\nhi", fixture.server.port());
    assert!(only_name.ask(&request(&only_name)).contains("private_address"));
    let both = fixture(|_| vec!["localhost".to_owned(), "127.0.0.1".to_owned()]);
    assert!(both.ask(&request(&both)).ends_with("hi"));
}

#[test]
fn a_server_that_is_not_there_is_told() {
    // A port that is taken and at which nobody listens: a free one may be somebody's by then.
    let silent = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&silent, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&silent).unwrap()).unwrap();
    let fixture = fixture(|_| vec!["127.0.0.1".to_owned()]);
    let answer = fixture.ask(&format!("CONNECT {address} HTTP/1.1\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\nX-Refused: connect_failed"), "{answer}");
}

#[test]
fn a_proxy_ends_with_its_run_whatever_is_open() {
    let fixture = fixture(|port| vec![format!("127.0.0.1:{port}")]);
    let silent = TcpStream::connect(fixture.at).unwrap();
    let mut tunnel = TcpStream::connect(fixture.at).unwrap();
    tunnel.write_all(format!("CONNECT {} HTTP/1.1\r\n\r\n", fixture.server).as_bytes()).unwrap();
    let mut first = [0_u8; 12];
    tunnel.read_exact(&mut first).unwrap();
    assert_eq!(fixture.refusals(), []);
    drop(silent);
}

#[test]
fn a_stage_that_sends_no_socket_does_not_keep_the_proxy() {
    let (outer, inner) = std::os::unix::net::UnixStream::pair().unwrap();
    let proxy = Proxy::start(Vec::new(), outer.into()).unwrap();
    assert_eq!(proxy.finish(), []);
    drop(inner);
}

#[test]
fn the_list_of_refusals_does_not_grow_without_end() {
    let fixture = fixture(|_| Vec::new());
    for number in 0..MOST_REFUSALS + 20 {
        fixture.proxy.shared.note(&format!("{number}.example:80"), RefusedBecause::HostNotListed);
    }
    let refusals = fixture.refusals();
    assert_eq!(refusals.len(), MOST_REFUSALS);
    assert_eq!(refusals.last().unwrap().2, 21);
}
