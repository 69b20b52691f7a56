//! An open sandbox as its owner holds it: stopped and continued, measured, reached at its ports, with another network.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use avfs_exec::network::{HostRule, HostsNotChanged};
use avfs_exec::processes::{OutputEvent, ProcessError};
use avfs_exec::{Network, ProcessSandbox, ProcessSpec, SandboxPlan, SandboxProcess};

use crate::kit::{Workspace, bubblewrap};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

struct Held {
    sandbox: ProcessSandbox,
    _workspace: Workspace,
}

impl Held {
    fn open(network: Network) -> Self {
        let workspace = Workspace::new();
        let plan = SandboxPlan {
            network,
            ..workspace.plan(&[])
        };
        Self {
            sandbox: ProcessSandbox::start(bubblewrap(), plan).unwrap(),
            _workspace: workspace,
        }
    }

    fn start(&self, command: &[&str]) -> SandboxProcess {
        self.sandbox.spawn(ProcessSpec::new(command)).unwrap()
    }

    /// The output of a script that must succeed.
    #[track_caller]
    fn prints(&self, command: &[&str]) -> String {
        let process = self.start(command);
        let end = process.wait(LONG).expect("it ends");
        let output = process.output();
        let errors = String::from_utf8_lossy(&output.stderr.bytes()).into_owned();
        assert_eq!(end.status(), 0, "{errors}");
        String::from_utf8(output.stdout.bytes().clone()).unwrap()
    }

    /// The state of a process, as the kernel has it: `S`, `R`, `T` …
    fn state(&self, pid: &str) -> String {
        let script = format!("sed 's/.*) \\(.\\).*/\\1/' /proc/{pid}/stat");
        self.prints(&["sh", "-c", &script]).trim().to_owned()
    }

    #[track_caller]
    fn await_state(&self, pid: &str, holds: impl Fn(&str) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let state = self.state(pid);
            if holds(&state) {
                return;
            }
            assert!(Instant::now() < until, "process {pid} is {state}");
        }
    }
}

/// The first line that a process writes.
#[track_caller]
fn first_line(process: &SandboxProcess) -> String {
    let mut events = process.subscribe();
    let mut heard = events.so_far().stdout.bytes().clone();
    while !heard.contains(&b'\n') {
        match events.receive(LONG).unwrap() {
            OutputEvent::Stdout(bytes) => heard.extend_from_slice(&bytes),
            other => panic!("{other:?} after {heard:?}"),
        }
    }
    String::from_utf8(heard)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned()
}

#[test]
fn a_pause_stops_every_process_whatever_its_session() {
    let held = Held::open(Network::None);
    let script = "setsid sh -c 'echo $$; while :; do :; done' & while :; do :; done";
    let busy = held.start(&["sh", "-c", script]);
    let (own, apart) = (busy.pid().unwrap().to_string(), first_line(&busy));
    for _ in 0..2 {
        held.sandbox.pause().unwrap();
        for pid in [&own, &apart] {
            held.await_state(pid, |state| state == "T");
        }
        held.sandbox.resume().unwrap();
        for pid in [&own, &apart] {
            held.await_state(pid, |state| state != "T");
        }
    }
    // Stopped processes end with their sandbox like others.
    held.sandbox.pause().unwrap();
    held.sandbox.cancel().cancel();
    assert!(held.sandbox.wait(LONG));
    assert!(matches!(held.sandbox.pause(), Err(ProcessError::SandboxEnded)));
}

#[test]
fn memory_in_use_is_that_of_all_processes() {
    let held = Held::open(Network::None);
    let program = "x = bytearray(64 << 20); print('full', flush=True); import time; time.sleep(600)";
    let full = held.start(&["/usr/bin/python3", "-c", program]);
    assert_eq!(first_line(&full), "full");
    let now = held.sandbox.memory().expect("control groups that count memory");
    assert!(now.used > 64 << 20, "{now:?}");
    assert!(now.cache < now.used, "{now:?}");
}

#[test]
fn ports_inside_are_reached_while_the_sandbox_is_open() {
    let held = Held::open(Network::None);
    for address in ["127.0.0.1", "0.0.0.0", "::1"] {
        let program = format!(
            "import socket
server = socket.socket(socket.AF_INET6 if ':' in '{address}' else socket.AF_INET)
server.bind(('{address}', 0)); server.listen()
print(server.getsockname()[1], flush=True)
while True:
    client, _ = server.accept()
    client.sendall(client.recv(9))
    client.recv(1)"
        );
        let server = held.start(&["/usr/bin/python3", "-c", &program]);
        let port = first_line(&server).parse().unwrap();
        let (mut stream, _connection) = held.sandbox.connect(port).unwrap();
        stream.write_all(b"hello").unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello", "{address}");
    }
    assert_eq!(
        held.sandbox.connect(1).unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
    // Behind the proxy's port is not the sandbox, but what it may reach.
    assert_eq!(
        held.sandbox.connect(3128).unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
}

#[test]
fn connections_to_ports_have_a_bound_and_end_with_the_sandbox() {
    let held = Held::open(Network::None);
    let program = "import socket; s = socket.create_server(('127.0.0.1', 0), backlog=600)
print(s.getsockname()[1], flush=True)
kept = []
while True: kept.append(s.accept())";
    let port = first_line(&held.start(&["/usr/bin/python3", "-c", program]))
        .parse()
        .unwrap();
    let mut all: Vec<_> = (0..256).map(|_| held.sandbox.connect(port).unwrap()).collect();
    assert_eq!(
        held.sandbox.connect(port).unwrap_err().kind(),
        ErrorKind::ResourceBusy
    );
    drop(all.pop());
    let (mut last, _connection) = held.sandbox.connect(port).unwrap();
    held.sandbox.cancel().cancel();
    assert!(held.sandbox.wait(LONG));
    assert_eq!(last.read(&mut [0]).unwrap_or(0), 0);
    assert_eq!(
        held.sandbox.connect(port).unwrap_err().kind(),
        ErrorKind::NotConnected
    );
}

#[test]
fn a_sandbox_with_the_network_of_the_host_has_no_ports_of_its_own() {
    let held = Held::open(Network::Host);
    assert_eq!(
        held.sandbox.connect(80).unwrap_err().kind(),
        ErrorKind::NotConnected
    );
    assert_eq!(
        held.sandbox.set_hosts(Vec::new()),
        Err(HostsNotChanged::NoNetwork)
    );
}

#[test]
fn hosts_change_while_processes_run() {
    let held = Held::open(Network::None);
    let program = "import http.client
c = http.client.HTTPConnection('127.0.0.1', 3128)
c.request('GET', 'http://nowhere.invalid/')
print(c.getresponse().getheader('X-Refused'))";
    let asks = || {
        held.prints(&["/usr/bin/python3", "-c", program])
            .trim()
            .to_owned()
    };
    let rule = |text: &str| text.parse::<HostRule>().unwrap();
    assert_eq!(asks(), "host_not_listed");
    // A name that nobody can look up: that it is looked up at all shows that it is listed.
    held.sandbox.set_hosts(vec![rule("nowhere.invalid")]).unwrap();
    assert_eq!(asks(), "resolve_failed");
    held.sandbox.set_hosts(Vec::new()).unwrap();
    assert_eq!(asks(), "host_not_listed");
    let local = held.sandbox.set_hosts(vec![rule("127.0.0.1:80")]);
    assert_eq!(local, Err(HostsNotChanged::ThisMachine));
}
