//! Requests for approval, and the effects of answers.

mod asker;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use asker::ASKS;
pub use asker::{Answer, Asker};
use serde_json::Value;

use crate::schema::assert_event;

#[test]
fn command_allowed_once_runs_exactly_once() {
    let asker = Asker::new();
    let asked = asker.exec(&["-c", ASKS]);
    assert_eq!((asked.status, asked.code()), (121, "approval_required"));
    assert_eq!(asked.envelope["result"]["decision"]["action"], "require_approval");
    let id = asked.approval();
    assert_eq!(
        asker.asks(&["-c", ASKS]),
        id,
        "the same request is asked for once"
    );
    assert_eq!(asker.runs(), 0);

    asker.good(&["approvals", "allow", &id]);
    let ran = asker.exec(&["-c", ASKS]);
    assert_eq!((ran.status, asker.runs()), (0, 1), "{}", ran.envelope);
    assert_eq!(ran.approval(), id);
    assert_eq!(
        ran.envelope["result"]["decision"]["rule"],
        format!("approval {id}")
    );
    assert_ne!(asker.asks(&["-c", ASKS]), id);
    assert_eq!((asker.runs(), asker.state(&id)), (1, "used".to_owned()));
}

#[test]
fn an_approval_holds_for_everything_that_decides_a_run() {
    let asker = Asker::new();
    let policy = asker.file("policy.toml", "[classes]\ndestructive = \"ask\"\n");
    let curl = [
        "--",
        "curl",
        "-s",
        "-o",
        "/dev/null",
        "--max-time",
        "1",
        "https://example.invalid",
    ];
    let id = asker.asks(&curl);
    asker.good(&["approvals", "allow", &id, "--once"]);

    let changed = |field: &str, flags: &[&str]| {
        let answer = asker.exec_with("bytes", &[flags, &curl].concat());
        assert_eq!(
            (answer.status, answer.code()),
            (121, "approval_required"),
            "{field}: {}",
            answer.envelope
        );
        assert_ne!(answer.approval(), id, "{field}");
        let told = answer.message();
        assert!(
            told.contains("changed since: ") && told.contains(field),
            "{field}: {told}"
        );
    };
    changed("working directory", &["--cwd", "src"]);
    changed("environment", &["--env", "A=1"]);
    changed("standard input", &["--stdin"]);
    changed("part of the vault", &["--path", "src"]);
    changed("rules", &["--rule", "/src/**=read"]);
    changed("network", &["--net", "example.com"]);
    changed("network", &["--net", "example.com,example.org"]);
    changed("published ports", &["--publish", "0:5173"]);
    changed("passed environment", &["--env", "AVFS_ACTOR"]);
    changed("limits", &["--memory", "512M"]);
    changed("limits", &["--timeout", "5000"]);
    changed("whether it may only read", &["--read-only"]);
    changed("checkpoint", &["--checkpoint", "always"]);
    changed("principal", &["--principal", "other"]);
    changed("policy", &["--policy", &policy]);
    let other = asker.asks(&[
        "--",
        "curl",
        "-s",
        "-o",
        "/dev/null",
        "--max-time",
        "1",
        "https://example.org",
    ]);
    assert_ne!(other, id);
    let output = asker
        .command(&curl)
        .env("LC_ALL", "de_DE.UTF-8")
        .output()
        .unwrap();
    assert!(Answer::of(&output).message().contains("inherited environment"));
    let output = asker
        .command(&curl)
        .env("HOME", asker.path("other"))
        .env("AVFS_VAULT", "web")
        .output()
        .unwrap();
    assert!(
        Answer::of(&output)
            .message()
            .contains("have changed since: the home, ")
    );

    assert_eq!(asker.state(&id), "allowed", "nothing of this has used it");
    asker.good(&["write", "src/b.txt", "b"]);
    let moved = asker.exec(&curl);
    assert!(
        moved
            .message()
            .contains("this has changed since: the state of the vault"),
        "{}",
        moved.message()
    );
    assert_eq!(asker.state(&id), "replaced");
    assert_eq!(
        asker.bad(&["approvals", "allow", &id]),
        (4, "approval-expired".to_owned())
    );

    asker.good(&["approvals", "allow", &moved.approval()]);
    let ran = asker.exec(&curl);
    assert!(ran.status != 121 && ran.code().is_empty(), "{}", ran.envelope);
}

#[test]
fn allowing_what_was_asked_on_another_state_tells_that_it_no_longer_holds() {
    let asker = Asker::new();
    let id = asker.asks(&["-c", ASKS]);
    asker.good(&["write", "src/b.txt", "b"]);
    let output = asker.avfs(&["approvals", "allow", &id]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let expected = format!(
        "warning: approval {id} no longer holds: the vault has changed since the request\n\
         hint: run the command again: it asks again\n"
    );
    assert_eq!(told, expected);
    let again = asker.asks(&["-c", ASKS]);
    asker.good(&["write", "src/c.txt", "c"]);
    asker.good(&["approvals", "allow", &again, "--session"]);
    assert_eq!(
        asker.exec(&["-c", ASKS]).status,
        0,
        "for a session, any state will do"
    );
}

#[test]
fn answering_what_is_denied_tells_how_long_that_holds() {
    let asker = Asker::new();
    let id = asker.asks(&["-c", ASKS]);
    asker.good(&["approvals", "deny", &id]);
    for verb in ["allow", "deny"] {
        let output = asker.avfs(&["approvals", verb, &id]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{told}");
        assert!(
            told.contains(&format!("approval {id} was denied by boss already")),
            "{told}"
        );
        assert!(
            told.contains("hint: the denial holds for 24 hours, or until the vault changes"),
            "{told}"
        );
    }
    assert_eq!(asker.exec(&["-c", ASKS]).code(), "approval_denied");
    asker.good(&["write", "src/b.txt", "b"]);
    assert_ne!(asker.asks(&["-c", ASKS]), id, "it asks again");
}

#[test]
fn of_two_runs_at_once_one_gets_what_was_allowed_once() {
    let asker = Asker::new();
    for round in 1..=4 {
        let id = asker.asks(&["-c", ASKS]);
        asker.good(&["approvals", "allow", &id, "--once"]);
        let start = || {
            asker
                .command(&["-c", ASKS])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let both = [start(), start()];
        let mut ends = both.map(|child| Answer::of(&child.wait_with_output().unwrap()).status);
        ends.sort_unstable();
        assert_eq!((ends, asker.runs()), ([0, 121], round));
        assert_eq!(asker.state(&id), "used");
    }
}

/// A run that waits, and the approval that it waits for.
fn waiting(asker: &Asker) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut command = asker.command(&["--stream", "--wait", "600", "-c", ASKS]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_event(&event);
    assert_eq!(event["event"], "waiting", "{line}");
    (child, lines, event["approval"].as_str().unwrap().to_owned())
}

#[track_caller]
fn end((mut child, mut lines): (Child, BufReader<std::process::ChildStdout>)) -> Answer {
    let mut rest = Vec::new();
    lines.read_to_end(&mut rest).unwrap();
    let status = child.wait().unwrap();
    Answer::of(&std::process::Output {
        status,
        stdout: rest,
        stderr: Vec::new(),
    })
}

#[test]
fn a_run_waits_until_another_process_allows_it() {
    let asker = Asker::new();
    let (child, lines, id) = waiting(&asker);
    assert_eq!((asker.state(&id).as_str(), asker.runs()), ("pending", 0));
    asker.good(&["approvals", "allow", &id]);
    let ended = end((child, lines));
    assert_eq!((ended.status, asker.runs()), (0, 1), "{}", ended.envelope);
    assert_eq!(ended.approval(), id);
}

#[test]
fn a_run_that_waits_is_denied_with_the_reason() {
    let asker = Asker::new();
    let (child, lines, id) = waiting(&asker);
    asker.good(&["approvals", "deny", &id, "--reason", "use the mirror"]);
    let ended = end((child, lines));
    assert_eq!((ended.status, ended.code()), (122, "approval_denied"));
    assert_eq!(ended.message(), "denied by boss: use the mirror");
    assert_eq!(ended.envelope["result"]["decision"]["action"], "deny");
    let again = asker.exec(&["-c", ASKS]);
    assert_eq!(
        (again.status, again.approval()),
        (122, id),
        "it is not asked for again"
    );
    assert_eq!(asker.runs(), 0);
}

#[test]
fn a_run_that_waits_goes_on_with_a_rule_that_is_saved() {
    let asker = Asker::new();
    let mut command = asker.command(&["--stream", "--wait", "--", "git", "push", "origin", "main"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    asker.good(&[
        "approvals",
        "allow",
        event["approval"].as_str().unwrap(),
        "--always",
    ]);
    let ended = end((child, lines));
    assert_eq!(
        ended.envelope["result"]["decision"]["action"], "allow",
        "{}",
        ended.envelope
    );
    assert!(
        ended.envelope["result"]["exit_code"].is_i64(),
        "{}",
        ended.envelope
    );
}

#[test]
fn wait_that_times_out_leaves_the_request_pending() {
    let asker = Asker::new();
    let answer = asker.exec(&["--wait", "0", "-c", ASKS]);
    assert_eq!((answer.status, answer.code()), (121, "approval_required"));
    assert_eq!(asker.state(&answer.approval()), "pending");
}

#[test]
fn without_a_person_to_ask_a_command_is_denied() {
    let asker = Asker::new();
    let answer = asker.exec(&["--no-ask", "-c", ASKS]);
    assert_eq!((answer.status, answer.code()), (122, "denied_by_policy"));
    let dry = asker.exec(&["--dry-run", "-c", ASKS]);
    assert_eq!((dry.status, dry.code()), (121, "approval_required"));
    assert_eq!(
        asker.object(&["approvals", "list", "--all"])["approvals"],
        serde_json::json!([])
    );
}

#[test]
fn a_session_holds_for_the_same_request_whatever_the_vault_holds() {
    let asker = Asker::new();
    let agent = ["--principal", "agent", "-c", ASKS];
    let id = asker.asks(&agent);
    asker.good(&["approvals", "allow", &id, "--session"]);
    for round in 1..=2 {
        assert_eq!((asker.exec(&agent).status, asker.runs()), (0, round));
    }
    asker.asks(&["--principal", "other", "-c", ASKS]);
    asker.good(&["approvals", "deny", &id]);
    let (taken_back, runs) = (asker.exec(&agent), asker.runs());
    assert!(
        matches!(taken_back.status, 121 | 122) && runs == 2,
        "{}",
        taken_back.envelope
    );
}

const PUSH: [&str; 5] = ["--", "git", "push", "origin", "main"];

#[test]
fn a_saved_rule_allows_the_command_and_nothing_wider() {
    let asker = Asker::new();
    let id = asker.asks(&PUSH);
    let shown = asker.object(&["approvals", "show", &id]);
    assert_eq!(
        shown["always"][0]["prefix"],
        serde_json::json!(["git", "push", "origin", "main"])
    );
    assert_eq!(shown["always"][0]["exact"], true);
    for wide in ["git", "git pull", "ls"] {
        let refused = asker.bad(&["approvals", "allow", &id, "--always", "--rule", wide]);
        assert_eq!(refused, (2, "rule-too-wide".to_owned()), "{wide}");
    }
    let unreadable = asker.bad(&["approvals", "allow", &id, "--always", "--rule", "git $x"]);
    assert_eq!(unreadable, (2, "bad-rules".to_owned()));
    assert_eq!(asker.state(&id), "pending");

    asker.good(&["approvals", "allow", &id, "--always"]);
    let ran = asker.exec(&PUSH);
    assert_eq!(
        ran.envelope["result"]["decision"]["action"], "allow",
        "{}",
        ran.envelope
    );
    assert!(
        ran.envelope["result"]["decision"]["rule"]
            .as_str()
            .unwrap()
            .contains(&id)
    );
    let checked = |flags: &[&str]| {
        let text = asker.good(&[&["policy", "check", "--json"], flags, &PUSH[..]].concat());
        let checked: serde_json::Value = serde_json::from_str(&text).unwrap();
        checked["action"].as_str().unwrap().to_owned()
    };
    assert_eq!(checked(&[]), "allow");
    assert_eq!(checked(&["--net", "example.com"]), "require_approval");
    asker.asks(&["--", "git", "push", "origin", "other"]);
    asker.asks(&["--", "git", "push", "--force", "origin", "main"]);
    asker.asks(&[&["--net", "example.com"], &PUSH[..]].concat());
    let strict = asker.file(
        "strict.toml",
        "[[rules]]\nprefix = [\"git\", \"push\"]\naction = \"deny\"\n",
    );
    let denied = asker.exec(&[&["--policy", &strict], &PUSH[..]].concat());
    assert_eq!((denied.status, denied.code()), (122, "denied_by_policy"));

    asker.good(&["approvals", "rules", "--forget", "1"]);
    asker.asks(&PUSH);
}

#[test]
fn an_edited_rule_reaches_down_to_the_subcommand() {
    let asker = Asker::new();
    let id = asker.asks(&PUSH);
    let allowed = asker.object(&["approvals", "allow", &id, "--always", "--rule", "git push"]);
    assert_eq!(allowed["saved"][0]["prefix"], serde_json::json!(["git", "push"]));
    let other = asker.exec(&["--", "git", "push", "origin", "other"]);
    assert_eq!(other.envelope["result"]["decision"]["action"], "allow");
    asker.asks(&["--", "git", "fetch", "origin"]);
}

#[test]
fn a_rule_can_be_saved_in_a_policy_file() {
    let asker = Asker::new();
    let text = "# ours\n[classes]\ndestructive = \"deny\"\n";
    let file = asker.file("policy.toml", text);
    let flags = ["--policy", &file];
    let id = asker.asks(&[&flags, &PUSH[..]].concat());
    asker.good(&["approvals", "allow", &id, "--always", "--policy", &file]);
    let whole = std::fs::read_to_string(&file).unwrap();
    assert!(whole.starts_with(text) && whole.contains("\"push\""), "{whole}");
    let ran = asker.exec(&[&flags, &PUSH[..]].concat());
    assert_eq!(
        ran.envelope["result"]["decision"]["action"], "allow",
        "{}",
        ran.envelope
    );
    assert_eq!(
        asker.object(&["approvals", "rules"])["rules"],
        serde_json::json!([])
    );

    let broken = asker.file("broken.toml", "[classes");
    assert_eq!(
        asker.bad(&["policy", "check", "--policy", &broken, "--", "ls"]),
        (2, "policy-syntax".to_owned())
    );
    let id = asker.asks(&PUSH);
    let refused = asker.bad(&["approvals", "allow", &id, "--always", "--policy", &broken]);
    assert_eq!(refused, (2, "policy-syntax".to_owned()));
    assert_eq!(asker.state(&id), "pending");
}

#[test]
fn approval_that_cannot_become_a_rule_says_so() {
    let asker = Asker::new();
    let id = asker.asks(&["-c", "curl \"$URL\""]);
    assert!(
        asker
            .good(&["approvals", "show", &id])
            .contains("always: nothing can be saved")
    );
    let refused = asker.bad(&["approvals", "allow", &id, "--always"]);
    assert_eq!(refused, (2, "nothing-to-save".to_owned()));
}

#[test]
fn a_request_is_shown_with_everything_and_nothing_steers_the_terminal() {
    let asker = Asker::new();
    let nasty = "https://x/\u{1b}[2K\u{202e}\u{200b}\n";
    let flags = [
        "--stdin",
        "--env",
        "A=\u{1b}]0;t\u{7}",
        "--cwd",
        "src",
        "--net",
        "example.com,example.org:443",
    ];
    let rest = [
        "--rule",
        "/src/**=read",
        "--principal",
        "agent\u{1b}[31m",
        "--",
        "curl",
        nasty,
    ];
    let asked = asker.exec_with("four", &[&flags[..], &rest].concat());
    let id = asked.approval();
    let shown = asker.good(&["approvals", "show", &id]);
    assert!(
        shown
            .chars()
            .all(|c| c == '\n' || c.is_ascii_graphic() || c == ' '),
        "{shown:?}"
    );
    for part in [
        "command: (44 characters, 2 lines)\n",
        r"  | curl 'https://x/\u{1b}[2K\u{202e}\u{200b}\n",
        "given: reads and writes the files of the vault",
        r"is not known before it runs",
        "directory: /workspace/src",
        r"variable: A=\u{1b}]0;t\u{7}",
        "input: 4 bytes, BLAKE3 ",
        "network: example.com, example.org:443",
        "rule: /src/**=read",
        r"principal: agent\u{1b}[31m",
        "vault: web at ",
        "does: host_escape_risk",
        r"it holds the character \u{1b}",
        "once only: ",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let list = asker.good(&["approvals", "list"]);
    assert!(
        list.contains(&id) && !list.contains('\u{1b}') && !list.contains('\u{202e}'),
        "{list:?}"
    );
    let json = asker.good(&["approvals", "show", &id, "--json"]);
    assert!(json.is_ascii() && !json.contains('\u{1b}'), "{json:?}");
    let object: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(object["command"][1]["text"], nasty);
    assert_eq!(
        object["network"],
        serde_json::json!({"hosts": ["example.com", "example.org:443"]})
    );
    let head = asker.object(&["vault", "info"])["head"].clone();
    assert_eq!(object["head"], head);
}

#[test]
fn a_preview_shows_the_changes_and_leaves_nothing() {
    let asker = Asker::new();
    let line =
        "cat > made.txt; echo \"${GH_TOKEN-no token}, $PLAIN\" >> made.txt; curl -s https://example.invalid";
    let flags = [
        "--env",
        "GH_TOKEN=hush",
        "--env",
        "PLAIN=plain",
        "--net",
        "host",
        "--stdin",
        "-c",
        line,
    ];
    let id = asker.exec_with("from input\n", &flags).approval();
    let before = asker.object(&["vault", "info"]);
    let shown = asker.good(&["approvals", "show", &id, "--diff"]);
    for part in [
        "+++ b/made.txt",
        "+from input",
        "+no token, plain",
        "withheld: GH_TOKEN",
        "without network",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!shown.contains("+hush"), "{shown}");
    let json = asker.object(&["approvals", "show", &id, "--diff"]);
    assert_eq!(json["preview"]["run"]["request"]["network"], "none");
    assert_eq!(json["preview"]["withheld"], serde_json::json!(["GH_TOKEN"]));

    let after = asker.object(&["vault", "info"]);
    assert_eq!(
        (&after["head"], &after["forks"]),
        (&before["head"], &serde_json::json!([]))
    );
    let vaults = asker.object(&["vault", "list"]);
    assert_eq!(vaults["vaults"].as_array().unwrap().len(), 1, "{vaults}");
    let left = std::fs::read_dir(asker.store().join("runs")).unwrap().count();
    assert_eq!((left, asker.state(&id).as_str()), (0, "pending"));
}

#[test]
fn leftovers_of_a_killed_preview_are_removed_by_the_next_command() {
    let asker = Asker::new();
    let id = asker.asks(&PUSH);
    let vault = asker.object(&["vault", "info"])["name"]
        .as_str()
        .unwrap()
        .to_owned();
    // No process has this number.
    let (left, own) = (format!("preview-{id}-4294967294"), "preview-mine".to_owned());
    let living = format!("preview-{id}-{}", std::process::id());
    let names = || {
        let list = asker.object(&["vault", "list"])["vaults"].clone();
        let names = list
            .as_array()
            .unwrap()
            .iter()
            .map(|vault| vault["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    for command in [
        vec!["approvals", "list"],
        vec!["approvals", "show", &id],
        vec!["gc"],
    ] {
        asker.good(&["vault", "fork", &vault, &left]);
        asker.good(&["vault", "fork", &vault, &own]);
        asker.good(&["vault", "fork", &vault, &living]);
        asker.good(&command);
        let there = names();
        assert!(!there.contains(&left), "{there:?}");
        assert!(there.contains(&own) && there.contains(&living), "{there:?}");
        asker.good(&["vault", "delete", "--yes", &own]);
        asker.good(&["vault", "delete", "--yes", &living]);
    }
}

#[test]
fn a_preview_goes_through_the_rules_of_the_request() {
    let asker = Asker::new();
    let line = "echo x > src/new.txt; curl -s https://example.invalid";
    let id = asker.asks(&["--rule", "/src/**=read", "-c", line]);
    let shown = asker.good(&["approvals", "show", &id, "--diff"]);
    assert!(shown.contains("it changed nothing"), "{shown}");
}

#[test]
fn command_that_might_reach_the_host_has_no_preview() {
    let asker = Asker::new();
    let id = asker.asks(&["--", "sudo", "ls"]);
    assert_eq!(
        asker.bad(&["approvals", "show", &id, "--diff"]),
        (4, "no-preview".to_owned())
    );
    asker.good(&["approvals", "show", &id]);
}

#[test]
fn nothing_inside_a_sandbox_can_approve() {
    let asker = Asker::new();
    let everything = asker.file(
        "everything.toml",
        "[classes]\nmutating = \"allow\"\ndestructive = \"allow\"\nnetworked = \"allow\"\nhost_escape_risk = \"allow\"\n",
    );
    let id = asker.asks(&["-c", ASKS]);
    let store = asker.store().display().to_string();
    let script = format!(
        "ls -d {store} && echo there; /run/avfs/inside --home {store} approvals allow {id} && echo allowed"
    );
    let inside = asker.exec(&[
        "--policy",
        &everything,
        "--checkpoint",
        "never",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let result = &inside.envelope["result"];
    assert_eq!(
        (result["stdout"].as_str(), result["exit_code"].is_i64()),
        (Some(""), true),
        "{}",
        inside.envelope
    );
    assert_eq!(asker.state(&id), "pending");
    let outside = asker
        .avfs(&["--home", &store, "approvals", "allow", &id])
        .status()
        .unwrap();
    assert!(outside.success());
}

#[test]
fn every_step_is_audited_and_the_chain_holds() {
    let asker = Asker::new();
    let asked = asker.exec(&["--principal", "agent", "-c", ASKS]);
    let id = asked.approval();
    asker.good(&["approvals", "allow", &id]);
    let ran = asker.exec(&["--principal", "agent", "-c", ASKS]);
    let denied = asker.exec(&["--principal", "agent", "-c", ASKS]);
    asker.good(&["approvals", "deny", &denied.approval(), "--reason", "enough"]);

    let audit = asker.audit();
    let actions: Vec<&str> = audit.iter().map(|(action, _)| action.as_str()).collect();
    let steps = [
        "approval-request",
        "approval-allow",
        "approval-use",
        "approval-request",
        "approval-deny",
    ];
    assert_eq!(actions, steps);
    let run = |answer: &Answer| answer.envelope["result"]["run"].as_str().unwrap().to_owned();
    let expected = [
        (&id, &asked),
        (&id, &asked),
        (&id, &ran),
        (&denied.approval(), &denied),
        (&denied.approval(), &denied),
    ]
    .map(|(id, answer)| format!("{id} {} by agent: {ASKS}", run(answer)));
    for ((_, detail), expected) in audit.iter().zip(expected) {
        assert!(detail.starts_with(&expected), "{detail}\n{expected}");
    }

    for answer in [&asked, &ran, &denied] {
        let head = answer.audit_head();
        assert_eq!(head.len(), 64, "{}", answer.envelope);
        asker.good(&["audit", "verify", "--expect", head]);
    }
    let other = "0".repeat(64);
    assert_eq!(
        asker.bad(&["audit", "verify", "--expect", &other]),
        (6, "audit-broken".to_owned())
    );
}

#[test]
fn approvals_have_names_and_are_decided_once() {
    let asker = Asker::new();
    for unknown in ["a1-00000000", "nonsense", "a9-12345678"] {
        assert_eq!(
            asker.bad(&["approvals", "show", unknown]),
            (3, "unknown-approval".to_owned())
        );
    }
    let id = asker.asks(&["-c", ASKS]);
    asker.good(&["approvals", "allow", &id]);
    assert_eq!(
        asker.bad(&["approvals", "allow", &id]),
        (4, "approval-decided".to_owned())
    );
    assert!(!asker.good(&["approvals", "list"]).contains(&id));
    assert!(asker.good(&["approvals", "list", "--all"]).contains(&id));
}

#[test]
fn permission_for_a_session_holds_there_alone() {
    let asker = Asker::new();
    let start = || asker.good(&["session", "start", "--quiet"]).trim().to_owned();
    let run = |session: &str| {
        let words = ["session", "exec", session, "--json", "-c", ASKS];
        let output = asker.avfs(&words).output().unwrap();
        Answer {
            status: output.status.code().unwrap(),
            envelope: serde_json::from_slice(&output.stdout).unwrap(),
        }
    };
    let session = start();
    let asked = run(&session);
    assert_eq!(
        (asked.status, asked.code()),
        (121, "approval_required"),
        "{}",
        asked.envelope
    );
    asker.good(&["approvals", "allow", &asked.approval(), "--session"]);
    let alone = asker.exec(&["-c", ASKS]);
    assert_eq!(alone.status, 121, "{}", alone.envelope);
    assert!(alone.message().contains("session"), "{}", alone.message());
    for round in 1..=2 {
        assert_eq!((run(&session).status, asker.runs()), (0, round));
    }
    let tell = |line: &str| asker.good(&["session", "exec", &session, "-c", line]);
    // Nothing of the shell reaches a command that names no variable.
    tell("export OTHER=1; shopt -s nullglob; g() { :; }");
    assert_eq!((run(&session).status, asker.runs()), (0, 3));
    tell("cd /tmp");
    assert_eq!(run(&session).status, 121, "in another directory");
    asker.good(&["session", "stop", &session]);
    let other = start();
    assert_eq!((run(&other).status, asker.runs()), (121, 3));
    asker.good(&["session", "stop", &other]);
}

#[test]
fn a_command_that_would_reach_nothing_says_so_and_what_to_type() {
    let asker = Asker::new();
    let asked = asker.exec(&["--", "curl", "https://a.example/x"]);
    assert!(
        asked
            .message()
            .contains("it would reach nothing, because this run has no network"),
        "{}",
        asked.message()
    );
    let hint = asked.envelope["error"]["hint"].as_str().unwrap();
    let typed = "avfs exec --vault web --net +a.example -- curl https://a.example/x";
    assert!(
        hint.starts_with(&format!("`{typed}` requests it with a network")),
        "{hint}"
    );
    let words: Vec<&str> = typed.split(' ').skip(2).collect();
    let again = asker.exec(&words);
    assert_eq!(again.code(), "approval_required");
    assert_ne!(again.approval(), asked.approval());
    assert!(!again.message().contains("reach nothing"), "{}", again.message());
    // A command that needs no network shows none.
    let policy = asker.file("all.toml", "[classes]\nmutating = \"ask\"\n");
    let changing = asker.exec(&["--policy", &policy, "--", "touch", "x"]);
    assert!(!changing.message().contains("network"), "{}", changing.message());
}

#[test]
fn the_value_of_a_variable_that_is_passed_on_is_kept_nowhere() {
    let asker = Asker::new();
    let run = ["exec", "--env", "MY_TOKEN", "--", "curl", "https://a.example"];
    let output = asker.avfs(&run).env("MY_TOKEN", "s3cret-value").output().unwrap();
    assert_eq!(output.status.code(), Some(121));
    let list = asker.object(&["approvals", "list"]);
    assert_eq!(list["approvals"][0]["env_passed"][0]["text"], "MY_TOKEN");
    let shown = asker.good(&["approvals", "show", list["approvals"][0]["id"].as_str().unwrap()]);
    assert!(
        shown.contains("variable: MY_TOKEN of the user who runs it"),
        "{shown}"
    );
    let found = std::process::Command::new("grep")
        .args(["-ra", "s3cret-value"])
        .arg(asker.store())
        .output()
        .unwrap();
    assert!(
        found.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&found.stdout)
    );
}

#[test]
fn an_empty_word_in_a_command_hides_no_other_request() {
    let asker = Asker::new();
    let [plain, empty] = [
        &["--", "curl", "https://example.invalid"][..],
        &["--", "curl", "", "-s"],
    ]
    .map(|command| asker.asks(command));
    let list: Value = serde_json::from_str(&asker.good(&["--json", "approvals", "list"])).unwrap();
    let ids: Vec<&str> = list["approvals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert!(ids.contains(&&*plain) && ids.contains(&&*empty), "{list}");
    asker.good(&["approvals", "show", &empty]);
    asker.good(&["approvals", "allow", &empty, "--always"]);
    let nameless = asker.asks(&["--net", "a.example", "--", ""]);
    let all: Value = serde_json::from_str(&asker.good(&["--json", "approvals", "list"])).unwrap();
    assert!(all.to_string().contains(&*nameless), "{all}");
    asker.good(&["approvals", "show", &nameless]);
    let list: Value = serde_json::from_str(&asker.good(&["--json", "approvals", "rules"])).unwrap();
    assert_eq!(list["rules"].as_array().unwrap().len(), 1, "{list}");
}
