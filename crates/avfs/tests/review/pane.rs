//! A terminal of a fixed size, played by a tmux server of its own.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::project::Project;

/// Longer than anything takes on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Each look is a process of its own.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

pub struct Pane {
    place: tempfile::TempDir,
    /// The user who runs it, if it is not us.
    user: Option<&'static str>,
}

impl Pane {
    /// Starts `avfs` with these arguments. When it has ended, the pane says `ended with STATUS`.
    pub fn start(project: &Project, line: &str, width: u16, height: u16) -> Pane {
        let program = project.program().display().to_string();
        Pane::shell(
            project,
            &format!("trap : INT; {program} {line}; echo ended with $?; exec cat"),
            width,
            height,
        )
    }

    /// Starts a line of shell in the project's directory.
    pub fn shell(project: &Project, line: &str, width: u16, height: u16) -> Pane {
        let pane = Pane {
            place: tempfile::tempdir().unwrap(),
            user: project.owner(),
        };
        if let Some(user) = pane.user {
            give_to(user, pane.place.path());
        }
        let (width, height) = (width.to_string(), height.to_string());
        let directory = project.root().display().to_string();
        let mut tmux = pane.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
        ]);
        let line = format!("export HOME='{}'; {line}", project.home().display());
        tmux.args(["-c", &directory, &line]);
        check(&tmux.output().unwrap());
        pane
    }

    /// `tmux` with nothing of the machine's own environment.
    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut tmux = match self.user {
            Some(user) => {
                let mut tmux = Command::new("runuser");
                tmux.args(["-u", user, "--", "tmux"]);
                tmux
            }
            None => Command::new("tmux"),
        };
        tmux.env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("LC_ALL", "C.UTF-8")
            .env("SHELL", "/bin/sh");
        tmux.arg("-u")
            .arg("-S")
            .arg(self.place.path().join("tmux"))
            .args(arguments);
        tmux
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let output = self.tmux(arguments).output().unwrap();
        check(&output);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Presses keys, as tmux names them, with blanks between them.
    pub fn press(&self, keys: &str) {
        let arguments: Vec<&str> = ["send-keys"].into_iter().chain(keys.split(' ')).collect();
        self.ask(&arguments);
    }

    /// Types a text.
    pub fn write(&self, text: &str) {
        self.ask(&["send-keys", "-l", text]);
    }

    pub fn resize(&self, width: u16, height: u16) {
        self.ask(&[
            "resize-window",
            "-x",
            &width.to_string(),
            "-y",
            &height.to_string(),
        ]);
    }

    pub fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    /// The screen with its colours.
    pub fn styled_screen(&self) -> String {
        self.ask(&["capture-pane", "-e", "-p"])
    }

    /// Tmux's information about the pane: a format such as `#{pane_title}`.
    pub fn fact(&self, format: &str) -> String {
        self.ask(&["display-message", "-p", format]).trim_end().to_owned()
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "waiting for: {what}\n{screen}");
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]).output();
    }
}

/// Gives a directory with everything in it to a user.
pub fn give_to(user: &str, directory: &Path) {
    check(
        &Command::new("chown")
            .arg("-R")
            .arg(user)
            .arg(directory)
            .output()
            .unwrap(),
    );
}

#[track_caller]
fn check(output: &Output) {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
