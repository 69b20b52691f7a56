//! The hosts that an agent reaches: those of its profile, through the proxy.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::project::{Project, good};

/// A web server that speaks TLS at an address of this machine that no proxy is bypassed for.
struct Server {
    process: Child,
    port: u16,
    _said: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(project: &Project) -> Server {
        let port = TcpListener::bind("127.0.0.2:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let place = project.home();
        let made = Command::new("openssl")
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
            ])
            .args([
                "-addext",
                "subjectAltName=IP:127.0.0.2",
                "-keyout",
                "server-key",
                "-out",
                "web/ca.crt",
            ])
            .current_dir(&place)
            .stderr(Stdio::null())
            .status();
        assert!(made.unwrap().success());
        let mut process = Command::new("openssl")
            .args(["s_server", "-www", "-accept", &format!("127.0.0.2:{port}")])
            .args(["-key", "server-key", "-cert", "web/ca.crt"])
            .current_dir(&place)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It reports when it listens, and prints a little afterwards.
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(said.by_ref().any(|line| line.unwrap().starts_with("ACCEPT")));
        Server {
            process,
            port,
            _said: said,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn an_agent_speaks_https_with_the_hosts_of_its_profile_and_no_other() {
    let project = Project::new();
    let server = Server::start(&project);
    let url = format!("https://127.0.0.2:{}/", server.port);
    let authority = project.root().join("ca.crt");
    let mut run = project.avfs(&["run", "--json", "--", "agent", "https"]);
    let output = run
        .env("AGENT_URL", &url)
        .env("SSL_CERT_FILE", &authority)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "200\nnot reached\n");
    let body: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(body["network_refusals"][0]["target"], "127.0.0.3:1");
    assert_eq!(body["profile"], "agent");
    assert!(fs::exists(&authority).unwrap());

    let mut alone = project.avfs(&["run", "--net", "none", "--", "agent", "https"]);
    let ended = alone
        .env("AGENT_URL", &url)
        .env("SSL_CERT_FILE", &authority)
        .output()
        .unwrap();
    assert!(!ended.status.success());
    good(&mut project.avfs(&["tasks"]));
}

#[test]
fn network_of_a_run_that_a_person_types_is_granted_by_typing_it_and_noted() {
    let project = Project::new();
    let run = [
        "run",
        "--name",
        "open",
        "--net",
        "a.example",
        "--publish",
        "0:8000",
        "--",
        "true",
    ];
    good(&mut project.avfs(&run));
    good(&mut project.avfs(&["run", "--name", "shut", "--net", "none", "--", "true"]));
    let noted = |task: &str| good(&mut project.avfs(&["audit", "--vault", task]));
    let (open, shut) = (noted("open"), noted("shut"));
    let given = "[write, network a.example, publishes 127.0.0.1:0:8000, bubblewrap ";
    assert!(open.contains(given) && open.contains("]: true"), "{open}");
    assert!(shut.contains("[write, network none, bubblewrap "), "{shut}");
}

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn refused_hosts_are_reported_with_the_command_to_type_even_without_a_network() {
    let project = Project::new();
    let run = [
        "run",
        "--net",
        "none",
        "--",
        "curl",
        "-sS",
        "https://registry.npmjs.org/a%20b",
    ];
    let told = said(&project.avfs(&run).output().unwrap());
    assert!(
        told.contains("not reached: registry.npmjs.org:443 (host_not_listed)\n"),
        "{told}"
    );
    let allow =
        "allow: avfs run --net none --net +registry.npmjs.org -- curl -sS https://registry.npmjs.org/a%20b\n";
    assert!(told.contains(allow), "{told}");
    assert!(told.contains("with --net +npm,"), "{told}");
    let output = project
        .avfs(&["run", "--json", "--", "curl", "-sS", "http://a.example:8080/"])
        .output()
        .unwrap();
    let body: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = serde_json::json!([
        { "target": "a.example:8080", "reason": "host_not_listed", "count": 1, "allow": "+a.example:8080" }
    ]);
    assert_eq!(body["network_refusals"], expected);
}

/// Asks once a server is there.
fn get(at: &str) -> String {
    loop {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(b"GET /work.txt HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        // Until then, a connection is only closed.
        if stream.read_to_string(&mut answer).is_ok() && !answer.is_empty() {
            return answer;
        }
    }
}

#[test]
fn a_port_inside_is_published_until_the_program_ends() {
    let project = Project::new();
    let serve = "python3 -m http.server 8000 & until [ -e done ]; do sleep 0.02; done";
    let mut process = project
        .avfs(&[
            "run",
            "--publish",
            "0:8000",
            "--name",
            "served",
            "--",
            "sh",
            "-c",
            serve,
        ])
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let line = lines
        .by_ref()
        .map(Result::unwrap)
        .find(|line| line.starts_with("published: "))
        .unwrap();
    let at = line
        .strip_prefix("published: http://")
        .unwrap()
        .strip_suffix(" is port 8000 inside")
        .unwrap();
    assert!(at.starts_with("127.0.0.1:"), "{line}");
    assert!(get(at).ends_with("as it was\n"));

    let port = at.rsplit(':').next().unwrap();
    let busy = project
        .avfs(&["run", "--publish", port, "--name", "other", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(busy.status.code(), Some(5), "{}", said(&busy));
    assert!(
        said(&busy).contains(&format!("port {port} of 127.0.0.1 is taken")),
        "{}",
        said(&busy)
    );
    assert!(
        !good(&mut project.avfs(&["tasks"])).contains("other"),
        "nothing was begun"
    );

    good(&mut project.avfs(&["write", "--vault", "served", "/done", "x"]));
    lines.for_each(drop);
    assert!(process.wait().unwrap().success());
    assert!(TcpStream::connect(at).is_err());
}

#[test]
fn a_session_publishes_its_ports_and_tells_what_its_commands_did_not_reach() {
    let project = Project::new();
    good(&mut project.avfs(&["run", "--name", "work", "--", "touch", "file"]));
    let policy = project.home().join("grants.toml");
    fs::write(&policy, "[network]\npublish = [\"0:8000\"]\n").unwrap();
    let policy = policy.to_str().unwrap();
    let start = [
        "session",
        "start",
        "--json",
        "--vault",
        "work",
        "--policy",
        policy,
        "--publish",
        "0:8000",
    ];
    let body: serde_json::Value = serde_json::from_str(&good(&mut project.avfs(&start))).unwrap();
    let (id, at) = (
        body["id"].as_str().unwrap(),
        body["published"][0]["at"].as_str().unwrap(),
    );
    good(&mut project.avfs(&[
        "session",
        "exec",
        id,
        "-c",
        "python3 -m http.server 8000 >/dev/null 2>&1 &",
    ]));
    assert!(get(at).starts_with("HTTP/1.0 200 OK"));
    let asked = "python3 -c 'import urllib.request as u; u.urlopen(\"http://a.example\")' 2>/dev/null; true";
    let output = project
        .avfs(&["session", "exec", id, "--json", "-c", asked])
        .output()
        .unwrap();
    let body: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let refusals = &body["result"]["network_refusals"];
    assert_eq!(refusals[0]["allow"], "+a.example", "{body:#}");
    let next = project
        .avfs(&["session", "exec", id, "--json", "-c", "true"])
        .output()
        .unwrap();
    let body: serde_json::Value = serde_json::from_slice(&next.stdout).unwrap();
    assert_eq!(
        body["result"]["network_refusals"],
        serde_json::json!([]),
        "each is reported once"
    );
    good(&mut project.avfs(&["session", "stop", id]));
    assert!(TcpStream::connect(at).is_err());
}

#[test]
fn the_proxy_of_the_user_is_gone_through_and_its_password_is_not_seen_inside() {
    let project = Project::new();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = proxy.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
            .unwrap();
        String::from_utf8(head).unwrap()
    });
    let mut run = project.avfs(&[
        "run",
        "--net",
        "a.invalid",
        "--",
        "sh",
        "-c",
        "curl -sS http://a.invalid/x; env",
    ]);
    let printed = good(run.env("http_proxy", format!("http://user:s3cret@{address}")));
    assert!(printed.starts_with("hello\n"), "{printed}");
    let head = serving.join().unwrap();
    assert!(head.starts_with("GET http://a.invalid/x HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains("Proxy-Authorization: Basic dXNlcjpzM2NyZXQ=\r\n"),
        "{head}"
    );
    assert!(
        !printed.contains("s3cret") && !printed.contains(&address.to_string()),
        "{printed}"
    );
}

#[test]
fn a_variable_is_passed_on_by_its_name_or_set() {
    let project = Project::new();
    let words = [
        "run",
        "--name",
        "passing",
        "--env",
        "MY_SECRET",
        "--env",
        "OTHER=2",
        "--env",
        "UNSET",
        "--",
        "sh",
        "-c",
    ];
    let mut run = project.avfs(&[&words[..], &["echo $MY_SECRET $OTHER"]].concat());
    let output = run.env("MY_SECRET", "s3cret").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "s3cret 2\n");
    assert!(
        said(&output).contains("UNSET is not set here, so it is not passed on"),
        "{}",
        said(&output)
    );
    let log = good(&mut project.avfs(&["audit", "--vault", "passing", "--json"]));
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn program_that_repeats_refused_requests_is_slowed_down_and_reported() {
    let project = Project::new();
    let asking =
        "for i in $(seq 22); do curl -s -o /dev/null https://registry.npmjs.org/; done; echo done >&2";
    let begun = std::time::Instant::now();
    let told = said(
        &project
            .avfs(&["run", "--net", "none", "--", "sh", "-c", asking])
            .output()
            .unwrap(),
    );
    // The first twenty are immediate, and the two after them are delayed by 100 and 200 milliseconds.
    assert!(begun.elapsed() >= std::time::Duration::from_millis(300), "{told}");
    let line = "registry.npmjs.org:443 is not reached (host_not_listed), and is requested again and again: --net +npm\n";
    assert_eq!(told.matches(line).count(), 1, "{told}");
    assert!(told.find(line).unwrap() < told.find("done\n").unwrap(), "{told}");
    assert!(
        told.contains("not reached: registry.npmjs.org:443 (host_not_listed, 22 times)"),
        "{told}"
    );
}
