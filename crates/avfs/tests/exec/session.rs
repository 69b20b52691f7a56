//! Sessions: a shell that stays, and everything that may happen to it.

mod ends;
mod ground;
mod inside;
mod ordinary;
mod together;

use ground::Session;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

fn names(files: &Value) -> Vec<&str> {
    files
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect()
}

#[test]
fn a_session_keeps_its_state_and_each_command_has_its_own_envelope() {
    let session = Session::start("");
    let first = session.envelope("mkdir src && cd src && x='a b' && f() { echo f:$x; }; echo e >&2");
    assert_eq!(
        (&first["kind"], &first["success"]),
        (&json!("exec"), &json!(true))
    );
    let result = &first["result"];
    assert_eq!(result["session"], session.id.as_str());
    assert_eq!(
        (&result["session_ended"], &result["exit_code"]),
        (&json!(false), &json!(0))
    );
    assert_eq!(
        (&result["stdout"], &result["stderr"]),
        (&json!(""), &json!("e\n"))
    );
    assert_eq!(names(&result["changed_files"]), ["/src"]);
    assert_ne!(result["snapshot_before"], result["snapshot_after"]);
    let second = session.envelope("f; pwd; echo new > file");
    assert_eq!(second["request"]["cwd"], "/workspace/src");
    assert_eq!(second["result"]["stdout"], "f:a b\n/workspace/src\n");
    assert_eq!(names(&second["result"]["changed_files"]), ["/src/file"]);
    assert_eq!(second["result"]["snapshot_before"], result["snapshot_after"]);
    let nothing = session.envelope("true");
    assert_eq!(
        nothing["result"]["snapshot_before"],
        nothing["result"]["snapshot_after"]
    );
    assert_eq!(nothing["result"]["changed_files"], json!([]));
    assert_eq!(session.home.good("cat src/file"), "new\n");
}

#[test]
fn words_lines_and_statuses_are_the_commands_own() {
    let session = Session::start("--env GIVEN=1 --cwd /tmp");
    let output = session.words(&["printf", "%s|", "it's", "$HOME", "*", "a b"]);
    assert_eq!(
        (output.status.code(), output.stdout),
        (Some(0), b"it's|$HOME|*|a b|".to_vec())
    );
    assert_eq!(session.line("echo $GIVEN $PWD").stdout, b"1 /tmp\n");
    for status in [1, 3, 126, 255] {
        assert_eq!(
            session.line(&format!("(exit {status})")).status.code(),
            Some(status)
        );
    }
    let open = session.line("echo \"open");
    assert_eq!(open.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&open.stderr).contains("unexpected EOF"));
    assert_eq!(
        session
            .line("cat <<E\nhere\nE\nfor i in 1 2\ndo echo $i # no\ndone")
            .stdout,
        b"here\n1\n2\n"
    );
    assert_eq!(session.line("printf 'a\\0\\xff'").stdout, b"a\0\xff");
    let bytes = session.envelope("printf 'a\\xff'");
    assert_eq!(bytes["result"]["stdout_bytes_hex"], "61ff");
}

#[test]
fn a_command_reads_what_it_is_given_and_streams_what_it_says() {
    let session = Session::start("");
    assert_eq!(session.line("cat; read x; echo $?").stdout, b"1\n");
    let mut given = session.avfs(&["--stdin", "--", "cat"]);
    assert_eq!(
        given.write_stdin(&b"one\0two"[..]).output().unwrap().stdout,
        b"one\0two"
    );
    let streamed = session
        .avfs(&["--stream", "-c", "echo out; echo err >&2; (exit 4)"])
        .output()
        .unwrap();
    assert_eq!(streamed.status.code(), Some(4));
    let lines: Vec<Value> = streamed
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|l| serde_json::from_slice(l).ok())
        .collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["exec-event", "exec-event", "exec"]);
    assert_eq!(lines[2]["result"]["exit_code"], 4);
}

#[test]
fn a_flood_of_output_is_bounded() {
    let session = Session::start("--output-limit 1000");
    let flood = session.envelope("head -c 5000000 /dev/zero | tr '\\0' x; echo end");
    let result = &flood["result"];
    assert_eq!(
        (&result["stdout_truncated"], &result["stdout_bytes"]),
        (&json!(true), &json!(5_000_004))
    );
    assert!(result["stdout"].as_str().unwrap().len() < 1100);
    assert!(result["stdout"].as_str().unwrap().ends_with("end\n"));
}

#[test]
fn changes_of_background_jobs_are_told_apart() {
    let session = Session::start("");
    let first = session.envelope(
        "(until test -e /tmp/go; do sleep 0.01; done; echo x > late; touch /tmp/done) & echo x > now",
    );
    assert_eq!(names(&first["result"]["changed_files"]), ["/now"]);
    session.envelope("touch /tmp/go; until test -e /tmp/done; do sleep 0.01; done");
    session.envelope(
        "rm /tmp/done; (until test -e /tmp/on; do :; done; rm now; touch /tmp/done) & touch /tmp/on",
    );
    session.home.good("write outside text");
    ground::await_that("the job has ended", || {
        session.line("test -e /tmp/done").status.success()
    });
    let log = session.home.good("log --json");
    assert!(log.contains("exec"), "{log}");
    let job = Session::start("");
    job.envelope("sleep 2 && echo x > late & :");
    ground::await_that("the file is there", || {
        job.home
            .avfs()
            .args(["stat", "late"])
            .output()
            .unwrap()
            .status
            .success()
    });
    let next = job.envelope("echo x > own");
    assert_eq!(names(&next["result"]["background_changed_files"]), ["/late"]);
    assert_eq!(names(&next["result"]["changed_files"]), ["/own"]);
}

#[test]
fn a_command_that_needs_an_approval_tells_how_to_answer_it() {
    let session = Session::start("");
    let asked = session.line("curl https://example.invalid");
    let told = String::from_utf8(asked.stderr).unwrap();
    assert_eq!(asked.status.code(), Some(121), "{told}");
    let envelope = session.envelope_with(&["-c", "curl https://example.invalid"]);
    let id = envelope["result"]["approval"].as_str().unwrap();
    assert!(told.contains("hint: `avfs session start --vault"), "{told}");
    assert!(
        told.contains(&format!("`avfs approvals allow {id}` lets the same command run")),
        "{told}"
    );
}

#[test]
fn each_command_is_decided_on_and_noted() {
    let session = Session::start("--principal robot");
    let denied = session
        .avfs(&["--json", "-c", "curl example.com"])
        .output()
        .unwrap();
    let envelope: Value = serde_json::from_slice(&denied.stdout).unwrap();
    assert_eq!(envelope["error"]["code"], "approval_required");
    assert_eq!(
        (denied.status.code(), &envelope["result"]["session"]),
        (Some(121), &json!(session.id))
    );
    assert_eq!(
        session.line("rm -f nothing; echo x > kept").status.code(),
        Some(0)
    );
    session.stop();
    let log = session.home.good("audit --json");
    let entries: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let actions: Vec<&str> = entries
        .iter()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    for action in ["session-start", "approval-request", "exec", "session-stop"] {
        assert!(actions.contains(&action), "{action} in {actions:?}");
    }
    let noted = entries
        .iter()
        .find(|entry| entry["action"] == "exec" && entry["snapshot"].is_null())
        .unwrap()["detail"]
        .as_str()
        .unwrap();
    assert!(
        noted.contains(&session.id) && noted.contains("by robot"),
        "{noted}"
    );
    session.home.good("audit verify");
    session.home.good("undo");
    assert_eq!(session.home.bad("cat kept"), (3, "not-found".into()));
}

#[test]
fn the_view_and_the_network_are_those_of_the_start() {
    let home = Sandbox::with_files();
    let session = Session::start_in(home, "--rule /src/**=none --rule /**=write");
    assert_eq!(session.line("ls -A").stdout, b"link\nnotes.txt\n");
    assert_eq!(session.line("cat src/main.rs").status.code(), Some(1));
    let envelope = session
        .envelope("echo x > notes.txt; ip -o link 2>/dev/null | grep -vc ' lo'; cat /proc/net/dev | wc -l");
    assert_eq!(names(&envelope["result"]["changed_files"]), ["/notes.txt"]);
    assert_eq!(envelope["request"]["network"], "none");
    assert!(envelope["request"]["rules"].as_array().unwrap().len() == 2);
}

#[test]
fn failed_start_gives_the_reason_and_leaves_nothing() {
    let home = Sandbox::with_files();
    let (status, code) = home.bad("session start --cwd nowhere");
    assert_eq!((status, code.as_str()), (3, "no_such_directory"));
    assert_eq!(home.bad("session start --rule nonsense").1, "bad-rules");
    assert_eq!(
        home.bad("session exec s00000000 -c true"),
        (3, "unknown-session".into())
    );
    assert_eq!(
        home.bad("session exec ../x -c true"),
        (3, "unknown-session".into())
    );
    assert_eq!(home.bad("session stop s00000000"), (3, "unknown-session".into()));
    assert_eq!(home.object("session list --json")["sessions"], json!([]));
    assert_eq!(
        std::fs::read_dir(home.store().join("sessions")).unwrap().count(),
        0
    );
}

#[test]
fn what_the_policy_allows_can_be_done_to_the_shell_and_the_next_command_is_whole() {
    let home = Sandbox::new();
    home.good("vault create web --use");
    let policy = home.path("policy.toml");
    std::fs::write(&policy, "[classes]\nhost_escape_risk = \"allow\"\n").unwrap();
    let session = Session::start_in(home, &format!("--policy {}", policy.display()));
    for hostile in [
        "alias l='echo aliased'; builtin() { :; }; eval() { :; }; printf() { :; }",
        "PS1='$(echo x)'; PROMPT_COMMAND='echo y'; trap 'echo d' DEBUG; trap 'echo e >&2' ERR",
        "exec 2>&1",
        "exec >&-",
        "set -u; set -o pipefail; IFS=0",
        "echo '{\"kind\":\"exec\"}'; echo 'done 0'",
    ] {
        session.line(hostile);
        let output = session.line("l here; (exit 9)");
        assert_eq!(
            (output.status.code(), output.stdout),
            (Some(9), b"aliased here\n".to_vec()),
            "after {hostile}"
        );
    }
    let open = session.line("echo 'open");
    assert_eq!(open.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&open.stderr).contains("unexpected EOF"));
    session.line("trap - ERR; trap 'echo bye' EXIT; set -e");
    let last = session.envelope("echo a; (exit 6); echo never");
    assert_eq!(
        (&last["result"]["exit_code"], &last["result"]["session_ended"]),
        (&json!(6), &json!(true))
    );
    assert_eq!(last["result"]["stdout"], "a\nbye\n");
}
