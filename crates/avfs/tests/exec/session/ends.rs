//! How a session ends, and that nothing is left of it.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::ground::{Session, await_that, descendants, is_running};
use crate::sandbox::Sandbox;

/// Asserts that nothing in the store mentions a session.
#[track_caller]
fn nothing_is_left(session: &Session) {
    assert_eq!(session.listed(), [""; 0]);
    let left = std::fs::read_dir(session.home.store().join("sessions")).unwrap();
    assert_eq!(
        left.flatten().map(|entry| entry.path()).collect::<Vec<_>>(),
        [""; 0].map(std::path::PathBuf::from)
    );
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&session.id), "{mounts}");
}

#[track_caller]
fn is_unknown(session: &Session) {
    assert_eq!(
        session.home.bad(&format!("session exec {} -c true", session.id)),
        (3, "unknown-session".into())
    );
}

#[test]
fn exit_ends_the_session_with_its_code() {
    let session = Session::start("");
    session.line("echo x > kept");
    let host = session.host();
    let last = session.envelope("echo bye; exit 3");
    assert_eq!(last["result"]["session_ended"], true);
    assert_eq!(
        (&last["result"]["exit_code"], &last["result"]["stdout"]),
        (&json!(3), &json!("bye\n"))
    );
    await_that("the host has ended", || !is_running(host));
    is_unknown(&session);
    nothing_is_left(&session);
    assert_eq!(session.home.good("cat kept"), "x\n");
}

#[test]
fn shell_that_kills_itself_is_reported() {
    let session = Session::start("");
    let host = session.host();
    let last = session.envelope("echo x; kill -9 $$");
    assert_eq!(last["success"], false);
    assert_eq!(
        (&last["result"]["session_ended"], &last["result"]["signal"]),
        (&json!(true), &json!(9))
    );
    await_that("the host has ended", || !is_running(host));
    nothing_is_left(&session);
}

#[test]
fn a_timeout_interrupts_the_command_and_keeps_the_session() {
    let session = Session::start("");
    session.line("cd /tmp; x=kept; sleep 1000 & job=$!");
    for slow in [
        "sleep 1000",
        "while :; do :; done",
        "bash -c 'trap \"\" INT TERM; while :; do sleep 1; done'",
    ] {
        let late = session.envelope_with(&["--timeout", "200", "-c", slow]);
        assert_eq!(late["result"]["timed_out"], true, "{slow}");
        assert_eq!(
            (&late["success"], &late["result"]["session_ended"]),
            (&json!(false), &json!(false)),
            "{slow}"
        );
    }
    assert_eq!(
        session
            .avfs(&["--timeout", "200", "-c", "sleep 1000"])
            .output()
            .unwrap()
            .status
            .code(),
        Some(124)
    );
    assert_eq!(
        session.line("echo $x $PWD; kill -0 $job && echo alive").stdout,
        b"kept /tmp\nalive\n"
    );
}

#[test]
fn idle_session_ends() {
    let session = Session::start("--idle 1");
    let host = session.host();
    await_that("it has ended", || !is_running(host));
    is_unknown(&session);
    nothing_is_left(&session);
    assert!(session.home.good("audit --json").contains("idle, 0 commands"));
}

#[test]
fn stop_ends_a_running_command_too() {
    let session = Session::start("");
    let mut running = session.running("sleep 1000");
    let inside = descendants(session.host());
    assert!(inside.len() >= 3, "{inside:?}");
    session.stop();
    assert!(inside.iter().all(|pid| !is_running(*pid)));
    nothing_is_left(&session);
    assert!(!running.0.wait().unwrap().success());
}

#[test]
fn all_sessions_can_be_stopped() {
    let session = Session::start("");
    session.home.good("vault create other");
    let other = session.home.good("session start --vault other");
    assert_eq!(session.listed().len(), 2);
    let stopped = session.home.object("session stop --all --json");
    assert_eq!(stopped["stopped"], json!([session.id, other.trim()]));
    nothing_is_left(&session);
}

#[test]
fn nothing_survives_a_host_that_is_killed() {
    let session = Session::start("");
    session.line("echo x > kept; sync; (setsid sleep 1000 &) ; sleep 1000 &");
    let host = session.host();
    let inside = descendants(host);
    assert!(inside.len() >= 4, "{inside:?}");
    kill_process(Pid::from_raw(host).unwrap(), Signal::KILL).unwrap();
    await_that("everything inside has ended", || {
        inside.iter().all(|pid| !is_running(*pid))
    });
    is_unknown(&session);
    assert_eq!(session.home.good("cat kept"), "x\n");
    nothing_is_left(&session);
    let again = session.home.good("session start");
    assert_eq!(session.listed(), [again.trim()]);
}

#[test]
fn command_blocked_by_a_session_names_the_command_that_ends_it() {
    let home = Sandbox::new();
    let project = home.path("web");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("notes"), "x\n").unwrap();
    home.good(&format!("task new se --from {}", project.display()));
    let session = Session::start_in(home, "--vault web/se");
    let stop = format!("`avfs session stop {}` ends it", session.id);
    for line in [
        "discard web/se --yes",
        "task stop web/se",
        "vault delete web/se --yes",
    ] {
        let refused = session.home.object(&format!("{line} --json"))["error"].clone();
        let told = format!("{} {}", refused["message"], refused["hint"]);
        assert!(
            told.contains(&format!("session {}", session.id)) && told.contains(&stop),
            "{line}: {told}"
        );
    }
    session.stop();
    session.home.good("discard web/se --yes");
}

#[test]
fn command_blocked_by_a_mount_names_the_directory() {
    let home = Sandbox::new();
    let (project, at) = (home.path("web"), home.path("at"));
    std::fs::create_dir(&project).unwrap();
    std::fs::create_dir(&at).unwrap();
    home.good(&format!("task new fix --from {}", project.display()));
    home.good(&format!("mount web/fix {}", at.display()));
    let unmount = format!("avfs unmount {}", at.display());
    for line in ["discard web/fix --yes", "vault delete web/fix --yes"] {
        let hint = home.object(&format!("{line} --json"))["error"]["hint"].clone();
        assert!(hint.to_string().contains(&unmount), "{line}: {hint}");
    }
    home.good(&unmount["avfs ".len()..]);
    home.good("discard web/fix --yes");
}
