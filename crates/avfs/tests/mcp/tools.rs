//! The tools that read and change files and states.

use serde_json::json;

use crate::client::{Client, NEW, project, texts};

#[test]
fn the_list_of_tools_is_the_same_for_old_and_new_clients() {
    let sandbox = project();
    let mut lists = Vec::new();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", NEW] {
        let mut client = Client::start_with(&sandbox, &[], version, json!({}));
        let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
        let names: Vec<&str> = tools
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "read",
                "list",
                "glob",
                "grep",
                "write",
                "edit",
                "move",
                "delete",
                "exec",
                "changes",
                "checkpoint",
                "restore",
                "fork",
                "status"
            ]
        );
        lists.push(tools);
    }
    assert!(lists.windows(2).all(|pair| pair[0] == pair[1]));
    // Looking around makes no task.
    assert_eq!(sandbox.good("tasks --all"), "");
}

#[test]
fn lines_are_read_with_numbers_and_in_ranges() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    let result = client.call("read", json!({ "path": "notes.txt" }));
    assert_eq!(texts(&result), ["     1\tone\n     2\ttwo\n     3\tthree\n"]);
    let answer = client.good(
        "read",
        json!({ "path": "/notes.txt", "start_line": 2, "lines": 1 }),
    );
    assert_eq!(answer["content"], "two\n");
    assert_eq!(
        (&answer["next_line"], &answer["total_lines"]),
        (&json!(3), &json!(3))
    );
    // As commands see it.
    let own = sandbox.path("project/notes.txt");
    assert_eq!(client.good("read", json!({ "path": own }))["path"], "notes.txt");
    assert_eq!(
        client
            .bad("read", json!({ "path": "notes.txt", "start_line": 9 }))
            .0,
        "bad-argument"
    );
    assert_eq!(client.bad("read", json!({ "path": "nothing" })).0, "not-found");
}

#[test]
fn a_file_that_is_too_long_for_one_answer_is_read_to_its_end_by_following_the_notes() {
    let sandbox = project();
    let lines: String = (0..30_000).map(|number| format!("line {number}\n")).collect();
    std::fs::write(sandbox.path("project/long.txt"), &lines).unwrap();
    let wide = "x".repeat(130_000) + "\nend\n";
    std::fs::write(sandbox.path("project/wide.txt"), &wide).unwrap();
    let mut client = Client::start(&sandbox, &[]);
    let (mut read, mut next) = (String::new(), json!(1));
    while !next.is_null() {
        let answer = client.good(
            "read",
            json!({ "path": "long.txt", "start_line": next, "lines": 100_000 }),
        );
        read.push_str(answer["content"].as_str().unwrap());
        next = answer["next_line"].clone();
    }
    assert!(read == lines);
    let first = client.call("read", json!({ "path": "wide.txt" }));
    let mut read = first["structuredContent"]["content"].as_str().unwrap().to_owned();
    let mut next = first["structuredContent"]["next_byte"].clone();
    assert!(
        texts(&first)[1].contains("`start_byte: 50000` reads on"),
        "{}",
        texts(&first)[1]
    );
    while !next.is_null() {
        let answer = client.good("read", json!({ "path": "wide.txt", "start_byte": next }));
        read.push_str(answer["content"].as_str().unwrap());
        next = answer["next_byte"].clone();
    }
    assert!(read == wide);
}

#[test]
fn a_binary_file_is_described_and_not_shown() {
    let sandbox = project();
    std::fs::write(
        sandbox.path("project/image.png"),
        b"\x89PNG\r\n\x1a\n\0\0\0secret",
    )
    .unwrap();
    let mut client = Client::start(&sandbox, &[]);
    let result = client.call("read", json!({ "path": "image.png" }));
    assert_eq!(
        texts(&result)[0],
        "image.png: a binary file of 17 bytes, a PNG image"
    );
    assert!(!result.to_string().contains("secret"));
}

#[test]
fn a_file_is_written_over_the_expected_version_only() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    let version = client.good("read", json!({ "path": "notes.txt" }))["version"].clone();
    let written = client.good(
        "write",
        json!({ "path": "notes.txt", "content": "new\n", "expected_version": version }),
    );
    assert_eq!(
        client.good("read", json!({ "path": "notes.txt" }))["version"],
        written["version"]
    );
    let (code, text) = client.bad(
        "write",
        json!({ "path": "notes.txt", "content": "x", "expected_version": version }),
    );
    assert_eq!(code, "stale-version");
    assert!(text.contains("`read` /notes.txt again"), "{text}");
    let absent = json!({ "path": "notes.txt", "content": "x", "expected_version": "absent" });
    assert_eq!(client.bad("write", absent).0, "stale-version");
    client.good(
        "write",
        json!({ "path": "a/b/c.sh", "content": "#!/bin/sh\necho yes\n", "executable": true }),
    );
    assert_eq!(client.run("a/b/c.sh"), "yes\n");
    // The user's own directory is as it was.
    assert!(!sandbox.path("project/a").exists());
}

#[test]
fn edits_are_made_together_or_not_at_all() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    let edits = json!([{ "old": "one", "new": "1" }, { "old": "two", "new": "2" }]);
    assert_eq!(
        client.good("edit", json!({ "path": "notes.txt", "edits": edits }))["replaced"],
        2
    );
    let edits = json!([{ "old": "1", "new": "one" }, { "old": "e", "new": "E" }]);
    let (code, text) = client.bad("edit", json!({ "path": "notes.txt", "edits": edits }));
    assert_eq!(code, "not-unique");
    assert!(
        text.contains("at line 1, 3") && text.contains("set `all`"),
        "{text}"
    );
    assert_eq!(client.run("cat notes.txt"), "1\n2\nthree\n");
}

#[test]
fn searches_find_files_and_lines_and_say_what_they_left_out() {
    let sandbox = project();
    std::fs::create_dir_all(sandbox.path("project/.git")).unwrap();
    std::process::Command::new("git")
        .args(["init", "-q"])
        .current_dir(sandbox.path("project"))
        .status()
        .unwrap();
    std::fs::write(sandbox.path("project/.gitignore"), "build/\n").unwrap();
    std::fs::create_dir_all(sandbox.path("project/build")).unwrap();
    std::fs::write(sandbox.path("project/build/out.py"), "print('built')\n").unwrap();
    let mut client = Client::start(&sandbox, &[]);
    assert_eq!(
        client.good("glob", json!({ "patterns": ["*.py"] }))["paths"],
        json!(["src/main.py"])
    );
    let all = client.good("glob", json!({ "patterns": ["*.py"], "ignored": true }));
    assert_eq!(all["paths"], json!(["build/out.py", "src/main.py"]));
    let found = client.call("grep", json!({ "pattern": "print" }));
    assert_eq!(texts(&found)[0], "src/main.py:1:print('first')\n");
    assert!(texts(&found)[1].contains("build"), "{found}");
    let listed = client.good("list", json!({ "path": "src" }));
    assert_eq!(listed["entries"][0]["path"], "src/main.py");
    assert_eq!(client.bad("grep", json!({ "pattern": "(" })).0, "bad-argument");
}

#[test]
fn a_state_is_saved_compared_and_restored() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    client.good("write", json!({ "path": "kept.txt", "content": "kept\n" }));
    client.good("checkpoint", json!({ "name": "good", "message": "it works" }));
    client.good("delete", json!({ "path": "src", "recursive": true }));
    client.good("move", json!({ "from": "notes.txt", "to": "docs/notes.txt" }));
    let changes = client.good("changes", json!({ "since": "good", "patch": true }));
    let kinds: Vec<(&str, &str)> = changes["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["kind"].as_str().unwrap(), file["path"].as_str().unwrap()))
        .collect();
    assert_eq!(kinds, [("renamed", "docs/notes.txt"), ("deleted", "src/main.py")]);
    assert!(changes["patch"].as_str().unwrap().contains("-print('first')"));
    client.good("restore", json!({ "to": "good" }));
    assert_eq!(
        client.run("cat notes.txt src/main.py kept.txt"),
        "one\ntwo\nthree\nprint('first')\nkept\n"
    );
    client.good("write", json!({ "path": "kept.txt", "content": "lost\n" }));
    client.good("restore", json!({ "to": "@~1" }));
    assert_eq!(client.run("cat kept.txt"), "kept\n");
    let status = client.good("status", json!({}));
    assert_eq!(status["checkpoints"][0]["message"], "it works");
    assert_eq!(
        client.bad("restore", json!({ "to": "nothing" })).0,
        "unknown-revision"
    );
}

#[test]
fn a_fork_is_worked_in_by_its_name_and_leaves_the_workspace_alone() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    let fork = client.good("fork", json!({ "name": "attempt" }))["workspace"].clone();
    client.good(
        "write",
        json!({ "workspace": fork, "path": "notes.txt", "content": "other\n" }),
    );
    let ran = client.good(
        "exec",
        json!({ "workspace": fork, "command": "cat notes.txt; touch made" }),
    );
    assert_eq!(ran["stdout"], "other\n");
    assert_eq!(
        client.run("cat notes.txt; ls made 2>/dev/null || echo none"),
        "one\ntwo\nthree\nnone\n"
    );
}
