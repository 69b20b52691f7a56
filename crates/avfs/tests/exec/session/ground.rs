//! A session to work in, which ends with its test.

use std::process::Output;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use serde_json::Value;

use crate::sandbox::Sandbox;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Session {
    pub home: Sandbox,
    pub id: String,
}

impl Session {
    /// A session on an empty vault.
    pub fn start(flags: &str) -> Session {
        let home = Sandbox::new();
        home.good("vault create web --use");
        Session::start_in(home, flags)
    }

    #[track_caller]
    pub fn start_in(home: Sandbox, flags: &str) -> Session {
        let id = home.good(&format!("session start {flags}")).trim().to_owned();
        Session { home, id }
    }

    /// `avfs session exec ID` followed by these words.
    pub fn avfs(&self, words: &[&str]) -> Command {
        let mut command = self.home.avfs();
        command.args(["session", "exec", &self.id]).args(words);
        command
    }

    pub fn line(&self, line: &str) -> Output {
        self.avfs(&["-c", line]).output().unwrap()
    }

    pub fn words(&self, words: &[&str]) -> Output {
        self.avfs(&["--"]).args(words).output().unwrap()
    }

    #[track_caller]
    pub fn envelope(&self, line: &str) -> Value {
        self.envelope_with(&["-c", line])
    }

    #[track_caller]
    pub fn envelope_with(&self, words: &[&str]) -> Value {
        let output = self.avfs(&["--json"]).args(words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            text.lines().count(),
            1,
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let envelope = serde_json::from_str(&text).unwrap();
        crate::schema::assert_envelope(&envelope);
        envelope
    }

    #[track_caller]
    pub fn stop(&self) {
        self.home.good(&format!("session stop {}", self.id));
    }

    /// The ids of the sessions that there are.
    pub fn listed(&self) -> Vec<String> {
        let list = self.home.object("session list --json");
        let sessions = list["sessions"].as_array().unwrap().iter();
        sessions
            .map(|session| session["id"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The process that hosts it.
    pub fn host(&self) -> i32 {
        let list = self.home.object("session list --json");
        let pid = list["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|session| session["id"] == self.id.as_str());
        i32::try_from(pid.unwrap()["pid"].as_i64().unwrap()).unwrap()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended by itself, as in most tests.
        drop(self.home.avfs().args(["session", "stop", "--all"]).output());
    }
}

#[track_caller]
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process exists.
pub fn is_running(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Everything below a process.
pub fn descendants(pid: i32) -> Vec<i32> {
    let children = std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .flat_map(|task| {
            let list = std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
            list.split_whitespace()
                .map(|pid| pid.parse::<i32>().unwrap())
                .collect::<Vec<_>>()
        });
    children
        .flat_map(|child| [vec![child], descendants_if_there(child)].concat())
        .collect()
}

fn descendants_if_there(pid: i32) -> Vec<i32> {
    if is_running(pid) {
        descendants(pid)
    } else {
        Vec::new()
    }
}
