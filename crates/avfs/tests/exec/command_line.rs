//! The flags, the other names, the policy and the audit log, as a user meets them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::program::end_of;
use crate::runs::{Answer, Runs};
use crate::schema::fields;

#[test]
fn proxy_exec_is_the_same_command() {
    let runs = Runs::new();
    let words = [
        "proxy",
        "exec",
        "--json",
        "--",
        "sh",
        "-c",
        "echo same > file; exit 7",
    ];
    let answer = Answer::of(&end_of(runs.ground.command(&words), b""));
    assert_eq!(
        (answer.status, answer.changes()),
        (7, vec!["added /file".to_owned()])
    );
}

#[test]
fn where_it_starts_and_what_it_works_on() {
    let runs = Runs::new();
    runs.avfs(&["write", "-p", "src/app/main.py", "print('main')"]);
    assert_eq!(runs.sh("pwd").stdout(), "/workspace\n");
    assert_eq!(
        runs.exec(&["--cwd", "src/app", "--", "pwd"]).stdout(),
        "/workspace/src/app\n"
    );
    assert_eq!(runs.exec(&["--cwd", "/tmp", "--", "pwd"]).stdout(), "/tmp\n");
    assert_eq!(
        runs.exec(&["--", "python3", "/src/app/main.py"]).stdout(),
        "main\n"
    );
    let part = runs.exec(&[
        "--path",
        "src",
        "--",
        "sh",
        "-c",
        "ls; cat /app/main.py; echo 1 > made",
    ]);
    assert_eq!(part.stdout(), "app\nprint('main')\n");
    assert_eq!(part.changes(), ["added /src/made"]);
    assert_eq!(part.value["request"]["path"], "/src");
}

#[test]
fn its_environment_and_its_input() {
    let runs = Runs::new();
    let answer = runs.exec(&[
        "--env",
        "A=b=c",
        "--env",
        "EMPTY=",
        "-c",
        "echo \"$A,$EMPTY,$HOME,$AVFS_VAULT\"",
    ]);
    assert_eq!(answer.stdout(), "b=c,,/home/agent,work\n");
    let given = end_of(runs.command(&["--stdin", "--", "cat"]), b"given\0bytes");
    assert_eq!(Answer::of(&given).stdout(), "given\0bytes");
    let not_given = end_of(runs.command(&["--", "cat"]), b"given");
    assert_eq!(Answer::of(&not_given).stdout(), "");
}

#[test]
fn toolchains_of_the_callers_home_are_there_and_not_written() {
    let runs = Runs::new();
    let home = runs.path("home");
    let bin = home.join(".cargo/bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("cargo"), "#!/bin/sh\necho cargo of the caller\n").unwrap();
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(home.join(".cargo/credentials.toml"), "secret").unwrap();
    let script = "cargo; echo x >> $(command -v cargo); cat ~/.cargo/credentials.toml; true";
    let mut command = runs.command(&["-c", script]);
    command.env("HOME", &home);
    let answer = Answer::of(&end_of(command, b""));
    assert_eq!(answer.stdout(), "cargo of the caller\n", "{:#}", answer.value);
    assert!(
        answer.stderr().contains("cargo: Permission denied"),
        "{}",
        answer.stderr()
    );
    assert!(!fs::read_to_string(bin.join("cargo")).unwrap().ends_with("x\n"));
}

/// Every machine that runs these tests has one, in the home or in the system.
#[test]
fn the_compiler_of_this_machine_is_there() {
    let runs = Runs::new();
    let mut command = runs.command(&["--", "cargo", "--version"]);
    command.env("HOME", std::env::var_os("HOME").unwrap());
    let answer = Answer::of(&end_of(command, b""));
    assert!(answer.stdout().starts_with("cargo "), "{:#}", answer.value);
}

#[test]
fn without_json_the_output_is_the_commands_own() {
    let runs = Runs::new();
    let ended = runs.ground.ended(&[
        "exec",
        "-c",
        "printf 'a\\377'; echo talked >&2; echo 1 > file; exit 3",
    ]);
    assert_eq!(
        (ended.status.code(), ended.out.as_slice()),
        (Some(3), &b"a\xff"[..])
    );
    assert!(
        ended
            .err
            .starts_with("talked\n1 file changed; `avfs undo` undoes it\n"),
        "{}",
        ended.err
    );
    let denied = runs.ground.ended(&["exec", "--cwd", "nowhere", "--", "ls"]);
    assert!(denied.err.contains("no working directory"), "{}", denied.err);
}

#[test]
fn policy_check_tells_for_people_and_for_programs() {
    let runs = Runs::new();
    let said = runs.avfs(&["policy", "check", "-c", "curl example.com | tee page"]);
    assert_eq!(
        said.lines().next(),
        Some("require_approval: mutating, networked"),
        "{said}"
    );
    assert!(said.contains("\n  curl example.com (networked): "), "{said}");
    let object: Value =
        serde_json::from_str(&runs.avfs(&["--json", "policy", "check", "--", "rm", "-rf", "x"])).unwrap();
    assert_eq!(
        (&object["kind"], &object["class"]),
        (&"policy-check".into(), &"destructive".into())
    );
    assert_eq!(object["action"], "allow_with_checkpoint");
    assert_eq!(object["parts"].as_array().unwrap().len(), 1);
    assert_eq!(runs.avfs(&["ls"]), "", "nothing was run");
}

#[test]
fn every_mistake_in_a_policy_file_is_told_with_its_place() {
    let runs = Runs::new();
    let file = runs.path("policy.toml");
    let shown = file.display().to_string();
    let rows = [
        ("[classes\n", "policy-syntax", "policy.toml:1:"),
        ("[clases]\n", "policy-unknown-key", "did you mean 'classes'?"),
        (
            "[classes]\nmutatin = \"allow\"\n",
            "policy-bad-value",
            "did you mean 'mutating'?",
        ),
        (
            "[classes]\nmutating = \"alow\"\n",
            "policy-bad-value",
            "did you mean 'allow'?",
        ),
        (
            "[classes]\nmutating = 1\n",
            "policy-bad-value",
            "policy.toml:2:12",
        ),
        (
            "[[rules]]\naction = \"deny\"\n",
            "policy-bad-value",
            "'prefix' is missing",
        ),
        (
            "[[rules]]\nprefix = [\"\"]\naction = \"deny\"\n",
            "policy-bad-value",
            "at least one word",
        ),
        (
            "[[examples]]\ncommand = \"ls\"\naction = \"deny\"\n",
            "policy-example",
            "gets allow, not deny",
        ),
    ];
    for (text, code, part) in rows {
        fs::write(&file, text).unwrap();
        for words in [&["exec"][..], &["policy", "check"]] {
            let words = [&["--json"], words, &["--policy", &shown, "--", "ls"]].concat();
            let ended = runs.ground.ended(&words);
            let object: Value = serde_json::from_slice(&ended.out).unwrap();
            assert_eq!(
                (ended.status.code(), &object["error"]["code"]),
                (Some(2), &code.into()),
                "{text}"
            );
            assert!(object["error"].to_string().contains(part), "{part}: {object}");
        }
    }
}

#[test]
fn doctor_looks_at_what_sandboxes_need() {
    let runs = Runs::new();
    let ended = runs.ground.ended(&["--json", "doctor"]);
    let object: Value = serde_json::from_slice(&ended.out).unwrap();
    let checks = object["checks"].as_array().unwrap();
    for name in [
        "bubblewrap",
        "user namespaces",
        "filters of system calls",
        "Landlock",
        "control groups",
        "container",
    ] {
        assert!(
            checks.iter().any(|check| check["name"] == name),
            "{name}: {object:#}"
        );
    }
}

#[test]
fn the_audit_log_tells_of_every_run() {
    let runs = Runs::new();
    let policy = runs.path("strict.toml");
    fs::write(&policy, "[classes]\ndestructive = \"deny\"\n").unwrap();
    let strict = policy.display().to_string();
    let by = ["--principal", "agent-7"];
    let answers = [
        (
            runs.exec(&[&by[..], &["--", "cat", "/etc/hostname"]].concat()),
            "exec",
            "exit 0",
        ),
        (
            runs.exec(&[&by[..], &["-c", "echo 1 > f; exit 9"]].concat()),
            "exec",
            "exit 9",
        ),
        (
            runs.exec(&[&by[..], &["--policy", &strict, "--", "rm", "f"]].concat()),
            "exec-refused",
            "not run",
        ),
        (
            runs.exec(&[&by[..], &["--cwd", "no", "--", "touch", "f"]].concat()),
            "exec-failed",
            "not run",
        ),
        (
            runs.exec(&[&by[..], &["--timeout", "1500", "-c", "sleep 99"]].concat()),
            "exec",
            "timed out",
        ),
    ];
    let entries: Vec<Value> = runs
        .avfs(&["audit"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (answer, action, end) in &answers {
        let head = answer.result("audit_head");
        let entry = entries
            .iter()
            .find(|entry| entry["hash"] == *head)
            .unwrap_or_else(|| panic!("{:#}", answer.value));
        let detail = entry["detail"].as_str().unwrap();
        let decision = answer.result("decision")["action"].as_str().unwrap();
        assert_eq!(entry["action"], *action);
        for part in [answer.text("run").as_str(), "by agent-7", decision, end] {
            assert!(detail.contains(part), "{part}: {detail}");
        }
        runs.avfs(&["audit", "verify", "--expect", head.as_str().unwrap()]);
    }
    let wrong = "0".repeat(64);
    assert!(
        !runs
            .ground
            .ended(&["audit", "verify", "--expect", &wrong])
            .status
            .success(),
        "the control"
    );
}

#[test]
fn the_page_explains_every_field() {
    let page = include_str!("../../../../docs/exec.md");
    let part = page
        .split("\n## ")
        .find(|part| part.starts_with("The answer\n"))
        .unwrap();
    let rows = part.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut told: Vec<&str> = rows
        .filter_map(|row| row.split_once("` |").map(|(field, _)| field))
        .collect();
    told.sort_unstable();
    assert_eq!(told, fields());
}

#[test]
fn run_under_landlock_alone_works_on_a_copy_that_is_read_back() {
    let runs = Runs::new();
    runs.avfs(&["write", "gone", "1"]);
    runs.avfs(&["label", "set", "gone", "kept"]);
    let landlock = ["--isolation", "landlock"];
    let answer = runs.free(
        &landlock,
        "mv gone moved; mkdir d; echo new > d/f; cat /etc/shadow; true",
    );
    assert!(
        answer.text("stderr").contains("Permission denied"),
        "{:#}",
        answer.value
    );
    assert!(
        answer.text("isolation").starts_with("landlock"),
        "{:#}",
        answer.value
    );
    let changed: Vec<&str> = answer
        .result("changed_files")
        .as_array()
        .unwrap()
        .iter()
        .map(path)
        .collect();
    assert_eq!(changed, ["/d/f", "/moved"]);
    assert_eq!(runs.avfs(&["cat", "d/f"]), "new\n");
    runs.avfs(&["undo"]);
    assert_eq!(runs.avfs(&["cat", "gone"]), "1\n");
    // Rules that a plain copy cannot keep are refused before anything runs.
    let refused = runs.free(
        &[&landlock[..], &["--preset", "development"]].concat(),
        "echo ran > ran",
    );
    assert_eq!(
        refused.value["error"]["code"], "rules-need-mount",
        "{:#}",
        refused.value
    );
    assert!(!runs.avfs(&["ls"]).contains("ran"));
}

fn path(change: &Value) -> &str {
    change["path"].as_str().unwrap()
}
