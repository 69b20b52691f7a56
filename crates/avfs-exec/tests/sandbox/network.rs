//! What a run can reach: nothing, listed hosts, or everything that the host reaches.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use avfs_exec::launch::CommandEnd;
use avfs_exec::network::{HostRule, PortPublication};
use avfs_exec::{Network, SandboxPlan};

use crate::kit::{Workspace, bubblewrap, launch, launch_by, outside, prints_of, stderr, stdout};

fn server() -> SocketAddr {
    server_at("127.0.0.1")
}

/// A web server on this machine that answers `hello`.
fn server_at(address: &str) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if is_asked(&mut stream) {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
                    .ok();
            }
        }
    });
    address
}

/// Reads a request to its end: closing a connection with unread bytes resets it, and the answer is lost.
fn is_asked(stream: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    let mut piece = [0_u8; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece) {
            // A client that closes early only probed the port.
            Ok(0) | Err(_) => return false,
            Ok(count) => request.extend_from_slice(&piece[..count]),
        }
    }
    true
}

fn python(workspace: &Workspace, network: Network, program: &str) -> SandboxPlan {
    SandboxPlan {
        network,
        ..workspace.plan(&["/usr/bin/python3", "-c", program])
    }
}

fn connect(address: SocketAddr) -> String {
    format!(
        "import socket; socket.create_connection(('{}', {}), 20); print('connected')",
        address.ip(),
        address.port()
    )
}

fn hosts(rules: &[&str]) -> Network {
    Network::Hosts(
        rules
            .iter()
            .map(|rule| rule.parse::<HostRule>().unwrap())
            .collect(),
    )
}

#[test]
fn without_a_network_nothing_is_reached_but_oneself() {
    let address = server();
    outside(&format!("/usr/bin/python3 -c \"{}\"", connect(address)));
    for network in [Network::None, hosts(&[])] {
        let outcome = launch(&python(&Workspace::new(), network, &connect(address)));
        assert_eq!(outcome.end, CommandEnd::Exited(1));
        assert!(
            stderr(&outcome).contains("Connection refused"),
            "{}",
            stderr(&outcome)
        );
    }
    let local = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print('local')";
    assert_eq!(
        prints_of(&python(&Workspace::new(), Network::None, local)),
        "local\n"
    );
}

#[test]
fn packets_names_and_raw_sockets_go_nowhere() {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let program = format!(
        "import socket
def attempt(name, act):
    try:
        act(); print(name, 'went')
    except OSError as error:
        print(name, type(error).__name__)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
attempt('far', lambda: udp.sendto(b'x', ('192.0.2.1', 9)))
attempt('near', lambda: udp.sendto(b'x', ('127.0.0.1', {port})))
attempt('name', lambda: socket.getaddrinfo('example.com', 80))
attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))"
    );
    for network in [Network::None, hosts(&["example.com"])] {
        let said = prints_of(&python(&Workspace::new(), network, &program));
        assert_eq!(
            said,
            "far OSError\nnear went\nname gaierror\nraw PermissionError\n"
        );
    }
    // It was sent to the sandbox's own loopback.
    assert!(receiver.recv(&mut [0; 8]).is_err());
}

#[test]
fn listed_hosts_are_reached_by_programs_that_know_proxies_and_by_nothing_else() {
    let address = server_at("127.0.0.2");
    // Any port of it, so that no port is bound inside.
    let listed = || hosts(&["127.0.0.2"]);
    let fetch = format!(
        "import urllib.request; print(urllib.request.urlopen('http://{address}/').read().decode(), end='')"
    );
    assert_eq!(prints_of(&python(&Workspace::new(), listed(), &fetch)), "hello\n");
    let outcome = launch(&python(&Workspace::new(), listed(), &connect(address)));
    assert!(
        stderr(&outcome).contains("Connection refused"),
        "{}",
        stderr(&outcome)
    );
    assert_eq!(outcome.refusals, []);
}

/// The output of clients for a page: each called as users do, without proxy options.
fn clients(url: &str) -> Vec<Vec<String>> {
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<String>>()
    };
    let urllib = format!("import urllib.request as u; print(u.urlopen('{url}').read().decode(), end='')");
    let node = format!("fetch('{url}').then(r => r.text()).then(t => process.stdout.write(t))");
    let http = format!("require('http').get('{url}', r => r.pipe(process.stdout))");
    vec![
        words(&["curl", "-sS", url]),
        words(&["/usr/bin/python3", "-c", &urllib]),
        words(&["node", "-e", &node]),
        words(&["node", "-e", &http]),
    ]
}

#[test]
fn a_listed_port_of_this_machine_is_reached_under_its_own_address_by_every_client() {
    let address = server();
    let port = address.port();
    for (rule, host) in [
        (format!("127.0.0.1:{port}"), "127.0.0.1"),
        (format!("localhost:{port}"), "localhost"),
    ] {
        for client in clients(&format!("http://{host}:{port}/")) {
            let words: Vec<&str> = client.iter().map(String::as_str).collect();
            let workspace = Workspace::new();
            let plan = SandboxPlan {
                network: hosts(&[&rule]),
                ..workspace.plan(&words)
            };
            assert_eq!(prints_of(&plan), "hello\n", "{client:?}");
        }
    }
    let listed = hosts(&[&address.to_string()]);
    assert_eq!(
        prints_of(&python(&Workspace::new(), listed, &connect(address))),
        "connected\n"
    );
}

#[test]
fn listed_port_without_a_listener_is_reported() {
    let address = server();
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    drop(silent);
    let program = format!("import socket; print(socket.create_connection(('127.0.0.1', {port})).recv(9))");
    let network = hosts(&[&format!("127.0.0.1:{port}"), &address.to_string()]);
    let outcome = launch(&python(&Workspace::new(), network, &program));
    let told: Vec<(&str, &str)> = outcome
        .refusals
        .iter()
        .map(|refusal| (refusal.target.as_str(), refusal.because.code()))
        .collect();
    assert_eq!(
        told,
        [(format!("127.0.0.1:{port}").as_str(), "connect_failed")],
        "{}",
        stderr(&outcome)
    );
}

#[test]
fn attempts_without_a_network_are_reported() {
    let outcome = launch(&SandboxPlan {
        network: Network::None,
        ..Workspace::new().plan(&["curl", "-sS", "https://registry.npmjs.org/x"])
    });
    assert_ne!(outcome.end, CommandEnd::Exited(0));
    let told: Vec<_> = outcome
        .refusals
        .iter()
        .map(|one| (one.target.as_str(), one.allow.as_deref()))
        .collect();
    assert_eq!(
        told,
        [("registry.npmjs.org:443", Some("+registry.npmjs.org"))],
        "{}",
        stderr(&outcome)
    );
}

#[test]
fn servers_inside_are_reached_without_the_proxy() {
    let program = |url: &str| {
        format!(
            "python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 & \
             until bash -c '</dev/tcp/127.0.0.1/8000' 2>/dev/null; do :; done; curl -sS -o /dev/null -w '%{{http_code}}' {url}"
        )
    };
    for host in ["127.0.0.1", "localhost", "sandbox"] {
        let workspace = Workspace::new();
        let plan = workspace.plan(&["bash", "-c", &program(&format!("http://{host}:8000/"))]);
        assert_eq!(prints_of(&plan), "200", "{host}");
    }
}

#[test]
fn a_published_port_is_reached_from_this_machine_in_both_families() {
    for bind in ["127.0.0.1", "0.0.0.0", "::1"] {
        let published = "0:8000".parse::<PortPublication>().unwrap().open().unwrap();
        let at = published.at();
        // It answers one request and ends.
        let program = format!(
            "import http.server, socket
class Server(http.server.HTTPServer):
    address_family = socket.AF_INET6 if ':' in '{bind}' else socket.AF_INET
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'from inside')
server = Server(('{bind}', 8000), Handler)
server.handle_request()"
        );
        let asking = std::thread::spawn(move || {
            loop {
                let mut stream = TcpStream::connect(at).unwrap();
                stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
                let mut answer = String::new();
                // Until the server listens, a connection is closed without an answer.
                if stream.read_to_string(&mut answer).is_ok() && !answer.is_empty() {
                    return answer;
                }
            }
        });
        let workspace = Workspace::new();
        let plan = SandboxPlan {
            published: vec![published],
            ..python(&workspace, Network::None, &program)
        };
        let outcome = launch(&plan);
        assert_eq!(outcome.end, CommandEnd::Exited(0), "{bind}: {}", stderr(&outcome));
        assert!(asking.join().unwrap().ends_with("from inside"), "{bind}");
        assert!(TcpStream::connect(at).is_err(), "the port is free again");
    }
}

#[test]
fn a_port_that_means_something_else_inside_is_not_published() {
    let published = || vec!["0:8000".parse::<PortPublication>().unwrap().open().unwrap()];
    for network in [Network::Host, hosts(&["127.0.0.1:8000"])] {
        let workspace = Workspace::new();
        let plan = SandboxPlan {
            published: published(),
            network,
            ..workspace.plan(&["true"])
        };
        let error = launch_by(&bubblewrap(), &plan).unwrap_err();
        assert_eq!(error.code(), "bad_plan", "{error}");
    }
}

#[test]
fn unlisted_host_is_refused_and_reported() {
    let address = server();
    let program = format!(
        "import http.client
for target in ['{address}', 'other.example:443']:
    c = http.client.HTTPConnection('127.0.0.1', 3128)
    c.request('GET', 'http://' + target + '/')
    answer = c.getresponse()
    print(answer.status, answer.getheader('X-Refused'))"
    );
    let outcome = launch(&python(&Workspace::new(), hosts(&["listed.example"]), &program));
    assert_eq!(
        stdout(&outcome),
        "403 private_address\n403 host_not_listed\n",
        "{}",
        stderr(&outcome)
    );
    let told: Vec<(&str, &str)> = outcome
        .refusals
        .iter()
        .map(|refusal| (refusal.target.as_str(), refusal.because.code()))
        .collect();
    assert_eq!(
        told,
        [
            (address.to_string().as_str(), "private_address"),
            ("other.example:443", "host_not_listed")
        ]
    );
}

#[test]
fn the_hosts_network_is_the_hosts() {
    let address = server();
    assert_eq!(
        prints_of(&python(&Workspace::new(), Network::Host, &connect(address))),
        "connected\n"
    );
}
