//! The same attacks on every route: without a token, from a page of another server, with the ids of another tenant, and with
//! names that are paths.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Answer, Client, Server, token};
use crate::routes::{OF_E2B, described};
use crate::sandbox::Sandbox;

/// A request of E2B's clients with an id.
fn of_e2b(client: &Client<'_>, (method, path): (&str, &str), id: &str) -> Answer {
    let path = path.replace("{id}", id);
    let head = format!(
        "{method} {path} HTTP/1.1\r\nContent-Length: 2\r\nContent-Type: application/json\r\n{}",
        client.all_headers()
    );
    client.raw(&head, b"{}")
}

/// Everything that is only in the answers of one request is taken out of a text.
fn without(answer: &Answer, words: &[&str]) -> String {
    let mut text = String::from_utf8_lossy(&answer.body).into_owned();
    for word in words {
        text = text.replace(word, "-");
    }
    format!("{} {:?} {text}", answer.status, answer.header("content-type"))
}

#[test]
fn every_route_needs_a_token_a_host_and_an_origin_of_ours() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope admin");
    let client = server.with(&key);
    let wrong = format!("{}0", &key[..key.len() - 1]);
    let evil = client.clone().header("Origin", "http://evil.example");
    let loaded = client.clone().header("Sec-Fetch-Site", "cross-site");
    let rebound = client.clone().header("Host", "evil.example");
    let everywhere = described(&client);
    let extra = ["/api/v1/openapi.json", "/api/v1/docs", "/api/metrics", "/nowhere"];
    for route in &everywhere {
        let path = route.filled(|_| "x".to_owned());
        for nobody in [server.open(), server.with(&wrong), server.with("")] {
            assert_eq!(
                route.ask(&nobody, &path).problem(401),
                "unauthenticated",
                "{route}"
            );
        }
        assert_eq!(route.ask(&evil, &path).problem(403), "wrong-origin", "{route}");
        assert_eq!(route.ask(&loaded, &path).problem(403), "wrong-origin", "{route}");
        assert_eq!(route.ask(&rebound, &path).problem(403), "wrong-host", "{route}");
        // It is the request itself that would have been good enough.
        let answer = route.ask(&client, &path);
        assert!(answer.status != 401 && answer.status < 500, "{route}: {answer}");
    }
    for path in extra {
        server.open().get(path).problem(401);
        evil.get(path).problem(403);
        rebound.get(path).problem(403);
    }
    for route in OF_E2B {
        for (who, status) in [
            (&server.open(), 401),
            (&server.with(&wrong), 401),
            (&evil, 403),
            (&loaded, 403),
            (&rebound, 403),
        ] {
            let answer = of_e2b(who, *route, "sbx");
            assert_eq!(answer.status, status, "{route:?}: {answer}");
        }
    }
}

#[test]
fn scopes_hold_on_every_route_of_other_clients() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let reader = server.with(&token(&house, "--scope read"));
    for route in OF_E2B {
        let answer = of_e2b(&reader, *route, "sbx");
        // A token of the server opens nothing within a sandbox, and its other requests change something unless they look.
        let is_within = route.1.starts_with("/files") || route.1 == "/health" || route.1.contains('.');
        let expected: &[u16] = match (is_within, route.0) {
            (true, _) => &[401],
            (false, "GET") => &[200, 404],
            (false, _) => &[403],
        };
        assert!(expected.contains(&answer.status), "{route:?}: {answer}");
    }
}

/// Names of things that exist.
fn names(client: &Client<'_>) -> BTreeMap<&'static str, String> {
    let vault = json!({ "name": "plans" });
    client.post("/api/v1/vaults", &vault).is(201);
    client
        .put("/api/v1/vaults/plans/files?path=/file", b"secret")
        .is(200);
    let path = client.sandbox(&json!({ "vault": "plans" }));
    let process = client
        .post(&format!("{path}/processes"), &json!({ "command": "sleep 1000" }))
        .is(201)
        .json();
    let session = client
        .post(&format!("{path}/sessions"), &json!({}))
        .is(201)
        .json();
    // Something that needs an approval.
    client.post(
        &format!("{path}/exec"),
        &json!({ "command": "curl http://x.example" }),
    );
    let approvals = client.get("/api/v1/approvals").is(200).json();
    let approval = approvals["approvals"][0]["id"].as_str();
    let approval = approval.unwrap_or_else(|| panic!("{approvals}")).to_owned();
    BTreeMap::from([
        ("vault", "plans".to_owned()),
        ("id", path.rsplit('/').next().unwrap().to_owned()),
        ("process", process["id"].as_str().unwrap().to_owned()),
        ("approval", approval),
        ("session", session["id"].as_str().unwrap().to_owned()),
    ])
}

/// What stands for a name in the path of a route.
fn value_in(known: &BTreeMap<&'static str, String>, name: &str) -> String {
    known.get(name).cloned().unwrap_or_else(|| "x".to_owned())
}

#[test]
fn objects_of_another_tenant_look_as_if_they_did_not_exist() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let ours = server.with(&token(&house, "--tenant ours --scope admin"));
    let theirs = server.with(&token(&house, "--tenant theirs --scope admin"));
    let known = names(&ours);
    let nobodys: BTreeMap<&'static str, String> = known
        .iter()
        .map(|(name, value)| (*name, value.chars().map(other_digit).collect()))
        .collect();
    let words: Vec<&str> = known
        .values()
        .chain(nobodys.values())
        .map(String::as_str)
        .collect();
    let mut compared = 0;
    for route in described(&theirs) {
        if route.parameters().is_empty() {
            continue;
        }
        let of_ours = route.ask(&theirs, &route.filled(|name| value_in(&known, name)));
        let of_nobody = route.ask(&theirs, &route.filled(|name| value_in(&nobodys, name)));
        assert_eq!(without(&of_ours, &words), without(&of_nobody, &words), "{route}");
        assert!((400..500).contains(&of_ours.status), "{route}: {of_ours}");
        compared += 1;
        // For its owner it is there, so the request was a good one.
        let is_known = route
            .parameters()
            .iter()
            .all(|name| known.contains_key(name.as_str()));
        if route.method == "GET" && is_known && !route.path.ends_with("/output") {
            let answer = route.ask(&ours, &route.filled(|name| value_in(&known, name)));
            assert_ne!(answer.status, 404, "{route}: {answer}");
        }
    }
    assert!(compared > 30, "{compared}");
    for route in OF_E2B.iter().filter(|(_, path)| path.contains("{id}")) {
        let [of_ours, of_nobody] = [&known["id"], &nobodys["id"]].map(|id| of_e2b(&theirs, *route, id));
        assert_eq!(
            without(&of_ours, &words),
            without(&of_nobody, &words),
            "{route:?}"
        );
        assert!((400..500).contains(&of_ours.status), "{route:?}: {of_ours}");
    }
    // Nothing of all this has reached it.
    let path = format!("/api/v1/sandboxes/{}", known["id"]);
    assert!(ours.get(&path).is(200).json()["running"].as_u64().unwrap() >= 1);
    assert_eq!(
        ours.get(&format!("{path}/files?path=/file")).is(200).body,
        b"secret"
    );
    let process = ours
        .get(&format!("{path}/processes/{}", known["process"]))
        .is(200);
    assert_eq!(process.json()["running"], true);
    let lists = [
        "/api/v1/vaults",
        "/api/v1/sandboxes",
        "/api/v1/approvals",
        "/v2/sandboxes",
        "/snapshots",
    ];
    for list in lists {
        let listed = String::from_utf8(theirs.get(list).is(200).body).unwrap();
        assert!(
            !words.iter().any(|word| listed.contains(word)),
            "{list}: {listed}"
        );
    }
}

/// Another name of the same form.
fn other_digit(c: char) -> char {
    match c {
        '0'..='8' => char::from(c as u8 + 1),
        '9' => '0',
        'a'..='e' => char::from(c as u8 + 1),
        'f' => 'a',
        // Beginnings of ids, and separators.
        c => c,
    }
}

/// Ways to write a path where a name is expected.
fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "..",
        ".",
        "%2e%2e",
        "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "..%5c..%5cetc",
        "%252e%252e%252fetc",
        "%c0%ae%c0%ae%c0%afetc",
        "%2fetc%2fpasswd",
        "a%00b",
        "%00",
        "%ff%fe",
        "%0d%0aX-Injected:%201",
        "%1b[31m",
        "%e2%80%ae",
        "default",
        "server%2ftenants%2ftheirs",
        "%",
        "%zz",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("a".repeat(300));
    names.push("%2e".repeat(4000));
    names
}

#[test]
fn no_name_in_a_path_is_a_path() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--tenant ours --scope admin"));
    let theirs = server.with(&token(&house, "--tenant theirs --scope admin"));
    theirs.post("/api/v1/vaults", &json!({ "name": "plans" })).is(201);
    let known = names(&client);
    let store = house.store().display().to_string();
    for route in described(&client) {
        for parameter in route.parameters() {
            for name in hostile() {
                let path = route.filled(|other| {
                    if other == parameter {
                        name.clone()
                    } else {
                        value_in(&known, other)
                    }
                });
                let answer = route.ask(&client, &path);
                let text = answer.to_string();
                assert!((400..500).contains(&answer.status), "{route} with {name}: {text}");
                assert!(
                    !text.contains("root:") && !text.contains(&store),
                    "{route} with {name}: {text}"
                );
                assert!(
                    answer.header("x-injected").is_none() && !text.contains('\u{1b}'),
                    "{text}"
                );
            }
        }
    }
    for route in OF_E2B.iter().filter(|(_, path)| path.contains("{id}")) {
        for name in hostile() {
            let answer = of_e2b(&client, *route, &name);
            assert!(
                (400..500).contains(&answer.status),
                "{route:?} with {name}: {answer}"
            );
        }
    }
    // Everything is where it was.
    client.get(&format!("/api/v1/sandboxes/{}", known["id"])).is(200);
    client.get("/api/v1/vaults/plans").is(200);
    theirs.get("/api/v1/vaults/plans").is(200);
}

#[test]
fn the_log_has_one_line_for_each_request_whatever_is_asked() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope read");
    let client = server.with(&key);
    let asked = [
        "/api/v1/sandboxes/%0a%7b%22time%22:0%7d",
        "/api/v1/sandboxes/\u{9b}31m\u{202e}",
        "/api/v1/sandboxes/\",\"status\":200",
        "/api/v1/sandboxes/a?secret=word",
    ];
    for path in asked {
        let answer = client.get(path);
        assert!((400..500).contains(&answer.status), "{path}: {answer}");
    }
    let long = format!("/api/v1/sandboxes/{}", "a".repeat(20_000));
    client.get(&long).problem(404);
    assert_eq!(server.end(), 0);
    let log = std::fs::read_to_string(house.path("log")).unwrap();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_these = lines.iter().filter(|line| {
        line["path"]
            .as_str()
            .is_some_and(|path| path.starts_with("/api/v1/sandboxes/"))
    });
    assert_eq!(of_these.count(), asked.len() + 1, "{log}");
    assert!(!log.contains("secret=word") && !log.contains(&key), "{log}");
    assert!(
        log.chars()
            .all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}')),
        "{log:?}"
    );
    assert!(log.lines().all(|line| line.len() < 4000));
}
