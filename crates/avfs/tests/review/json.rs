//! A review without a terminal.

use serde_json::{Value, json};

use crate::pane::Pane;
use crate::project::{Project, path};

fn object(project: &Project, line: &str) -> (i32, Value) {
    let output = project.avfs(line).output().unwrap();
    (
        output.status.code().unwrap(),
        serde_json::from_slice(&output.stdout).unwrap(),
    )
}

#[test]
fn every_change_is_listed_with_its_hunks_and_decisions() {
    let project = Project::usual();
    let line = "review work --json --accept src --reject src/main.txt:2";
    let (status, review) = object(&project, line);
    assert_eq!(
        (status, &review["kind"], &review["task"]),
        (0, &json!("review"), &json!("work"))
    );
    let changes = review["changes"].as_array().unwrap();
    let main = changes
        .iter()
        .find(|change| change["path"] == "/src/main.txt")
        .unwrap();
    assert_eq!(
        (&main["decision"], &main["by_hunk"]),
        (&json!("partly"), &json!(true))
    );
    let second = &main["hunks"][1];
    assert_eq!(
        (&second["number"], &second["decision"]),
        (&json!(2), &json!("rejected"))
    );
    assert_eq!(second["old"], json!({ "first": 27, "count": 7 }));
    assert_eq!(second["new"], json!({ "first": 27, "count": 6 }));
    assert_eq!(
        second["lines"][3],
        json!({ "type": "removed", "text": "line 30\n" })
    );
    let gone = changes
        .iter()
        .find(|change| change["path"] == "/gone.txt")
        .unwrap();
    assert_eq!(
        (&gone["decision"], &gone["by_hunk"]),
        (&json!("undecided"), &json!(false))
    );
    let accepted = json!({
        "paths": [{ "path": "/src/new.txt" }],
        "hunks": [{ "path": "/src/main.txt", "numbers": [1, 3], "changes": [] }],
    });
    assert_eq!(review["accepted"], accepted);
}

#[test]
fn paths_and_hunks_that_are_not_there_are_refused() {
    let project = Project::usual();
    for (line, status, code) in [
        ("review nothing", 3, "unknown-task"),
        ("review work nowhere", 3, "not-found"),
        ("review work --accept nowhere", 3, "not-changed"),
        ("review work --accept src/main.txt:4", 2, "bad-hunks"),
        ("review work --accept src/main.txt:0", 2, "bad-hunks"),
        ("review work --accept src/main.txt:1.2", 2, "bad-hunks"),
        ("review work --reject gone.txt:1", 2, "bad-hunks"),
        ("review work --accept ../x", 2, "bad-name"),
    ] {
        let (ended, object) = object(&project, &format!("{line} --json"));
        assert_eq!(
            (ended, &object["error"]["code"]),
            (status, &json!(code)),
            "{line}"
        );
    }
}

#[test]
fn without_a_terminal_there_is_a_hint() {
    let output = Project::usual().avfs("review work").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(
        talk.contains("a review needs a terminal") && talk.contains("avfs review work --json"),
        "{talk}"
    );
}

#[test]
fn conflicts_and_what_is_ignored_are_told() {
    let project = Project::new(&[("a", b"old\n"), ("b", b"old\n")], |task| {
        assert_eq!(&task.read(&path("a")).unwrap()[..], b"old\n");
        task.write_bytes(&path("a"), b"task\n").unwrap();
        task.write_bytes(&path("b"), b"task\n").unwrap();
        task.make_directory(&path("node_modules"), false).unwrap();
        task.write_bytes(&path("node_modules/x"), b"x\n").unwrap();
    });
    std::fs::write(project.root().join("a"), "user\n").unwrap();
    let (_, review) = object(&project, "review work --json");
    let told: Vec<(&Value, &Value, &Value)> = review["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (&change["path"], &change["conflict"], &change["ignored"]))
        .collect();
    let expected = [
        (&json!("/a"), &json!("lines"), &json!(false)),
        (&json!("/b"), &Value::Null, &json!(false)),
        (&json!("/node_modules/x"), &Value::Null, &json!(true)),
    ];
    assert_eq!(told, expected);
}

#[test]
fn ignored_files_are_applied_only_if_they_were_opened_and_accepted() {
    let project = Project::new(&[("a", b"old\n")], |task| {
        task.write_bytes(&path("a"), b"task\n").unwrap();
        task.make_directory(&path("node_modules"), false).unwrap();
        task.write_bytes(&path("node_modules/x"), b"x\n").unwrap();
    });
    let pane = Pane::start(&project, "review work", 100, 24);
    pane.wait_for("▸ ignored by git 1");
    pane.press("A Enter");
    pane.wait_for("apply 1 file to ");
    pane.press("y");
    pane.wait_for("ended with 0");
    assert_eq!(
        (project.read("a").as_deref(), project.read("node_modules/x")),
        (Some("task\n"), None)
    );
    let pane = Pane::start(&project, "review work", 100, 24);
    pane.wait_for("▸ ignored by git 1");
    pane.press("G o A Enter");
    pane.wait_for("apply 2 files to ");
    pane.press("y");
    pane.wait_for("ended with 0");
    assert_eq!(project.read("node_modules/x").as_deref(), Some("x\n"));
}
