//! Several users of one session, and other users of its vault.

use avfs_testkit::TestEnv;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::ground::{Session, await_that};
use crate::sandbox::Sandbox;

/// A command that runs, which ends with its test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

impl Session {
    /// Starts a command and waits until the shell has it.
    pub fn running(&self, line: &str) -> Running {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("avfs"));
        command
            .env_clear()
            .envs(&TestEnv::of_home(self.home.path("home")))
            .current_dir(self.home.path("project"));
        command.args(["session", "exec", &self.id, "-c", &format!("echo begun; {line}")]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut begun = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut begun)
            .unwrap();
        assert_eq!(begun, "begun\n");
        Running(child)
    }
}

#[test]
fn one_command_runs_at_a_time() {
    let session = Session::start("");
    let mut first = session.running("until test -e go; do sleep 0.01; done; x=1");
    let busy = session.avfs(&["--json", "-c", "true"]).output().unwrap();
    let envelope: serde_json::Value = serde_json::from_slice(&busy.stdout).unwrap();
    assert_eq!(
        (busy.status.code(), &envelope["error"]["code"]),
        (Some(5), &json!("session_busy"))
    );
    assert_eq!(
        session.home.object("session list --json")["sessions"][0]["state"],
        "running"
    );
    let waiting = {
        let mut command = session.avfs(&["--wait", "-c", "echo $x"]);
        std::thread::spawn(move || command.output().unwrap())
    };
    session.home.good("write go now");
    assert!(first.0.wait().unwrap().success());
    assert_eq!(waiting.join().unwrap().stdout, b"1\n");
    await_that("it is idle", || {
        session.home.object("session list --json")["sessions"][0]["state"] == "idle"
    });
}

#[test]
fn caller_that_stops_waiting_stops_the_command() {
    let session = Session::start("");
    session.line("x=kept");
    let running = session.running("sleep 1000");
    drop(running);
    let next = session.avfs(&["--wait", "-c", "echo $x"]).output().unwrap();
    assert_eq!(next.stdout, b"kept\n");
}

#[test]
fn a_session_works_on_a_vault_that_is_mounted_already() {
    let home = Sandbox::with_files();
    let place = home.path("mounted");
    std::fs::create_dir(&place).unwrap();
    home.good(&format!("mount web {}", place.display()));
    let session = Session::start_in(home, "");
    let envelope = session.envelope("echo from session > notes.txt");
    assert_eq!(envelope["result"]["changed_files"][0]["path"], "/notes.txt");
    assert_eq!(
        std::fs::read_to_string(place.join("notes.txt")).unwrap(),
        "from session\n"
    );
    std::fs::write(place.join("other"), "from mount").unwrap();
    assert_eq!(session.line("cat other").stdout, b"from mount");
    session.stop();
    session.home.good(&format!("unmount {}", place.display()));
}

#[test]
fn two_sessions_share_a_vault_and_not_their_state() {
    let session = Session::start("");
    let other = session.home.good("session start");
    session.line("x=1; echo one > shared; echo private > /tmp/private");
    let seen = |line: &str| {
        session
            .home
            .avfs()
            .args(["session", "exec", other.trim(), "-c", line])
            .output()
            .unwrap()
            .stdout
    };
    assert_eq!(seen("cat shared; echo $x; ls /tmp"), b"one\n\n");
    // The one that came first serves the other one on.
    session.stop();
    assert_eq!(session.listed(), [other.trim()]);
    assert_eq!(seen("cat shared; echo two > shared; cat shared"), b"one\ntwo\n");
}

#[test]
fn a_store_with_a_long_name_has_sessions_too() {
    let home = Sandbox::new();
    let store = home.path("a-directory-with-a-long-name/".repeat(6));
    std::fs::create_dir_all(&store).unwrap();
    let store = store.display().to_string();
    assert!(store.len() > 108);
    home.good_with(["--home", &store, "vault", "create", "web", "--use"]);
    let id = home.good_with(["--home", &store, "session", "start"]);
    let said = home.good_with(["--home", &store, "session", "exec", id.trim(), "-c", "echo long"]);
    home.good_with(["--home", &store, "session", "stop", id.trim()]);
    assert_eq!(said, "long\n");
}
