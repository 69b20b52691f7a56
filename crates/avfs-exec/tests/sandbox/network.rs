//! What can be reached: nothing, listed hosts, or what the host reaches.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use avfs_exec::launch::End;
use avfs_exec::network::HostRule;
use avfs_exec::{Network, Plan};

use crate::kit::{Workspace, launch, outside, prints_of, stderr, stdout};

/// A web server on this machine that says `hello`.
fn server() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
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

/// Reads a request to its end: what is closed with bytes left to be read is reset, and the answer is lost.
fn is_asked(stream: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    let mut piece = [0_u8; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece) {
            // A client that goes early is one that only looked.
            Ok(0) | Err(_) => return false,
            Ok(count) => request.extend_from_slice(&piece[..count]),
        }
    }
    true
}

fn python(workspace: &Workspace, network: Network, program: &str) -> Plan {
    Plan { network, ..workspace.plan(&["/usr/bin/python3", "-c", program]) }
}

fn connect(address: SocketAddr) -> String {
    format!(
        "import socket; socket.create_connection(('{}', {}), 20); print('connected')",
        address.ip(),
        address.port()
    )
}

fn hosts(rules: &[&str]) -> Network {
    Network::Hosts(rules.iter().map(|rule| rule.parse::<HostRule>().unwrap()).collect())
}

#[test]
fn without_a_network_nothing_is_reached_but_oneself() {
    let address = server();
    outside(&format!("/usr/bin/python3 -c \"{}\"", connect(address)));
    for network in [Network::None, hosts(&[])] {
        let outcome = launch(&python(&Workspace::new(), network, &connect(address)));
        assert_eq!(outcome.end, End::Exited(1));
        assert!(stderr(&outcome).contains("Connection refused"), "{}", stderr(&outcome));
    }
    let local = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print('local')";
    assert_eq!(prints_of(&python(&Workspace::new(), Network::None, local)), "local\n");
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
        assert_eq!(said, "far OSError\nnear went\nname gaierror\nraw PermissionError\n");
    }
    // It went to the sandbox's own loopback.
    assert!(receiver.recv(&mut [0; 8]).is_err());
}

#[test]
fn listed_hosts_are_reached_by_programs_that_know_proxies_and_by_nothing_else() {
    let address = server();
    let listed = || hosts(&[&address.to_string()]);
    let fetch = format!(
        "import urllib.request; print(urllib.request.urlopen('http://{address}/').read().decode(), end='')"
    );
    // Python does not ask a proxy for this machine, unless it is told to.
    let fetch = format!("import os; os.environ['no_proxy'] = os.environ['NO_PROXY'] = ''; {fetch}");
    assert_eq!(prints_of(&python(&Workspace::new(), listed(), &fetch)), "hello\n");
    let outcome = launch(&python(&Workspace::new(), listed(), &connect(address)));
    assert!(stderr(&outcome).contains("Connection refused"), "{}", stderr(&outcome));
    assert_eq!(outcome.refusals, []);
}

#[test]
fn what_is_not_listed_is_refused_and_told() {
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
    assert_eq!(stdout(&outcome), "403 private_address\n403 host_not_listed\n", "{}", stderr(&outcome));
    let told: Vec<(&str, &str)> =
        outcome.refusals.iter().map(|refusal| (refusal.target.as_str(), refusal.because.code())).collect();
    assert_eq!(
        told,
        [(address.to_string().as_str(), "private_address"), ("other.example:443", "host_not_listed")]
    );
}

#[test]
fn the_hosts_network_is_the_hosts() {
    let address = server();
    assert_eq!(prints_of(&python(&Workspace::new(), Network::Host, &connect(address))), "connected\n");
}
