//! A store with a vault, a user who runs commands in it, and a user who answers.

use avfs_testkit::TestEnv;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::schema::assert_envelope;

/// Needs approval under the built-in policy, records that it ran, and succeeds without a network.
pub const ASKS: &str = "echo ran >> runs.txt; curl -s https://example.invalid || true";

pub struct Asker {
    root: tempfile::TempDir,
}

/// The result of a run.
pub struct Answer {
    pub status: i32,
    pub envelope: Value,
}

impl Answer {
    pub fn of(output: &Output) -> Answer {
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().last().unwrap_or_default();
        let envelope: Value = serde_json::from_str(last).unwrap_or_else(|_| {
            panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
        });
        assert_envelope(&envelope);
        Answer {
            status: output.status.code().unwrap(),
            envelope,
        }
    }

    #[track_caller]
    pub fn approval(&self) -> String {
        let id = self.envelope["result"]["approval"].as_str();
        id.unwrap_or_else(|| panic!("{}", self.envelope)).to_owned()
    }

    pub fn code(&self) -> &str {
        self.envelope["error"]["code"].as_str().unwrap_or_default()
    }

    pub fn message(&self) -> &str {
        self.envelope["error"]["message"].as_str().unwrap_or_default()
    }

    pub fn audit_head(&self) -> &str {
        self.envelope["result"]["audit_head"].as_str().unwrap_or_default()
    }
}

/// A test that fails leaves no session behind.
impl Drop for Asker {
    fn drop(&mut self) {
        if self.store().join("sessions").exists() {
            let _ = self.avfs(&["session", "stop", "--all"]).output();
        }
    }
}

impl Asker {
    pub fn new() -> Asker {
        let asker = Asker {
            root: tempfile::tempdir().unwrap(),
        };
        asker.good(&["vault", "create", "web", "--use"]);
        asker.good(&["write", "-p", "src/a.txt", "a"]);
        asker
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn store(&self) -> PathBuf {
        self.path("store")
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    pub fn avfs(&self, words: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("avfs"));
        let environment = TestEnv::of_home(self.root.path())
            .with_programs()
            .with_store(self.store())
            .with("AVFS_ACTOR", "boss");
        command.env_clear().envs(&environment).args(words);
        command.stdin(Stdio::null());
        command
    }

    #[track_caller]
    pub fn good(&self, words: &[&str]) -> String {
        let output = self.avfs(words).output().unwrap();
        let talk = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {:?}\n{talk}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub fn object(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.good(&[words, &["--json"]].concat())).unwrap()
    }

    /// The status and code of a command that must fail.
    #[track_caller]
    pub fn bad(&self, words: &[&str]) -> (i32, String) {
        let output = self.avfs(&[&["--json"], words].concat()).output().unwrap();
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(object["kind"], "error", "{object}");
        (
            output.status.code().unwrap(),
            object["error"]["code"].as_str().unwrap().to_owned(),
        )
    }

    /// `avfs exec --json` with these words.
    pub fn command(&self, words: &[&str]) -> Command {
        self.avfs(&[&["exec", "--json"], words].concat())
    }

    #[track_caller]
    pub fn exec(&self, words: &[&str]) -> Answer {
        Answer::of(&self.command(words).output().unwrap())
    }

    /// `avfs session exec --json` with these words.
    #[track_caller]
    pub fn session(&self, session: &str, words: &[&str]) -> Answer {
        let words = [&["session", "exec", session, "--json"], words].concat();
        Answer::of(&self.avfs(&words).output().unwrap())
    }

    /// With the bytes of a file as standard input.
    #[track_caller]
    pub fn exec_with(&self, input: &str, words: &[&str]) -> Answer {
        let file = fs::File::open(self.file("input", input)).unwrap();
        Answer::of(&self.command(words).stdin(file).output().unwrap())
    }

    /// Runs something that must ask, and returns the approval.
    #[track_caller]
    pub fn asks(&self, words: &[&str]) -> String {
        let answer = self.exec(words);
        assert_eq!(
            (answer.status, answer.code()),
            (121, "approval_required"),
            "{}",
            answer.envelope
        );
        answer.approval()
    }

    #[track_caller]
    pub fn state(&self, id: &str) -> String {
        self.object(&["approvals", "show", id])["state"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// How often [`ASKS`] ran.
    pub fn runs(&self) -> usize {
        let output = self.avfs(&["cat", "runs.txt"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).lines().count()
    }

    /// The entries of the audit log about approvals: action and detail.
    pub fn audit(&self) -> Vec<(String, String)> {
        let text = self.good(&["audit"]);
        let entries = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let field = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
        let entries = entries.map(|entry| (field(&entry, "action"), field(&entry, "detail")));
        entries
            .filter(|(action, _)| action.starts_with("approval"))
            .collect()
    }
}
