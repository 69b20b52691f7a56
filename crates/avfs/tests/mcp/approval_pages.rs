//! Approvals on a page, for clients that can open an address and show no form.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::approvals::{RISKY, states};
use crate::client::{Client, NEW, PATIENCE, project};
use crate::sandbox::Sandbox;

fn url_only() -> Value {
    json!({ "elicitation": { "url": {} } })
}

/// The page behind an address.
struct Page {
    host: String,
    path: String,
}

impl Page {
    #[track_caller]
    fn of(question: &Value) -> Page {
        assert_eq!(question["mode"], "url", "{question}");
        let url = question["url"].as_str().unwrap();
        let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        assert!(host.starts_with("127.0.0.1:"), "{url}");
        Page {
            host: host.to_owned(),
            path: format!("/{path}"),
        }
    }

    /// Sends a request and returns its status and all of the answer.
    fn send(&self, request: &str, host: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        // In one piece: a server that refuses the body may close the connection before the rest is sent.
        let text = format!(
            "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }

    fn read(&self) -> (u16, String) {
        self.send(&format!("GET {}", self.path), &self.host, "", "")
    }

    /// Answers as a browser does.
    fn answer(&self, decision: &str) -> (u16, String) {
        let origin = format!("Origin: http://{}\r\n", self.host);
        let body = format!("decision={decision}");
        self.send(&format!("POST {}", self.path), &self.host, &origin, &body)
    }
}

fn accepted() -> Value {
    json!({ "action": "accept" })
}

/// Begins a command whose question an older client has shown to its user.
fn begun(sandbox: &Sandbox) -> (Client, u64, Page, String) {
    let mut client = Client::start_with(sandbox, &[], "2025-11-25", url_only());
    client.decision = Some(accepted());
    let id = client.begin(
        "tools/call",
        json!({ "name": "exec", "arguments": { "command": RISKY } }),
    );
    let question = client.question();
    let elicitation = question["elicitationId"].as_str().unwrap().to_owned();
    (client, id, Page::of(&question), elicitation)
}

#[test]
fn an_older_client_waits_until_its_user_has_answered_on_the_page() {
    let sandbox = project();
    let (mut client, id, page, elicitation) = begun(&sandbox);
    let (status, shown) = page.read();
    assert_eq!(status, 200, "{shown}");
    // The command is text, and the page can neither load nor run anything.
    assert!(
        shown.contains("<dd>curl -s http://192.0.2.1/ &gt;/dev/null; echo ran</dd>"),
        "{shown}"
    );
    assert!(shown.contains("default-src 'none'"), "{shown}");
    // To open the page, and to agree to opening it, is no answer.
    assert_eq!(states(&sandbox), ["pending"]);
    let (status, shown) = page.answer("once");
    assert_eq!(status, 200, "{shown}");
    assert!(
        shown.contains("It may run") && !shown.contains("<button"),
        "{shown}"
    );
    let answer = client.answer(id);
    assert_eq!(
        answer["result"]["structuredContent"]["stdout"], "ran\n",
        "{answer}"
    );
    let told = client.notification("notifications/elicitation/complete");
    assert_eq!(told["params"]["elicitationId"], *elicitation, "{told}");
    // It was for once, and what is answered cannot be answered again.
    page.answer("session");
    assert_eq!(states(&sandbox), ["used"]);
}

#[test]
fn denial_on_the_page_or_an_answer_elsewhere_settles_the_request() {
    let sandbox = project();
    let (mut client, id, page, _) = begun(&sandbox);
    assert!(page.answer("deny").1.contains("It does not run"));
    let refused = client.answer(id);
    assert_eq!(
        refused["result"]["_meta"]["agentvfs/error"]["code"], "approval_denied",
        "{refused}"
    );
    let id = client.begin(
        "tools/call",
        json!({ "name": "exec", "arguments": { "command": format!("{RISKY} twice") } }),
    );
    let question = client.question();
    sandbox.good(&format!(
        "approvals allow {}",
        question["elicitationId"].as_str().unwrap()
    ));
    let answer = client.answer(id);
    assert_eq!(
        answer["result"]["structuredContent"]["stdout"], "ran twice\n",
        "{answer}"
    );
}

#[test]
fn no_other_page_and_no_guess_answers() {
    let sandbox = project();
    let (_client, _, page, _) = begun(&sandbox);
    let post = format!("POST {}", page.path);
    let body = "decision=once";
    for (host, headers, expected) in [
        (page.host.as_str(), "Origin: http://evil.example\r\n", 403),
        (page.host.as_str(), "Origin: null\r\n", 403),
        ("evil.example", "", 403),
    ] {
        let (status, answer) = page.send(&post, host, headers, body);
        assert_eq!(status, expected, "{host} {headers}: {answer}");
    }
    for (request, body, expected) in [
        (format!("POST {}0", page.path), body, 404),
        ("POST /approval/".to_owned(), body, 404),
        (format!("PUT {}", page.path), body, 405),
        (post.clone(), "decision=always", 400),
        (post.clone(), "", 400),
        (post.clone(), &"decision=once".repeat(100), 400),
    ] {
        let (status, answer) = page.send(&request, &page.host, "", body);
        assert_eq!(status, expected, "{request}: {answer}");
    }
    assert_eq!(states(&sandbox), ["pending"]);
}

#[test]
fn a_newer_client_comes_back_and_waits_for_the_page() {
    let sandbox = project();
    let mut client = Client::start_with(&sandbox, &[], NEW, url_only());
    let arguments = json!({ "command": RISKY });
    let asked = client.call("exec", arguments.clone());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let page = Page::of(&asked["inputRequests"]["approval"]["params"]);
    let back = |answer: Value| {
        json!({
            "name": "exec", "arguments": arguments, "requestState": asked["requestState"],
            "inputResponses": { "approval": answer }
        })
    };
    // The answer is on the page alone: what comes with the consent to open it counts for nothing.
    let consent = json!({ "action": "accept", "content": { "decision": "once" } });
    let id = client.begin("tools/call", back(consent));
    assert!(page.read().1.contains("<button"));
    assert_eq!(states(&sandbox), ["pending"]);
    assert_eq!(page.answer("once").0, 200);
    let done = client.answer(id);
    assert_eq!(done["result"]["structuredContent"]["stdout"], "ran\n", "{done}");
}

#[test]
fn user_is_not_asked_again_if_the_page_stays_unopened() {
    let sandbox = project();
    let mut client = Client::start_with(&sandbox, &[], NEW, url_only());
    let arguments = json!({ "command": RISKY });
    let asked = client.call("exec", arguments.clone());
    let back = json!({
        "name": "exec", "arguments": arguments, "requestState": asked["requestState"],
        "inputResponses": { "approval": { "action": "cancel" } }
    });
    let refused = client.request("tools/call", back);
    assert_eq!(
        refused["result"]["_meta"]["agentvfs/error"]["code"], "approval_required",
        "{refused}"
    );
    // The agent is told of the command line, and never of the page.
    assert!(refused.to_string().contains("avfs approvals allow"), "{refused}");
    assert!(!refused.to_string().contains("/approval/"), "{refused}");
    assert_eq!(states(&sandbox), ["pending"]);
}
