//! One answer, whatever becomes of a command.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::program::end_of;
use crate::runs::{Answer, Runs};
use crate::schema::{assert_envelope, assert_event};

#[test]
fn a_command_that_succeeds() {
    let runs = Runs::new();
    let answer = runs.sh("echo told; echo talked >&2; echo kept > file");
    assert_eq!((answer.status, &answer.value["success"]), (0, &Value::Bool(true)));
    assert_eq!(
        (answer.stdout().as_str(), answer.stderr().as_str()),
        ("told\n", "talked\n")
    );
    assert_eq!(
        (answer.result("exit_code"), answer.result("signal")),
        (&0.into(), &Value::Null)
    );
    assert_eq!(answer.changes(), ["added /file"]);
    assert!(answer.text("isolation").starts_with("bubblewrap "));
    assert_ne!(answer.result("snapshot_before"), answer.result("snapshot_after"));
    assert_eq!(runs.avfs(&["cat", "file"]), "kept\n");
}

#[test]
fn the_exit_status_is_the_commands_own() {
    let runs = Runs::new();
    for code in [1, 2, 42, 121, 124, 255] {
        let answer = runs.sh(&format!("echo {code}; exit {code}"));
        assert_eq!((answer.status, answer.result("exit_code")), (code, &code.into()));
        assert_eq!(answer.value["success"], false);
        assert_eq!(
            answer.value.get("error"),
            None,
            "a command that fails is no error of the boundary"
        );
    }
}

#[test]
fn a_command_that_a_signal_ended() {
    let answer = Runs::new().sh("echo x > before; kill -USR1 $$");
    assert_eq!(
        (answer.status, answer.result("signal")),
        (128 + libc::SIGUSR1, &libc::SIGUSR1.into())
    );
    assert_eq!(answer.result("exit_code"), &Value::Null);
    assert_eq!(answer.changes(), ["added /before"]);
}

/// A command that is ended by its limit of time, which is longer where it did not begin within a shorter one.
fn timed_out(runs: &Runs, program: &str, script: &str) -> Answer {
    let within = |limit| runs.exec(&["--timeout", limit, "--", program, "-c", script]);
    let soon = within("2000");
    if soon.stdout().is_empty() {
        within("60000")
    } else {
        soon
    }
}

#[test]
fn a_command_that_took_too_long_has_what_it_printed_and_changed_before() {
    let runs = Runs::new();
    let answer = timed_out(&runs, "sh", "echo x > before; echo begun; sleep 999; echo no");
    assert_eq!(answer.status, 124);
    assert_eq!(
        (answer.result("timed_out"), answer.result("signal")),
        (&Value::Bool(true), &15.into())
    );
    assert_eq!(answer.stdout(), "begun\n");
    assert_eq!(answer.changes(), ["added /before"]);
    assert_eq!(answer.value["success"], false);
}

#[test]
fn one_that_ignores_the_request_to_end_is_killed() {
    let script = "trap '' TERM; echo begun; while :; do sleep 1; done";
    let answer = timed_out(&Runs::new(), "bash", script);
    assert_eq!((answer.status, answer.result("signal")), (124, &9.into()));
    assert_eq!(answer.stdout(), "begun\n");
}

#[test]
fn a_command_that_the_policy_denies_is_not_run() {
    let runs = Runs::new();
    let policy = runs.path("strict.toml");
    let rule = "[[rules]]\nprefix = [\"touch\"]\naction = \"deny\"\nreason = \"no touching\"\nalternative = \"use cp\"\n";
    fs::write(&policy, rule).unwrap();
    let answer = runs.exec(&["--policy", &policy.display().to_string(), "--", "touch", "file"]);
    assert_eq!((answer.status, answer.error_code()), (122, "denied_by_policy"));
    assert_eq!(
        answer.value["error"]["message"],
        "the policy denies it: no touching"
    );
    assert_eq!(answer.value["error"]["hint"], "use cp");
    assert_eq!(answer.result("decision")["action"], "deny");
    assert!(
        answer.result("decision")["rule"]
            .as_str()
            .unwrap()
            .ends_with("strict.toml:1)")
    );
    assert_eq!(answer.result("exit_code"), &Value::Null);
    assert_eq!(runs.avfs(&["ls"]), "");
}

#[test]
fn a_command_that_takes_an_approval_is_not_run_and_names_it() {
    let runs = Runs::new();
    let answer = runs.exec(&["--", "curl", "example.com"]);
    assert_eq!((answer.status, answer.error_code()), (121, "approval_required"));
    assert_eq!(answer.result("decision")["action"], "require_approval");
    assert!(
        answer.value["error"]["hint"]
            .as_str()
            .unwrap()
            .contains(&answer.text("approval"))
    );
    assert_eq!(answer.result("isolation"), &Value::Null, "nothing was run");
}

#[test]
fn a_dry_run_decides_and_does_nothing() {
    let runs = Runs::new();
    let before = runs.avfs(&["audit"]);
    let answer = runs.exec(&["--dry-run", "--", "touch", "file"]);
    assert_eq!(
        (answer.status, answer.result("decision")["class"].as_str()),
        (0, Some("mutating"))
    );
    assert_eq!(answer.value["success"], false, "it did not run");
    assert_eq!(answer.result("checkpoint")["skipped"], "nothing was run");
    assert_eq!(runs.avfs(&["ls"]), "");
    assert_eq!(runs.avfs(&["audit"]), before);
}

#[test]
fn a_directory_that_is_not_there() {
    let runs = Runs::new();
    let answer = runs.exec(&["--cwd", "nowhere", "--", "touch", "file"]);
    assert_eq!((answer.status, answer.error_code()), (3, "no_such_directory"));
    assert_eq!(answer.value["request"]["cwd"], "/workspace/nowhere");
    assert_eq!(runs.avfs(&["ls"]), "");
    let answer = runs.exec(&["--path", "nowhere", "--", "touch", "file"]);
    assert_eq!((answer.status, answer.error_code()), (3, "not-found"));
}

#[test]
fn missing_and_unexecutable_programs_have_statuses_of_their_own() {
    let runs = Runs::new();
    runs.avfs(&["write", "text", "no program"]);
    let answer = runs.exec(&["--", "no-such-program"]);
    assert_eq!((answer.status, answer.result("exit_code")), (127, &127.into()));
    let answer = runs.exec(&["--", "/workspace/text"]);
    assert_eq!((answer.status, answer.result("exit_code")), (126, &126.into()));
}

#[test]
fn a_run_that_may_only_read_cannot_write() {
    let runs = Runs::new();
    runs.avfs(&["write", "file", "as it was"]);
    let answer = runs.exec(&["--read-only", "--", "sh", "-c", "cat file; echo x > file"]);
    assert_eq!((answer.status, answer.stdout().as_str()), (2, "as it was\n"));
    assert!(
        answer.stderr().contains("Read-only file system"),
        "{}",
        answer.stderr()
    );
    assert_eq!(answer.changes(), [""; 0]);
    assert_eq!(
        answer.result("checkpoint")["skipped"],
        "the command changes nothing"
    );
    assert_eq!(runs.avfs(&["cat", "file"]), "as it was\n");
    assert_eq!(runs.sh("echo x > file").status, 0, "the control");
}

/// `ls` is a program of the tree here: a command that counts as reading gets a read-only vault.
#[test]
fn command_wrongly_classified_as_reading_cannot_write() {
    let runs = Runs::new();
    let trick = "#!/bin/sh\necho x > /workspace/written\n";
    runs.avfs(&["write", "ls", trick]);
    runs.avfs(&["chmod", "755", "ls"]);
    let answer = runs.exec(&["--env", "PATH=/workspace:/usr/bin", "--", "ls"]);
    assert_eq!(answer.result("decision")["class"], "read_only");
    assert!(
        answer.stderr().contains("Read-only file system"),
        "{:#}",
        answer.value
    );
    assert_eq!(answer.changes(), [""; 0]);
}

#[test]
fn bytes_that_are_no_text_come_through_exactly() {
    let answer = Runs::new().sh(r"printf 'caf\351\000\033[31m'; printf '\376' >&2");
    assert_eq!(answer.stdout(), r"caf\xe9\u{0}\u{1b}[31m");
    assert_eq!(answer.text("stdout_bytes_hex"), "636166e9001b5b33316d");
    assert_eq!(
        (
            answer.text("stderr_bytes_hex").as_str(),
            answer.result("stdout_bytes")
        ),
        ("fe", &10.into())
    );
    let answer = Runs::new().sh(r"printf 'caf\303\251\000\033[31m'");
    assert_eq!(answer.stdout(), "café\0\u{1b}[31m", "text is reproduced exactly");
    assert_eq!(answer.value["result"].get("stdout_bytes_hex"), None);
}

#[test]
fn a_flood_of_output_is_counted_and_bounded() {
    const FLOOD: u64 = 110_000_000;
    let script =
        format!("head -c {FLOOD} /dev/zero | tr '\\0' x; head -c {FLOOD} /dev/zero | tr '\\0' y >&2");
    let ended = end_of(Runs::new().command(&["-c", &script]), b"");
    let answer = Answer::of(&ended);
    assert_eq!(answer.status, 0);
    for (stream, byte) in [("stdout", 'x'), ("stderr", 'y')] {
        assert_eq!(*answer.result(&format!("{stream}_bytes")), FLOOD);
        assert_eq!(answer.result(&format!("{stream}_truncated")), &Value::Bool(true));
        let text = answer.text(stream);
        let left_out = format!("\n[… {} bytes left out …]\n", FLOOD - (1 << 20));
        assert!(
            text.contains(&left_out) && text.len() == (1 << 20) + left_out.len(),
            "{}",
            text.len()
        );
        assert!(text.starts_with(byte) && text.ends_with(byte));
    }
    assert!(ended.out.len() < 3 << 20, "{}", ended.out.len());
}

#[test]
fn text_that_is_cut_is_still_text() {
    let runs = Runs::new();
    for limit in ["1000", "1001", "1002", "1003"] {
        let script = "for i in $(seq 400); do printf 'a€'; done";
        let answer = runs.exec(&["--output-limit", limit, "-c", script]);
        assert_eq!(answer.result("stdout_truncated"), &Value::Bool(true));
        assert_eq!(
            answer.value["result"].get("stdout_bytes_hex"),
            None,
            "{:#}",
            answer.value
        );
        let text = answer.stdout();
        let (head, rest) = text.split_once("\n[… ").unwrap();
        let (missing, tail) = rest.split_once(" bytes left out …]\n").unwrap();
        assert!(head.starts_with("a€") && tail.ends_with("a€"), "{text}");
        assert_eq!(head.len() + tail.len() + missing.parse::<usize>().unwrap(), 1600);
    }
}

#[test]
fn a_command_may_close_its_streams() {
    let answer = Runs::new().sh("echo one; exec <&- >&- 2>&-; echo two; : > file");
    assert_eq!((answer.status, answer.stdout().as_str()), (0, "one\n"));
    assert_eq!(answer.changes(), ["added /file"]);
}

#[test]
fn pieces_of_output_come_as_objects_and_the_answer_is_the_last() {
    let runs = Runs::new();
    let script = "for i in 1 2 3; do echo $i; echo e$i >&2; sleep 0.05; done; printf '\\377'; exit 5";
    let ended = end_of(runs.ground.command(&["exec", "--stream", "-c", script]), b"");
    assert_eq!((ended.status.code(), ended.err.as_str()), (Some(5), ""));
    let text = String::from_utf8(ended.out).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (answer, events) = lines.split_last().unwrap();
    assert_envelope(answer);
    events.iter().for_each(assert_event);
    let told = |name: &str| {
        let of_stream = events.iter().filter(|event| event["event"] == name);
        of_stream.flat_map(bytes_of).collect::<Vec<u8>>()
    };
    assert_eq!(
        (told("stdout").as_slice(), told("stderr").as_slice()),
        (&b"1\n2\n3\n\xff"[..], &b"e1\ne2\ne3\n"[..])
    );
    assert_eq!(answer["result"]["stdout"], r"1\n2\n3\n\xff");
}

fn bytes_of(event: &Value) -> Vec<u8> {
    let Some(hex) = event.get("data_bytes_hex") else {
        return event["data"].as_str().unwrap().as_bytes().to_vec();
    };
    let digits = hex.as_str().unwrap().as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Runs commands on the system's programs, in a mount namespace of its own, before the run.
#[track_caller]
fn tried_after(preparing: &str) -> Answer {
    let runs = Runs::new();
    let avfs = assert_cmd::cargo::cargo_bin!("avfs").display().to_string();
    let script = format!("set -e; cd \"$1\"; {preparing}; exec \"$2\" exec --json -- touch file");
    let mut unshare = Command::new("unshare");
    let place = runs.path("").display().to_string();
    unshare.args(["--mount", "--", "sh", "-c", &script, "try", &place, &avfs]);
    unshare
        .env("AVFS_HOME", runs.ground.home())
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env_remove("AVFS_VAULT");
    let answer = Answer::of(&end_of(unshare, b""));
    if answer.status != 0 {
        assert_eq!(answer.result("exit_code"), &Value::Null);
        assert_eq!(runs.avfs(&["ls"]), "", "nothing was run");
        assert!(answer.text("audit_head").len() > 32);
        assert!(runs.avfs(&["audit"]).contains("exec-failed"));
    }
    answer
}

#[test]
fn without_bubblewrap_nothing_is_run() {
    assert_eq!(tried_after(":").status, 0, "the control");
    let answer = tried_after(
        "mkdir real bin; mount --bind /usr/bin real; cp -rs $PWD/real/. bin; rm bin/bwrap; mount --bind bin /usr/bin",
    );
    assert_eq!(
        (answer.status, answer.error_code()),
        (123, "cannot_isolate"),
        "{:#}",
        answer.value
    );
    assert!(
        answer.value["error"]["message"]
            .as_str()
            .unwrap()
            .contains("not installed")
    );
    assert!(
        answer.value["error"]["hint"]
            .as_str()
            .unwrap()
            .contains("apt-get install bubblewrap")
    );
}

#[test]
fn a_bubblewrap_that_does_not_start_or_cannot_isolate_runs_nothing() {
    let answer = tried_after("touch empty; mount --bind empty /usr/bin/bwrap");
    assert_eq!(
        (answer.status, answer.error_code()),
        (123, "cannot_isolate"),
        "{:#}",
        answer.value
    );
    assert!(
        answer.value["error"]["hint"]
            .as_str()
            .unwrap()
            .contains("avfs doctor")
    );
    let refusing = "printf '#!/bin/sh\necho No permissions to create new namespace >&2; exit 1\n' > bwrap; \
                    chmod 755 bwrap; mount --bind bwrap /usr/bin/bwrap";
    let answer = tried_after(refusing);
    assert_eq!(
        (answer.status, answer.error_code()),
        (123, "cannot_isolate"),
        "{:#}",
        answer.value
    );
    assert!(
        answer.value["error"]["message"]
            .as_str()
            .unwrap()
            .contains("No permissions to create new namespace")
    );
}

#[test]
fn an_apply_at_the_end_is_a_part_of_the_answer() {
    let runs = Runs::new();
    fs::create_dir(runs.path("web")).unwrap();
    fs::write(runs.path("web/file"), "old\n").unwrap();
    let from = runs.path("web").display().to_string();
    runs.avfs(&["workspace", "start", "fix", "--from", &from]);
    runs.avfs(&["workspace", "stop", "fix"]);
    let exec = |script: &str| runs.free(&["--vault", "fix", "--apply-on-success"], script);
    let answer = exec("cat file; echo new >file");
    let apply = &answer.value["apply"];
    assert_eq!(
        (answer.status, &apply["files"][0]["path"]),
        (0, &"/file".into()),
        "{:#}",
        answer.value
    );
    assert_eq!(fs::read_to_string(runs.path("web/file")).unwrap(), "new\n");
    assert_eq!(exec("exit 3").value.get("apply"), None);
    assert_eq!(exec("echo task >file; exit 3").status, 3);
    fs::write(runs.path("web/file"), "mine\n").unwrap();
    let answer = exec("true");
    assert_eq!(
        (answer.status, &answer.value["apply"]["error"]["code"]),
        (1, &"apply-conflicts".into())
    );
    assert!(
        answer.value["success"].as_bool().unwrap(),
        "the command itself ended well"
    );
    assert_eq!(fs::read_to_string(runs.path("web/file")).unwrap(), "mine\n");
}
