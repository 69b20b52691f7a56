//! Commands that a person has to allow.

use serde_json::{Value, json};

use crate::client::{Client, NEW, project};
use crate::sandbox::Sandbox;

/// A command that the built-in policy lets nobody run without an approval.
pub const RISKY: &str = "curl -s http://192.0.2.1/ >/dev/null; echo ran";

fn form() -> Value {
    json!({ "elicitation": { "form": {} } })
}

fn accept(decision: &str) -> Value {
    json!({ "action": "accept", "content": { "decision": decision } })
}

pub fn states(sandbox: &Sandbox) -> Vec<String> {
    let list = sandbox.object("approvals list --all --json");
    let approvals = list["approvals"].as_array().unwrap();
    approvals
        .iter()
        .map(|approval| approval["state"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_client_that_cannot_ask_is_told_what_the_user_has_to_do() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    let (code, text) = client.bad("exec", json!({ "command": RISKY }));
    assert_eq!(code, "approval_required");
    let (_, rest) = text.split_once("`avfs approvals allow ").unwrap();
    let id = rest.split_once('`').unwrap().0.to_owned();
    // Asking again is the same question.
    assert!(client.bad("exec", json!({ "command": RISKY })).1.contains(&id));
    let waiting = client.good("status", json!({}))["waiting"].clone();
    assert_eq!(
        (&waiting[0]["approval"], &waiting[0]["command"]),
        (&json!(id), &json!(RISKY))
    );
    sandbox.good(&format!("approvals allow {id}"));
    assert_eq!(client.run(RISKY), "ran\n");
    assert_eq!(
        client.bad("exec", json!({ "command": RISKY })).0,
        "approval_required"
    );
}

#[test]
fn an_older_client_asks_its_user_while_the_call_waits() {
    let sandbox = project();
    let mut client = Client::start_with(&sandbox, &[], "2025-06-18", form());
    client.decision = Some(accept("once"));
    assert_eq!(client.run(RISKY), "ran\n");
    let question = client.questions.pop().unwrap();
    assert!(
        question["message"]
            .as_str()
            .unwrap()
            .contains(&format!("command: {RISKY}\n")),
        "{question}"
    );
    assert_eq!(
        question["requestedSchema"]["properties"]["decision"]["enum"],
        json!(["once", "session", "deny"])
    );
    client.decision = Some(accept("deny"));
    assert_eq!(
        client.bad("exec", json!({ "command": RISKY })).0,
        "approval_denied"
    );
}

#[test]
fn a_newer_client_comes_back_with_the_answer_of_its_user() {
    let sandbox = project();
    let mut client = Client::start_with(&sandbox, &[], NEW, form());
    let arguments = json!({ "command": RISKY });
    let asked = client.call("exec", arguments.clone());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let state = asked["requestState"].clone();
    let question = &asked["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create");
    let back = |arguments: &Value, state: &Value, answer: Value| {
        json!({
            "name": "exec", "arguments": arguments, "requestState": state, "inputResponses": { "approval": answer }
        })
    };
    // The state holds for this very call, and cannot be made up.
    let other = json!({ "command": "curl http://192.0.2.1; echo other" });
    let refused = client.request("tools/call", back(&other, &state, accept("once")));
    assert_eq!(
        refused["result"]["_meta"]["agentvfs/error"]["code"], "bad-request-state",
        "{refused}"
    );
    // One character of it is another.
    let mut forged = state.as_str().unwrap().to_owned();
    let middle = forged.len() / 2;
    let changed = if &forged[middle..=middle] == "A" { "B" } else { "A" };
    forged.replace_range(middle..=middle, changed);
    let forged = json!(forged);
    let refused = client.request("tools/call", back(&arguments, &forged, accept("once")));
    assert_eq!(
        refused["result"]["_meta"]["agentvfs/error"]["code"], "bad-request-state",
        "{refused}"
    );
    assert_eq!(states(&sandbox), ["pending"]);
    let done = client.request("tools/call", back(&arguments, &state, accept("once")));
    assert_eq!(done["result"]["structuredContent"]["stdout"], "ran\n", "{done}");
    // It was for once: the same state allows nothing more.
    let again = client.request("tools/call", back(&arguments, &state, accept("once")));
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
}

#[test]
fn whatever_is_not_a_yes_lets_nothing_run() {
    for answer in [
        json!({ "action": "decline" }),
        json!({ "action": "cancel" }),
        json!({ "action": "accept" }),
        json!({ "action": "accept", "content": { "decision": "yes please" } }),
        json!({ "action": "accept", "content": { "decision": "always" } }),
    ] {
        let sandbox = project();
        let mut client = Client::start_with(&sandbox, &[], "2025-11-25", form());
        client.decision = Some(answer.clone());
        let (code, _) = client.bad("exec", json!({ "command": RISKY }));
        assert!(
            ["approval_denied", "approval_required"].contains(&code.as_str()),
            "{answer}: {code}"
        );
        assert_ne!(states(&sandbox), ["allowed"], "{answer}");
    }
}

#[test]
fn a_network_is_given_to_one_command_that_the_user_allows() {
    let sandbox = project();
    let mut client = Client::start_with(&sandbox, &[], "2025-06-18", form());
    client.decision = Some(accept("once"));
    let arguments = json!({ "command": "touch made; echo $HTTPS_PROXY", "network": ["example.com"] });
    let answer = client.good("exec", arguments);
    assert!(
        answer["stdout"].as_str().unwrap().starts_with("http://"),
        "{answer}"
    );
    assert!(
        client.questions[0]["message"]
            .as_str()
            .unwrap()
            .contains("network: example.com"),
        "{:?}",
        client.questions
    );
    client.good("exec", json!({ "command": "touch made again" }));
    assert_eq!(client.questions.len(), 1, "{:?}", client.questions);
}

#[test]
fn no_tool_and_no_word_of_the_model_answers_a_question() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    let (_, text) = client.bad("exec", json!({ "command": RISKY }));
    let id = text
        .split_once("`avfs approvals allow ")
        .unwrap()
        .1
        .split_once('`')
        .unwrap()
        .0
        .to_owned();
    for tool in ["approvals", "allow", "approve"] {
        assert_eq!(client.bad(tool, json!({ "id": id })).0, "unknown-tool");
    }
    // Inside a sandbox, `avfs` reaches the run's own vault and nothing else.
    let avfs = assert_cmd::cargo::cargo_bin!("avfs");
    let inside = client.call(
        "exec",
        json!({ "command": format!("avfs approvals allow {id} || {} approvals allow {id}", avfs.display()) }),
    );
    assert_ne!(inside["structuredContent"]["success"], true, "{inside}");
    assert_eq!(
        client
            .bad("exec", json!({ "command": RISKY, "decision": "once" }))
            .0,
        "bad-argument"
    );
    assert!(
        states(&sandbox).iter().all(|state| state == "pending"),
        "{:?}",
        states(&sandbox)
    );
}
