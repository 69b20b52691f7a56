//! A user of their own for each test: home, project and environment.

use avfs_testkit::TestEnv;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

pub struct Sandbox {
    root: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Sandbox {
        let sandbox = Sandbox {
            root: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(sandbox.path("home/.config/agentvfs")).unwrap();
        fs::create_dir_all(sandbox.path("project/src")).unwrap();
        sandbox
    }

    /// With a vault `web` that is chosen and has some files.
    pub fn with_files() -> Sandbox {
        let sandbox = Sandbox::new();
        sandbox.good("vault create web --use");
        sandbox.good("write notes.txt first");
        sandbox.good("write -p src/main.rs main");
        sandbox.good("write src/.hidden secret");
        sandbox.good("ln -s notes.txt link");
        sandbox
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn user_file(&self, text: &str) {
        fs::write(self.path("home/.config/agentvfs/avfs.toml"), text).unwrap();
    }

    pub fn project_file(&self, text: &str) {
        fs::write(self.path("project/avfs.toml"), text).unwrap();
    }

    /// `avfs` in the project's directory, with nothing of the machine's own environment.
    pub fn avfs(&self) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("avfs"));
        command
            .env_clear()
            .envs(&TestEnv::of_home(self.path("home")))
            .current_dir(self.path("project/src"));
        command
    }

    /// Where the store is.
    pub fn store(&self) -> PathBuf {
        self.path("home/.local/share/agentvfs")
    }

    /// Runs a line that must succeed, and returns its data.
    #[track_caller]
    pub fn good(&self, line: &str) -> String {
        self.good_with(line.split_whitespace())
    }

    #[track_caller]
    pub fn good_with(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
        let output = self.avfs().args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", self.show(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a line that must fail, and returns its status and code.
    #[track_caller]
    pub fn bad(&self, line: &str) -> (i32, String) {
        let output = self
            .avfs()
            .arg("--json")
            .args(line.split_whitespace())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["kind"], "error", "{text}");
        (
            output.status.code().unwrap(),
            object["error"]["code"].as_str().unwrap().to_owned(),
        )
    }

    /// Runs a line on a terminal, on which `answer` is typed.
    pub fn on_terminal(&self, line: &str, answer: &str) -> String {
        let program = assert_cmd::cargo::cargo_bin!("avfs").display().to_string();
        let mut script = Command::new("script");
        script.args(["-qec", &format!("{program} {line}"), "/dev/null"]);
        script
            .env_clear()
            .envs(&TestEnv::of_home(self.path("home")).with_programs())
            .current_dir("/");
        let output = script.env("NO_COLOR", "1").write_stdin(answer).output().unwrap();
        String::from_utf8_lossy(&output.stdout).replace('\r', "")
    }

    /// Runs a line and shows its status, output and errors as one text, with the temporary place hidden.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        let output = self.avfs().args(line.split_whitespace()).output().unwrap();
        self.show(&output)
    }

    pub fn show(&self, output: &Output) -> String {
        let status = output
            .status
            .code()
            .map_or("killed".to_owned(), |code| code.to_string());
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let text = format!("status {status}\n--- data\n{stdout}--- talk\n{stderr}");
        text.replace(&self.root.path().display().to_string(), "ROOT")
    }

    /// Runs a line and reads the one object that it prints.
    #[track_caller]
    pub fn object(&self, line: &str) -> Value {
        let output = self.avfs().args(line.split_whitespace()).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "",
            "JSON mode does not talk"
        );
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }
}
