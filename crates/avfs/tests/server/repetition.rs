//! Every request that changes something can be repeated with its `Idempotency-Key`: it is carried out once.

use serde_json::{Value, json};

use crate::client::{Client, Server, token};
use crate::routes::{Route, described};
use crate::sandbox::Sandbox;

/// Requests whose repetition needs no key, whatever their method, and why.
const WITHOUT_A_KEY: &[(&str, &str)] = &[(
    "POST /api/v1/approvals/{approval}/preview",
    "it runs in a fork that is thrown away, and changes nothing",
)];

/// A request that does what its route is for.
struct Good {
    path: String,
    body: Vec<u8>,
}

/// What the requests are about. Each has a subject of its own, which it may end.
struct Subjects<'a> {
    house: &'a Sandbox,
    client: &'a Client<'a>,
    number: usize,
}

impl Subjects<'_> {
    /// The path of a vault with a file, a checkpoint and a change since then.
    fn vault(&mut self) -> String {
        self.number += 1;
        let name = format!("plans-{}", self.number);
        self.client
            .post("/api/v1/vaults", &json!({ "name": name }))
            .is(201);
        let place = format!("/api/v1/vaults/{name}");
        self.fill(&place);
        place
    }

    fn sandbox(&self) -> String {
        let place = self.client.sandbox(&json!({}));
        self.fill(&place);
        place
    }

    fn fill(&self, place: &str) {
        let file = format!("{place}/files?path=/file");
        self.client.put(&file, b"first").is(200);
        let first = json!({ "name": "first" });
        self.client.post(&format!("{place}/checkpoints"), &first).is(201);
        self.client.put(&file, b"second").is(200);
    }

    /// A task, which has a directory to which it is applied.
    fn task(&self) -> String {
        std::fs::write(self.house.path("project/notes.txt"), "first\n").unwrap();
        let from = self.house.path("project");
        self.house
            .good(&format!("task new fix --from {}", from.display()));
        let listed = self.client.get("/api/v1/vaults").is(200).json();
        let names = listed["vaults"].as_array().unwrap().iter();
        let mut names = names.filter_map(|one| one["name"].as_str());
        let name = names.find(|name| name.ends_with("fix")).unwrap();
        let place = format!("/api/v1/vaults/{}", name.replace('/', "%2F"));
        let file = format!("{place}/files?path=/notes.txt");
        self.client.put(&file, b"second\n").is(200);
        place
    }

    /// A process with a terminal that runs on.
    fn process(&self) -> String {
        let sandbox = self.client.sandbox(&json!({}));
        let asked = json!({ "command": "cat", "stdin": true, "terminal": { "rows": 24, "columns": 80 } });
        self.made(&format!("{sandbox}/processes"), &asked)
    }

    fn session(&self) -> String {
        let sandbox = self.client.sandbox(&json!({}));
        self.made(&format!("{sandbox}/sessions"), &json!({}))
    }

    /// The path of something that is made now.
    fn made(&self, collection: &str, asked: &Value) -> String {
        let made = self.client.post(collection, asked).is(201).json();
        format!("{collection}/{}", made["id"].as_str().unwrap())
    }

    /// A request that waits for an answer.
    fn approval(&self) -> String {
        let sandbox = self.client.sandbox(&json!({ "network": ["example.com"] }));
        let refused = self
            .client
            .post(&format!("{sandbox}/exec"), &json!({ "command": "true" }));
        let refused = refused.is(403).json();
        format!("/api/v1/approvals/{}", refused["approval"].as_str().unwrap())
    }

    /// A good request of a route. A new route needs one here.
    fn good(&mut self, route: &Route) -> Good {
        let path = route.path.as_str();
        let with = |path: String, body: Value| Good {
            path,
            body: body.to_string().into_bytes(),
        };
        let without = |path: String| Good {
            path,
            body: Vec::new(),
        };
        let rest = |of: &str| path.strip_prefix(of);
        if let Some(rest) = rest("/api/v1/sandboxes/{id}/processes/{process}") {
            let place = format!("{}{rest}", self.process());
            return match (route.method.as_str(), rest) {
                ("DELETE", "") => without(place),
                ("POST", "/stdin") => Good {
                    path: place,
                    body: b"text\n".to_vec(),
                },
                ("POST", "/signal") => with(place, json!({ "signal": 15 })),
                ("POST", "/resize") => with(place, json!({ "rows": 30, "columns": 90 })),
                _ => panic!("no good request is known for {route}"),
            };
        }
        if let Some(rest) = rest("/api/v1/sandboxes/{id}/sessions/{session}") {
            let place = format!("{}{rest}", self.session());
            return match (route.method.as_str(), rest) {
                ("DELETE", "") => without(place),
                ("POST", "/exec") => with(place, json!({ "command": "echo once" })),
                _ => panic!("no good request is known for {route}"),
            };
        }
        if let Some(rest) = rest("/api/v1/approvals/{approval}") {
            assert_eq!(rest, "/answer", "no good request is known for {route}");
            return with(format!("{}{rest}", self.approval()), json!({ "answer": "once" }));
        }
        match (route.method.as_str(), path) {
            ("POST", "/api/v1/vaults") => return with(path.to_owned(), json!({ "name": "made" })),
            ("POST", "/api/v1/sandboxes") => return with(path.to_owned(), json!({})),
            ("PUT", "/api/v1/vaults/{vault}/bundle") => {
                let bundle = self.client.get(&format!("{}/bundle", self.vault()));
                return Good {
                    path: path.replace("{vault}", "carried"),
                    body: bundle.is(200).body,
                };
            }
            ("POST", "/api/v1/vaults/{vault}/apply") => {
                return with(format!("{}/apply", self.task()), json!({}));
            }
            _ => {}
        }
        let (place, rest) = match (rest("/api/v1/sandboxes/{id}"), rest("/api/v1/vaults/{vault}")) {
            (Some(rest), _) => (self.sandbox(), rest),
            (None, Some(rest)) => (self.vault(), rest),
            (None, None) => panic!("no good request is known for {route}"),
        };
        let whole = format!("{place}{rest}");
        match (route.method.as_str(), rest) {
            ("DELETE", "") => without(whole),
            ("POST", "/open" | "/close") => without(whole),
            ("PUT", "/expiry") => with(whole, json!({ "seconds": 5000 })),
            ("POST", "/exec") => with(whole, json!({ "command": "echo line >>file; wc -l <file" })),
            ("POST", "/processes") => with(whole, json!({ "command": "sleep 1000" })),
            ("POST", "/sessions") => with(whole, json!({})),
            ("POST", "/forks") if path.contains("{vault}") => {
                with(whole, json!({ "names": [format!("fork-{}", self.number)] }))
            }
            ("POST", "/forks") => with(whole, json!({ "count": 1 })),
            ("POST", "/merge") => {
                let other = format!("other-{}", self.number);
                let names = json!({ "names": [other] });
                self.client.post(&format!("{place}/forks"), &names).is(201);
                let file = format!("/api/v1/vaults/{other}/files?path=/file");
                self.client.put(&file, b"theirs").is(200);
                with(whole, json!({ "from": [other] }))
            }
            ("PUT", "/files") => Good {
                path: format!("{whole}?path=/new"),
                body: b"text".to_vec(),
            },
            ("DELETE", "/files") => without(format!("{whole}?path=/file")),
            ("POST", "/files/directory") => with(whole, json!({ "path": "/directory" })),
            ("POST", "/files/move") => with(whole, json!({ "from": "/file", "to": "/moved" })),
            ("PUT", "/archive") => {
                let body = self.client.get(&whole).is(200).body;
                self.client.delete(&format!("{place}/files?path=/file")).is(204);
                Good {
                    path: format!("{whole}?path=/"),
                    body,
                }
            }
            ("PUT", "/rules") => with(whole, json!({ "preset": "development" })),
            ("POST", "/checkpoints") => with(whole, json!({ "name": "second" })),
            ("DELETE", "/checkpoints/{checkpoint}") => without(whole.replace("{checkpoint}", "first")),
            ("POST", "/restore") => with(whole, json!({ "revision": "first" })),
            _ => panic!("no good request is known for {route}"),
        }
    }
}

#[test]
fn every_route_that_changes_something_is_carried_out_once_for_a_key() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let admin = server.with(&token(&house, "--scope admin"));
    let mut subjects = Subjects {
        house: &house,
        client: &admin,
        number: 0,
    };
    let mut without: Vec<String> = Vec::new();
    let mut checked = 0;
    for route in described(&admin) {
        let has_key = route.headers().iter().any(|name| name == "Idempotency-Key");
        if route.method == "GET" {
            assert!(!has_key, "{route}");
            continue;
        }
        if !has_key {
            without.push(route.to_string());
            continue;
        }
        let good = subjects.good(&route);
        let keyed = admin.clone().header("Idempotency-Key", &format!("k {route}"));
        let first = route.ask_with(&keyed, &good.path, &good.body);
        assert!((200..300).contains(&first.status), "{route}: {first}");
        assert_eq!(first.header("idempotent-replayed"), None, "{route}");
        let again = route.ask_with(&keyed, &good.path, &good.body);
        assert_eq!(
            again.header("idempotent-replayed"),
            Some("true"),
            "{route}: {again}"
        );
        assert_eq!(
            (again.status, &again.body),
            (first.status, &first.body),
            "{route}"
        );
        for name in ["location", "etag", "content-type"] {
            assert_eq!(again.header(name), first.header(name), "{route}: {name}");
        }
        // The key stands for this request, and for no other one.
        let longer = [&good.body[..], b" "].concat();
        let other = route.ask_with(&keyed, &good.path, &longer);
        assert_eq!(other.problem(422), "key-reused", "{route}");
        checked += 1;
    }
    let expected: Vec<&str> = WITHOUT_A_KEY.iter().map(|(route, _)| *route).collect();
    assert_eq!(without, expected);
    assert!(checked > 35, "{checked} routes");
}

#[test]
fn a_request_that_failed_may_be_tried_again_with_its_key() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let admin = server.with(&token(&house, "--scope admin"));
    let keyed = admin.clone().header("Idempotency-Key", "k");
    let restore = json!({ "revision": "later" });
    let vault = json!({ "name": "web" });
    admin.post("/api/v1/vaults", &vault).is(201);
    let place = "/api/v1/vaults/web/restore";
    assert_eq!(keyed.post(place, &restore).problem(404), "unknown-revision");
    let later = json!({ "name": "later" });
    admin.post("/api/v1/vaults/web/checkpoints", &later).is(201);
    keyed.post(place, &restore).is(200);
    let again = keyed.post(place, &restore).is(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
}

#[test]
fn a_file_that_was_changed_since_is_not_written_again_by_a_repetition() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope run"));
    let file = format!("{}/files?path=/file", client.sandbox(&json!({})));
    let keyed = client.clone().header("Idempotency-Key", "k");
    let first = keyed.put(&file, b"one").is(200);
    client.put(&file, b"two").is(200);
    let again = keyed.put(&file, b"one").is(200);
    assert_eq!(again.header("etag"), first.header("etag"));
    assert_eq!(client.get(&file).is(200).body, b"two");
    // Another precondition makes it another request.
    let conditional = keyed.header("If-None-Match", "*");
    assert_eq!(conditional.put(&file, b"one").problem(422), "key-reused");
}
