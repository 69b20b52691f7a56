//! Which vault the tools work on.

use serde_json::json;

use crate::client::{Client, project};

#[test]
fn a_task_is_made_when_it_is_first_needed_and_goes_if_nothing_changed() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    client.request("tools/list", json!({}));
    client.request("resources/list", json!({}));
    assert_eq!(sandbox.good("tasks --all"), "");
    assert_eq!(client.good("status", json!({}))["workspace"], "project/task-1");
    assert_eq!(client.run("cat notes.txt"), "one\ntwo\nthree\n");
    assert_eq!(client.end(), 0);
    assert_eq!(sandbox.good("tasks --all"), "");
}

#[test]
fn the_work_of_a_task_stays_for_the_user() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    client.good(
        "edit",
        json!({ "path": "notes.txt", "edits": [{ "old": "two", "new": "2" }] }),
    );
    assert_eq!(client.end(), 0);
    sandbox.good("apply task-1");
    assert_eq!(
        std::fs::read_to_string(sandbox.path("project/notes.txt")).unwrap(),
        "one\n2\nthree\n"
    );
}

#[test]
fn a_project_is_named_by_its_directory() {
    let sandbox = project();
    let elsewhere = sandbox.path("other");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("here.txt"), "here\n").unwrap();
    let mut client = Client::start(&sandbox, &["--project", elsewhere.to_str().unwrap()]);
    assert_eq!(client.run("ls"), "here.txt\n");
}

#[test]
fn a_directory_that_is_no_project_is_told_to_the_agent() {
    let sandbox = project();
    let home = sandbox.path("home");
    let mut client = Client::start(&sandbox, &["--project", home.to_str().unwrap()]);
    let (code, text) = client.bad("status", json!({}));
    assert_eq!(code, "no-workspace", "{text}");
    assert!(text.contains("home"), "{text}");
}

#[test]
fn a_task_that_the_user_discards_is_replaced_by_another() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    client.good("write", json!({ "path": "a", "content": "a" }));
    sandbox.good("discard task-1 --force");
    assert_eq!(client.good("status", json!({}))["workspace"], "project/task-2");
    assert_eq!(client.run("ls a 2>/dev/null || echo none"), "none\n");
}

#[test]
fn a_person_and_an_agent_work_on_one_vault_at_the_same_time() {
    let sandbox = project();
    sandbox.good("vault create web --from .. --use");
    let mut client = Client::start(&sandbox, &["--vault", "web"]);
    assert_eq!(
        client.run("echo agent >agent.txt; cat notes.txt"),
        "one\ntwo\nthree\n"
    );
    sandbox.good("write /person.txt person");
    assert_eq!(client.run("cat person.txt"), "person\n");
    assert_eq!(sandbox.good("cat /agent.txt"), "agent\n");
    assert_eq!(
        client.good("read", json!({ "path": "person.txt" }))["content"],
        "person\n"
    );
}

#[test]
fn a_vault_is_served_with_all_the_forks_that_come_from_it() {
    let sandbox = project();
    sandbox.good("vault create web --from ..");
    sandbox.good("vault create beside");
    sandbox.good("vault fork web one");
    sandbox.good("vault fork one two");
    let mut client = Client::start(&sandbox, &["--vault", "web"]);
    assert_eq!(
        client.good("status", json!({}))["workspaces"],
        json!(["web", "one", "two"])
    );
    client.good(
        "write",
        json!({ "workspace": "two", "path": "a", "content": "a" }),
    );
    assert_eq!(
        client
            .bad("read", json!({ "workspace": "beside", "path": "a" }))
            .0,
        "unknown-workspace"
    );
    // From a fork, what it comes from cannot be reached.
    let mut client = Client::start(&sandbox, &["--vault", "one"]);
    assert_eq!(
        client.good("status", json!({}))["workspaces"],
        json!(["one", "two"])
    );
    assert_eq!(
        client.bad("list", json!({ "workspace": "web" })).0,
        "unknown-workspace"
    );
}
