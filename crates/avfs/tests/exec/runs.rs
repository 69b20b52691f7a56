//! A vault and runs in it, by root or by an ordinary user.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::ground::Ground;
use crate::program::{Ended, end_of, good};
use crate::schema::assert_envelope;

/// No class is refused: only the sandbox restricts.
pub const EVERYTHING: &str = "[classes]
mutating = \"allow\"
destructive = \"allow\"
networked = \"allow\"
host_escape_risk = \"allow\"
[network]
allow = [\"host\"]
publish = [\"0:5173\"]
";

/// A vault `work`, and where its runs come from.
pub struct Runs {
    pub ground: Ground,
}

impl Runs {
    pub fn new() -> Runs {
        let runs = Runs {
            ground: Ground::with_vault("work"),
        };
        fs::write(runs.path("everything.toml"), EVERYTHING).unwrap();
        runs
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.ground.path(name)
    }

    #[track_caller]
    pub fn avfs(&self, words: &[&str]) -> String {
        self.ground.avfs(words)
    }

    /// `avfs exec --json` with these words.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.ground.command(&[&["exec", "--json"], words].concat());
        // Without toolchains.
        command.env("HOME", self.path("home"));
        for variable in ["CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT", "VIRTUAL_ENV"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs it, and holds the answer against the schema.
    #[track_caller]
    pub fn exec(&self, words: &[&str]) -> Answer {
        Answer::of(&end_of(self.command(words), b""))
    }

    #[track_caller]
    pub fn sh(&self, script: &str) -> Answer {
        self.exec(&["--", "sh", "-c", script])
    }

    /// Through `flags`, whatever the class of the script is.
    #[track_caller]
    pub fn free(&self, flags: &[&str], script: &str) -> Answer {
        let policy = self.path("everything.toml").display().to_string();
        self.exec(&[&["--policy", &policy], flags, &["-c", script]].concat())
    }

    /// The output of the script, which must succeed.
    #[track_caller]
    pub fn prints(&self, flags: &[&str], script: &str) -> String {
        let answer = self.free(flags, script);
        assert_eq!(answer.status, 0, "{:#}", answer.value);
        answer.stdout()
    }
}

/// The envelope of a run, and the status of `avfs` itself.
#[derive(Debug)]
pub struct Answer {
    pub value: Value,
    pub status: i32,
}

impl Answer {
    /// One object, and no other output.
    #[track_caller]
    pub fn of(ended: &Ended) -> Answer {
        assert_eq!(ended.err, "", "JSON mode does not talk");
        let text = String::from_utf8(ended.out.clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_envelope(&value);
        Answer {
            value,
            status: ended.status.code().unwrap(),
        }
    }

    pub fn result(&self, field: &str) -> &Value {
        &self.value["result"][field]
    }

    #[track_caller]
    pub fn text(&self, field: &str) -> String {
        let found = self.result(field).as_str();
        found
            .unwrap_or_else(|| panic!("{field} in {:#}", self.value))
            .to_owned()
    }

    #[track_caller]
    pub fn stdout(&self) -> String {
        self.text("stdout")
    }

    #[track_caller]
    pub fn stderr(&self) -> String {
        self.text("stderr")
    }

    pub fn error_code(&self) -> &str {
        self.value["error"]["code"].as_str().unwrap_or("")
    }

    /// `added /a`, `renamed /a -> /b`, in order.
    pub fn changes(&self) -> Vec<String> {
        let files = self.result("changed_files").as_array().unwrap();
        files.iter().map(shown).collect()
    }
}

fn shown(file: &Value) -> String {
    let (kind, path) = (file["kind"].as_str().unwrap(), file["path"].as_str().unwrap());
    match file["from"].as_str() {
        Some(from) => format!("{kind} {from} -> {path}"),
        None => format!("{kind} {path}"),
    }
}

/// The output of a script outside of any sandbox, which must succeed: the control of a restriction.
#[track_caller]
pub fn outside(script: &str) -> String {
    let mut shell = Command::new("/bin/bash");
    shell.args(["-c", script]);
    String::from_utf8(good(shell, b"")).unwrap()
}
