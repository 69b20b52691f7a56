//! What a session provides to its commands beside a shell: a door to its own vault, and resource usage for
//! each of them.

use super::ground::Session;
use crate::sandbox::Sandbox;

#[test]
fn session_can_undo_its_own_mistake() {
    let session = Session::start("");
    session.envelope("echo good > file");
    let saved = session.envelope("avfs checkpoint save good && echo bad > file && avfs diff good");
    let told = saved["result"]["stdout"].as_str().unwrap();
    assert!(
        saved["result"]["exit_code"] == 0 && told.contains("file"),
        "{saved}"
    );
    assert!(session.home.good("checkpoint list").contains("good"));
    assert_eq!(
        session
            .line("avfs checkpoint restore good >/dev/null; cat file")
            .stdout,
        b"good\n"
    );
    assert_eq!(session.home.good("cat file"), "good\n");
}

#[test]
fn the_door_of_a_session_leads_to_nothing_else() {
    let session = Session::start("");
    session.home.good("vault create other");
    for asked in [
        "approvals list",
        "policy check -- ls",
        "vault list",
        "ls --vault other",
        "session list",
    ] {
        let refused = session.line(&format!("avfs {asked}"));
        assert_eq!(
            refused.status.code(),
            Some(9),
            "{asked}: {}",
            String::from_utf8_lossy(&refused.stderr)
        );
    }
    session.stop();
    let sessions = session.home.store().join("sessions");
    assert_eq!(
        std::fs::read_dir(sessions).unwrap().count(),
        0,
        "the door is gone with its session"
    );
}

#[test]
fn each_command_of_a_session_is_told_what_it_used() {
    let session = Session::start("--memory 200M");
    let usage = |line: &str| session.envelope(line)["result"].clone();
    let large = usage("head -c 60M /dev/zero | tail -c 60M | wc -c; for i in {1..200000}; do :; done");
    let small = usage("true");
    usage("head -c 60M /dev/urandom >file");
    let after = usage("true");
    // Without counters, no usage is reported.
    if large["limits_by"] == "rlimits" {
        return;
    }
    let number = |result: &serde_json::Value, key: &str| result["usage"][key].as_u64().unwrap();
    assert!(number(&large, "max_memory_bytes") > 50 << 20, "{large}");
    for small in [&small, &after] {
        let used = number(small, "max_memory_bytes");
        assert!(used < 20 << 20, "{small}");
    }
    assert!(
        number(&large, "cpu_ms") > number(&small, "cpu_ms"),
        "{large} {small}"
    );
    assert_eq!(large["limits_hit"], serde_json::json!([]), "{large}");
}

#[test]
fn a_session_outlives_a_command_that_runs_out_of_memory() {
    let session = Session::start("--memory 32M");
    let one = session.envelope("kept=value; python3 -c 'x = bytearray(100 << 20)'")["result"].clone();
    if one["limits_by"] == "rlimits" {
        return;
    }
    assert_eq!(
        (&one["exit_code"], &one["limits_hit"]),
        (&137.into(), &serde_json::json!(["memory"])),
        "{one}"
    );
    // Each of them is smaller than the supervisor of the session.
    let hold = "import time; x = bytearray(b\"x\") * (2 << 20); time.sleep(100000)";
    let line =
        format!("for i in {{1..20}}; do python3 -c '{hold}' & done; wait -n; echo $?; kill -9 $(jobs -p)");
    let many = session.envelope(&line)["result"].clone();
    assert_eq!(
        (&many["stdout"], &many["limits_hit"]),
        (&"137\n".into(), &serde_json::json!(["memory"])),
        "{many}"
    );
    assert_eq!(session.line("echo $kept").stdout, b"value\n");
}

#[test]
fn a_session_under_landlock_is_refused_with_the_reason() {
    let session = Session::start("");
    let refused = session
        .home
        .avfs()
        .args(["session", "start", "--isolation", "landlock"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a session needs namespaces"));
}

#[test]
fn the_door_of_a_session_that_cannot_write_changes_nothing() {
    let home = Sandbox::new();
    home.good("vault create web --use");
    home.good("write f old");
    home.good("checkpoint save c0");
    home.good("write f new");
    let session = Session::start_in(home, "--preset read-only");
    for line in [
        "avfs checkout c0 f",
        "avfs checkpoint restore c0",
        "avfs checkpoint save mine",
    ] {
        assert_eq!(session.line(line).status.code(), Some(9), "{line}");
    }
    assert_eq!(session.line("avfs diff c0").status.code(), Some(0));
    assert_eq!(session.home.good("cat f"), "new\n");
    assert!(!session.home.good("checkpoint list").contains("mine"));
}
