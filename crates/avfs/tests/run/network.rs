//! What an agent reaches: the hosts of its profile, through the proxy.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::net::TcpListener;
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
        let port = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
        let place = project.home();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"])
            .args(["-addext", "subjectAltName=IP:127.0.0.2", "-keyout", "server-key", "-out", "web/ca.crt"])
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
        // It says so when it listens, and goes on to say a little.
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(said.by_ref().any(|line| line.unwrap().starts_with("ACCEPT")));
        Server { process, port, _said: said }
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
    let output = run.env("AGENT_URL", &url).env("SSL_CERT_FILE", &authority).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "200\nnot reached\n");
    let body: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(body["network_refusals"][0]["target"], "127.0.0.3:1");
    assert_eq!(body["profile"], "agent");
    assert!(fs::exists(&authority).unwrap());

    let mut alone = project.avfs(&["run", "--net", "none", "--", "agent", "https"]);
    let ended = alone.env("AGENT_URL", &url).env("SSL_CERT_FILE", &authority).output().unwrap();
    assert!(!ended.status.success());
    good(&mut project.avfs(&["tasks"]));
}
