//! The interface of E2B, where its SDKs do not reach: names of ports, what survives a kill, and clients that mean no good.
//! `scripts/server-clients` drives the rest with the SDKs themselves.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::client::{Answer, Client, PATIENCE, Server, eventually, token};
use crate::sandbox::Sandbox;

/// A server on port 8000 that echoes what it is sent, streams when told to, and speaks something else when asked to.
const WEB: &str = r#"
import http.server, os, time
class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        if self.headers['Upgrade'] == 'shout':
            self.send_response(101)
            self.send_header('Upgrade', 'shout')
            self.send_header('Connection', 'Upgrade')
            self.end_headers()
            while data := self.connection.recv(100):
                self.connection.sendall(data.upper())
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header('Transfer-Encoding', 'chunked')
        self.send_header('X-Path', self.path)
        self.send_header('X-Cookie', self.headers['Cookie'] or '')
        self.end_headers()
        self.chunk(b'one')
        if self.path == '/slow':
            while not os.path.exists('go'):
                time.sleep(0.01)
        self.chunk(b'two')
        self.chunk(b'')
    def chunk(self, data):
        self.wfile.write(b'%x\r\n%s\r\n' % (len(data), data))
        self.wfile.flush()
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(201)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body[::-1])
http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Web).serve_forever()
"#;

/// A sandbox, as its maker was told of it.
struct Made {
    id: String,
    traffic: String,
    domain: String,
}

#[track_caller]
fn create(client: &Client<'_>, more: Value) -> Made {
    let mut body = json!({ "templateID": "base", "timeout": 300 });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let made = client.post("/v2/sandboxes", &body).is(201).json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    Made {
        id: text("sandboxID"),
        traffic: text("trafficAccessToken"),
        domain: text("domain"),
    }
}

impl Made {
    /// Its path in the server's own interface.
    fn path(&self) -> String {
        format!("/api/v1/sandboxes/{}", self.id)
    }

    fn host(&self, port: u16) -> String {
        format!("{port}-{}.{}", self.id, self.domain)
    }

    /// Requests to a port of it, by somebody who has only its name.
    fn at<'a>(&self, server: &'a Server, port: u16) -> Client<'a> {
        server.open().header("Host", &self.host(port))
    }

    /// Starts the server on port 8000, and waits until it answers.
    fn serve(&self, client: &Client<'_>, is_up: impl Fn() -> Answer) {
        client
            .put(&format!("{}/files?path=/web.py", self.path()), WEB.as_bytes())
            .is(200);
        let start = json!({ "command": "python3 web.py" });
        client.post(&format!("{}/processes", self.path()), &start).is(201);
        eventually(|| is_up().status == 200);
    }

    fn state(&self, client: &Client<'_>) -> String {
        let told = client.get(&format!("/sandboxes/{}", self.id)).is(200).json();
        told["state"].as_str().unwrap().to_owned()
    }
}

/// Reads until all of this has come.
fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut so_far = Vec::new();
    let mut piece = [0; 1000];
    while !String::from_utf8_lossy(&so_far).contains(wanted) {
        let count = stream.read(&mut piece).unwrap();
        assert!(
            count > 0,
            "the connection ended after {:?}",
            String::from_utf8_lossy(&so_far)
        );
        so_far.extend_from_slice(&piece[..count]);
    }
    String::from_utf8(so_far).unwrap()
}

fn send(server: &Server, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn a_port_of_a_sandbox_has_a_name() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let made = create(&client, json!({}));
    let at = made.at(&server, 8000);
    // Nothing listens there yet, and not even a process runs.
    let answer = at.get("/").is(502).json();
    assert_eq!(answer["message"], "The sandbox is running but port is not open");
    made.serve(&client, || at.get("/"));

    let answer = at.clone().header("Cookie", "a=b").get("/a%20b?c=d").is(200);
    assert_eq!(answer.body, b"onetwo");
    assert_eq!(answer.header("x-path"), Some("/a%20b?c=d"));
    assert_eq!(answer.header("x-cookie"), Some("a=b"));
    // What is inside says what its answers are.
    assert_eq!(answer.header("cache-control"), None);
    let large = vec![b'x'; 3 << 20];
    assert_eq!(at.post("/", &json!([1, 23])).is(201).body, b"]32,1[");
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n",
        made.host(8000),
        large.len()
    );
    assert_eq!(server.open().raw(&head, &large).is(201).body, large);

    let mut slow = send(
        &server,
        &format!("GET /slow HTTP/1.1\r\nHost: {}\r\n\r\n", made.host(8000)),
    );
    read_until(&mut slow, "one");
    client
        .put(&format!("{}/files?path=/go", made.path()), b"")
        .is(200);
    read_until(&mut slow, "two");

    let upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: shout\r\n\r\n";
    let mut shout = send(
        &server,
        &format!("GET / HTTP/1.1\r\nHost: {}\r\n{upgrade}", made.host(8000)),
    );
    let head = read_until(&mut shout, "\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 101") && head.contains("shout"),
        "{head}"
    );
    for said in ["hello", "again"] {
        shout.write_all(said.as_bytes()).unwrap();
        read_until(&mut shout, &said.to_uppercase());
    }
    client.delete(&format!("/sandboxes/{}", made.id)).is(204);
    // What was upgraded ends with its sandbox.
    assert_eq!(shout.read(&mut [0]).unwrap_or(0), 0);
    at.get("/").is(502);
}

#[test]
fn names_of_ports_lead_nowhere_else() {
    let house = Sandbox::new();
    let server = Server::start(&house, &["--host", "box.example"]);
    let client = server.with(&token(&house, "--scope run"));
    let made = create(&client, json!({}));
    client.line(&made.path(), "true");
    let ask = |host: &str| server.open().header("Host", host).get("/");
    for host in [
        made.host(8000).replace(&made.id, "sb00000000000000000000"),
        // The proxy of the sandbox: behind it is not the sandbox.
        made.host(3128),
        made.host(1),
    ] {
        assert_eq!(ask(&host).status, 502, "{host}");
    }
    let other = [
        format!("8000-{}.evil.example", made.id),
        format!("8000-{}.x.box.example", made.id),
        format!("8000-{}.", made.id),
        format!("0-{}.box.example", made.id),
    ];
    for host in other {
        assert_eq!(ask(&host).status, 403, "{host}");
    }
    // Under the names of the server's own calls, those demand their tokens.
    for port in [49983, 49999] {
        let host = format!("{port}-{}.box.example", made.id);
        let named = server.open().header("Host", &host);
        named.get("/files?path=x").is(401);
        named.get("/contexts").is(401);
        named.get("/api/v1/sandboxes").is(401);
        let with = named.clone().header("E2B-Traffic-Access-Token", &made.traffic);
        with.get("/contexts").is(200);
        with.get("/files?path=x").is(401);
    }
    // A sandbox that was not made by this interface has no names.
    let native = client.sandbox(&json!({}));
    let id = native.rsplit('/').next().unwrap();
    assert_eq!(ask(&format!("8000-{id}.box.example")).status, 502);
}

#[test]
fn ports_can_demand_a_token() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let made = create(&client, json!({ "network": { "allowPublicTraffic": false } }));
    let other = create(&client, json!({}));
    let with = |traffic: &str| made.at(&server, 8000).header("E2B-Traffic-Access-Token", traffic);
    made.serve(&client, || with(&made.traffic).get("/"));
    made.at(&server, 8000).get("/").is(403);
    with(&other.traffic).get("/").is(403);
    with("").get("/").is(403);
}

#[test]
fn a_stored_policy_decides_which_ports_are_reached() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let made = create(&client, json!({}));
    let at = made.at(&server, 8000);
    made.serve(&client, || at.get("/"));
    let policy = "[network]\npublish = [\"8001\"]\nothers = \"deny\"\n";
    std::fs::write(house.path("project/src/strict.toml"), policy).unwrap();
    house.good("policy set strict.toml --everywhere");
    let refused = at.get("/").is(403).json();
    assert!(
        refused["message"].as_str().unwrap().contains("port 8000"),
        "{refused}"
    );
    // This one is granted, and nothing listens there.
    made.at(&server, 8001).get("/").is(502);
}

#[test]
fn a_pause_keeps_processes_whatever_their_session_and_survives_a_kill_without_them() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let made = create(&client, json!({}));
    let count = "setsid bash -c 'i=0; while :; do i=$((i+1)); echo $i >count; done' >/dev/null 2>&1 &";
    client.line(&made.path(), count);
    let seen = || client.get(&format!("{}/files?path=/count", made.path())).body;
    eventually(|| !seen().is_empty());
    let on = format!("/sandboxes/{}", made.id);
    client.post(&format!("{on}/pause"), &json!({})).is(204);
    client.post(&format!("{on}/pause"), &json!({})).is(409);
    assert_eq!(made.state(&client), "paused");
    // The native interface still reads its files: they stand still.
    let mut last = seen();
    eventually(|| {
        let now = seen();
        std::mem::replace(&mut last, now.clone()) == now
    });
    let still = seen();
    made.at(&server, 8000).get("/").is(502);
    assert_eq!(seen(), still);
    client
        .post(&format!("{on}/connect"), &json!({ "timeout": 300 }))
        .is(200);
    eventually(|| !seen().is_empty() && seen() != still);

    client.post(&format!("{on}/pause"), &json!({})).is(204);
    server.kill();
    let server = Server::start(&house, &[]);
    let client = server.with(&key);
    assert_eq!(made.state(&client), "paused");
    client.post(&format!("{on}/connect"), &json!({})).is(200);
    assert_eq!(made.state(&client), "running");
    assert_eq!(client.line(&made.path(), "pgrep -c bash; true"), "1\n");
}

#[test]
fn a_sandbox_can_be_paused_at_the_end_of_its_time_and_woken_by_a_request() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let stays = create(&client, json!({ "autoPause": true }));
    let wakes = create(
        &client,
        json!({ "autoPause": true, "autoResume": { "enabled": true } }),
    );
    let forgets = create(&client, json!({ "autoPause": true, "autoPauseMemory": false }));
    wakes.serve(&client, || wakes.at(&server, 8000).get("/"));
    let sleep = json!({ "command": "sleep 1000" });
    client
        .post(&format!("{}/processes", forgets.path()), &sleep)
        .is(201);
    for made in [&stays, &wakes, &forgets] {
        client
            .post(
                &format!("/sandboxes/{}/timeout", made.id),
                &json!({ "timeout": 0 }),
            )
            .is(204);
        assert_eq!(made.state(&client), "paused");
    }
    eventually(|| client.get(&forgets.path()).is(200).json()["running"] == 0);
    stays.at(&server, 8000).get("/").is(502);
    assert_eq!(stays.state(&client), "paused");
    // Its processes were only stopped.
    assert_eq!(wakes.at(&server, 8000).get("/").is(200).body, b"onetwo");
    assert_eq!(wakes.state(&client), "running");
    let told = client.get(&format!("/sandboxes/{}", wakes.id)).is(200).json();
    assert_eq!(
        told["lifecycle"],
        json!({ "onTimeout": "pause", "autoResume": true })
    );

    client
        .post(
            &format!("/sandboxes/{}/connect", stays.id),
            &json!({ "timeout": 1 }),
        )
        .is(200);
    server.kill();
    let server = Server::start(&house, &[]);
    let client = server.with(&key);
    // Its time ends while no server runs, or soon after: it is paused all the same.
    eventually(|| stays.state(&client) == "paused");
}

#[test]
fn the_network_and_the_names_of_snapshots_survive_a_kill() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let made = create(&client, json!({ "network": { "allowOut": ["one.example"] } }));
    let network = format!("/sandboxes/{}/network", made.id);
    let put = |client: &Client<'_>, body: Value| client.put(&network, body.to_string().as_bytes());
    let hosts = |client: &Client<'_>| {
        let told = client.get(&format!("/sandboxes/{}", made.id)).is(200).json();
        told["network"]["allowOut"].clone()
    };
    assert_eq!(hosts(&client), json!(["one.example"]));
    put(&client, json!({ "allowOut": ["two.example"] })).is(204);
    put(&client, json!({ "allowOut": ["not a host"] })).is(400);
    put(&client, json!({ "rules": { "a.example": [{}] } })).is(501);
    let snapshots = format!("/sandboxes/{}/snapshots", made.id);
    let named = |name: &str| client.post(&snapshots, &json!({ "name": name }));
    let first = named("good:v1").is(201).json();
    let second = named("good:v1").is(201).json();
    assert_eq!(second["names"], json!(["good:v1"]));
    assert_ne!(first["snapshotID"], second["snapshotID"]);
    for bad in ["a b", "snapshot-x", "base", "é", &"x".repeat(200)] {
        named(bad).is(400);
    }
    server.kill();

    let server = Server::start(&house, &[]);
    let client = server.with(&key);
    assert_eq!(hosts(&client), json!(["two.example"]));
    let of = |client: &Client<'_>, query: &str| client.get(&format!("/snapshots?{query}")).is(200);
    assert_eq!(of(&client, "name=good:v1").json(), json!([second]));
    let page = of(&client, &format!("sandboxID={}&limit=1", made.id));
    let next = page.header("x-next-token").unwrap().to_owned();
    let rest = of(&client, &format!("limit=1&nextToken={next}"));
    assert_eq!(rest.header("x-next-token"), None);
    let ids = |answer: &Answer| answer.json()[0]["snapshotID"].clone();
    assert_ne!(ids(&page), ids(&rest));
    let copy = client
        .post("/sandboxes", &json!({ "templateID": "good:v1" }))
        .is(201)
        .json();
    assert_eq!(copy["templateID"], second["snapshotID"]);

    // Nothing of it is there for another tenant, by any of its names.
    let other = server.with(&token(&house, "--tenant other --scope run"));
    for name in ["good:v1", second["snapshotID"].as_str().unwrap()] {
        other.post("/sandboxes", &json!({ "templateID": name })).is(404);
        other.delete(&format!("/templates/{name}")).is(404);
    }
    assert_eq!(of(&other, "").json(), json!([]));
    assert_eq!(put(&other, json!({})).status, 404);
    for call in ["pause", "connect", "fork", "snapshots", "timeout"] {
        other
            .post(&format!("/sandboxes/{}/{call}", made.id), &json!({}))
            .is(404);
    }
    other.get(&format!("/sandboxes/{}/metrics", made.id)).is(404);
    client.delete("/templates/good:v1").is(204);
    client.delete("/templates/good:v1").is(404);
}

#[test]
fn a_network_changes_while_commands_run() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let policy = "[classes]\nnetworked = \"allow\"\nhost_escape_risk = \"allow\"\n\
        [network]\nallow = [\"nowhere.invalid\"]\nothers = \"deny\"\n";
    std::fs::write(house.path("project/src/strict.toml"), policy).unwrap();
    house.good("policy set strict.toml --everywhere");
    let made = create(&client, json!({}));
    // The proxy says why it refuses; a name that nobody can look up shows that it was looked up.
    let ask = "python3 -c \"import http.client; c = http.client.HTTPConnection('127.0.0.1', 3128); \
        c.request('GET', 'http://nowhere.invalid/'); print(c.getresponse().getheader('X-Refused'))\"";
    assert_eq!(client.line(&made.path(), ask), "host_not_listed\n");
    let put = |host: &str| {
        let body = json!({ "allowOut": [host] }).to_string();
        client.put(&format!("/sandboxes/{}/network", made.id), body.as_bytes())
    };
    put("other.invalid").is(403);
    assert_eq!(client.line(&made.path(), ask), "host_not_listed\n");
    put("nowhere.invalid").is(204);
    assert_eq!(client.line(&made.path(), ask), "resolve_failed\n");
}

#[test]
fn metrics_are_those_of_the_processes() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let made = create(&client, json!({}));
    let fill = "x = bytearray(64 << 20); open('full', 'w').write('x' * 5000); import time; time.sleep(1000)";
    let start = json!({ "command": format!("python3 -c \"{fill}\"") });
    client.post(&format!("{}/processes", made.path()), &start).is(201);
    let metrics = format!("/sandboxes/{}/metrics", made.id);
    let mut last = Value::Null;
    eventually(|| {
        let all = client.get(&metrics).is(200).json();
        last = all.as_array().unwrap().last().unwrap().clone();
        last["memUsed"].as_u64().unwrap() > 64 << 20 && last["diskUsed"].as_u64().unwrap() >= 5000
    });
    assert!(last["cpuCount"].as_u64().unwrap() >= 1, "{last}");
    assert!(last["memTotal"].as_u64() > last["memUsed"].as_u64(), "{last}");
    let at = last["timestampUnix"].as_u64().unwrap();
    let before = client.get(&format!("{metrics}?end={}", at - 1000)).is(200).json();
    assert_eq!(before, json!([]));
    assert!(
        !client
            .get(&format!("{metrics}?start={at}"))
            .is(200)
            .json()
            .as_array()
            .unwrap()
            .is_empty()
    );
    client.get(&format!("{metrics}?start=x")).is(400);
}

#[test]
fn a_client_that_still_writes_hears_why_it_is_refused() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    // More than fits between the two, of which the server reads nothing before it refuses.
    let body = vec![b'x'; 900 << 10];
    let head = format!(
        "POST /files?path=x HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = send(
        &server,
        &head.replace("\r\n\r\n", &format!("\r\nHost: {}\r\n\r\n", server.address)),
    );
    stream.write_all(&body).unwrap();
    let answer = read_until(&mut stream, "}");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}
