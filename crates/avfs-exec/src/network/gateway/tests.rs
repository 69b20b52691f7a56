use std::io::{Read, Write};

use rustix::net::{AddressFamily, SocketType};

use super::super::upstream::Upstream;
use super::*;
use avfs_inside::give;

/// A server on this machine that answers each connection with its first bytes, and a gateway for `rules`.
struct Fixture {
    gateway: Gateway,
    refusals: Arc<Refusals>,
    at: SocketAddr,
    server: SocketAddr,
    /// The stage's side; without it, no server inside is reachable.
    stage: Option<OwnedFd>,
}

fn fixture(rules: impl FnOnce(u16) -> Vec<String>) -> Fixture {
    Fixture {
        stage: None,
        ..fixture_with(Upstream::default(), Vec::new(), rules)
    }
}

fn fixture_with(
    upstream: Upstream,
    published: Vec<PublishedPort>,
    rules: impl FnOnce(u16) -> Vec<String>,
) -> Fixture {
    let address = server();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (outer, inner) = std::os::unix::net::UnixStream::pair().unwrap();
    let hosts = rules(address.port())
        .iter()
        .map(|rule| rule.parse().unwrap())
        .collect();
    let refusals = Arc::new(Refusals::default());
    let setting = NetworkSetting {
        reach: ListedHosts::new(hosts, upstream),
        // Tests of sandboxes cover addresses of this machine; sandboxes have loopback addresses of their own.
        listening: ListeningAddresses::of(&[]),
        published,
        refusals: Arc::clone(&refusals),
    };
    let gateway = Gateway::start(setting, outer.into()).unwrap();
    let stage = OwnedFd::from(inner);
    give(&listener, &stage).unwrap();
    Fixture {
        gateway,
        refusals,
        at: listener.local_addr().unwrap(),
        server: address,
        stage: Some(stage),
    }
}

fn server() -> SocketAddr {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || server.incoming().flatten().for_each(|stream| echo(&stream)));
    address
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
        self.gateway.finish();
        self.refusals
            .take()
            .into_iter()
            .map(|one| (one.target, one.because.code(), one.count))
            .collect()
    }
}

#[test]
fn a_listed_address_is_reached_by_tunnel_and_by_page() {
    let fixture = fixture(|port| vec![format!("127.0.0.1:{port}")]);
    let server = fixture.server;
    let answer = fixture.ask(&format!(
        "CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\nhello"
    ));
    assert_eq!(answer, "HTTP/1.1 200 Connection established\r\n\r\nhello");
    let answer = fixture.ask(&format!("GET http://{server}/page HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_eq!(
        answer,
        format!("GET /page HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n")
    );
    assert_eq!(fixture.refusals(), []);
}

#[test]
fn unlisted_host_is_refused_with_its_reason_and_counted() {
    let fixture = fixture(|_| vec!["listed.example".to_owned()]);
    let server = fixture.server;
    for _ in 0..2 {
        let answer = fixture.ask("CONNECT other.example:443 HTTP/1.1\r\n\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 403 Forbidden\r\nX-Refused: host_not_listed\r\n"),
            "{answer}"
        );
    }
    assert!(
        fixture
            .ask("CONNECT 1.1.1.1:443 HTTP/1.1\r\n\r\n")
            .contains("host_not_listed")
    );
    assert!(
        fixture
            .ask(&format!("GET http://{server}/ HTTP/1.1\r\n\r\n"))
            .contains("private_address")
    );
    assert!(
        fixture
            .ask("GET / HTTP/1.1\r\n\r\n")
            .starts_with("HTTP/1.1 400 Bad Request")
    );
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
fn missing_server_is_reported() {
    // A bound port without a listener: another process could take a free one.
    let silent = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&silent, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&silent).unwrap()).unwrap();
    let fixture = fixture(|_| vec!["127.0.0.1".to_owned()]);
    let answer = fixture.ask(&format!("CONNECT {address} HTTP/1.1\r\n\r\n"));
    assert!(
        answer.starts_with("HTTP/1.1 502 Bad Gateway\r\nX-Refused: connect_failed"),
        "{answer}"
    );
}

#[test]
fn a_proxy_ends_with_its_run_whatever_is_open() {
    let fixture = fixture(|port| vec![format!("127.0.0.1:{port}")]);
    let silent = TcpStream::connect(fixture.at).unwrap();
    let mut tunnel = TcpStream::connect(fixture.at).unwrap();
    tunnel
        .write_all(format!("CONNECT {} HTTP/1.1\r\n\r\n", fixture.server).as_bytes())
        .unwrap();
    let mut first = [0_u8; 12];
    tunnel.read_exact(&mut first).unwrap();
    assert_eq!(fixture.refusals(), []);
    drop(silent);
}

#[test]
fn a_stage_that_sends_no_socket_does_not_keep_the_gateway() {
    let (outer, inner) = std::os::unix::net::UnixStream::pair().unwrap();
    let reach = ListedHosts::new(Vec::new(), Upstream::default());
    let setting = NetworkSetting {
        reach,
        listening: ListeningAddresses::of(&[]),
        published: Vec::new(),
        refusals: Arc::default(),
    };
    Gateway::start(setting, outer.into()).unwrap().finish();
    drop(inner);
}

#[test]
fn refusal_names_the_host_to_list() {
    let fixture = fixture(|_| vec!["localhost".to_owned()]);
    for target in [
        "a.example:443",
        "a.example:8443",
        "8.8.8.8:443",
        "10.0.0.7:80",
        "169.254.169.254:80",
    ] {
        fixture.ask(&format!("CONNECT {target} HTTP/1.1\r\n\r\n"));
    }
    fixture.gateway.finish();
    let allow: Vec<Option<String>> = fixture.refusals.take().into_iter().map(|one| one.allow).collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        allow,
        [
            some("+a.example"),
            some("+a.example:8443"),
            some("+8.8.8.8"),
            some("+10.0.0.7:80"),
            None
        ]
    );
}

/// A stage that creates sockets in this machine's own network.
fn serve_sockets(fixture: &Fixture) {
    let stage = fixture.stage.as_ref().unwrap().try_clone().unwrap();
    std::thread::spawn(move || while avfs_inside::answer(&stage).unwrap_or(false) {});
}

#[test]
fn a_published_port_leads_inside_until_the_run_ends() {
    let inside = server();
    let publish: super::super::publish::PortPublication = format!("0:{}", inside.port()).parse().unwrap();
    let published = publish.open().unwrap();
    let fixture = fixture_with(Upstream::default(), vec![published.clone()], |_| Vec::new());
    serve_sockets(&fixture);
    let mut stream = TcpStream::connect(published.at()).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "hello");
    fixture.gateway.finish();
    assert!(TcpStream::connect(published.at()).is_err());
}

#[test]
fn what_programs_ask_the_proxy_for_of_their_own_machine_is_the_sandboxs_own() {
    let fixture = fixture_with(Upstream::default(), Vec::new(), |_| Vec::new());
    serve_sockets(&fixture);
    let port = fixture.server.port();
    for host in ["127.0.0.1", "localhost", "x.localhost", "0.0.0.0"] {
        let answer = fixture.ask(&format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\nhi"));
        assert!(answer.ends_with("\r\n\r\nhi"), "{host}: {answer}");
    }
    assert_eq!(fixture.refusals(), []);
}

#[test]
fn listed_names_are_asked_of_the_proxy_of_the_user_and_exceptions_are_not() {
    let proxy = server();
    let variable = |name: &str, value: String| (name.into(), value.into());
    let (upstream, _) = Upstream::from_environment(&[
        variable("http_proxy", format!("http://user:secret@{proxy}")),
        variable("no_proxy", "127.0.0.1".to_owned()),
    ]);
    let fixture = fixture_with(upstream, Vec::new(), |port| {
        vec!["a.invalid".into(), format!("127.0.0.1:{port}")]
    });
    let answer = fixture.ask("GET http://a.invalid/page HTTP/1.1\r\nProxy-Authorization: mine\r\n\r\n");
    assert_eq!(
        answer,
        "GET http://a.invalid/page HTTP/1.1\r\nHost: a.invalid\r\nConnection: close\r\n\
         Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n"
    );
    let answer = fixture.ask(&format!("GET http://{}/page HTTP/1.1\r\n\r\n", fixture.server));
    assert!(answer.starts_with("GET /page HTTP/1.1\r\n"), "{answer}");
    let answer = fixture.ask("GET http://b.invalid/ HTTP/1.1\r\n\r\n");
    assert!(answer.contains("host_not_listed"), "{answer}");
}

/// A proxy that opens each tunnel for `a.invalid` and then echoes what it was sent, and refuses all others.
fn tunnelling() -> SocketAddr {
    let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = proxy.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in proxy.incoming().flatten() {
            let mut both = &stream;
            let mut piece = [0_u8; 4096];
            let count = both.read(&mut piece).unwrap();
            let head = String::from_utf8_lossy(&piece[..count]).into_owned();
            if head.starts_with("CONNECT a.invalid:443 ") {
                both.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{head}").as_bytes())
                    .unwrap()
            } else {
                both.write_all(b"HTTP/1.1 407 No\r\n\r\n").unwrap()
            }
        }
    });
    address
}

#[test]
fn tunnels_go_through_the_proxy_of_the_user() {
    let proxy = tunnelling();
    let (upstream, _) =
        Upstream::from_environment(&[("HTTPS_PROXY".into(), format!("http://{proxy}").into())]);
    let fixture = fixture_with(upstream, Vec::new(), |_| vec!["*.invalid".into()]);
    let answer = fixture.ask("CONNECT a.invalid:443 HTTP/1.1\r\n\r\n");
    assert_eq!(
        answer,
        "HTTP/1.1 200 Connection established\r\n\r\nCONNECT a.invalid:443 HTTP/1.1\r\nHost: a.invalid:443\r\n\r\n"
    );
    let answer = fixture.ask("CONNECT b.invalid:443 HTTP/1.1\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 502 Bad Gateway\r\nX-Refused: upstream_refused"),
        "{answer}"
    );
}
