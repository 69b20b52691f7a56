//! A user at a terminal, simulated by a separate tmux server: types a line, answers questions, waits for the
//! prompt.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::scene::Scene;

/// Longer than any command of a page takes on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(50);
/// A command that has not ended after this may be asking something.
const UNTIL_A_LOOK: Duration = Duration::from_millis(100);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Questions, by the end of the last line of a screen, and the keys that answer them.
const QUESTIONS: &[(&str, &[&str])] = &[("[y/N]", &["y", "Enter"]), ("(END)", &["q"])];
/// The last line of a review.
const REVIEW: &str = "q leave";

pub struct Typist<'a> {
    scene: &'a Scene,
    /// Of mounts: everything that is started from the shell is in it, unless it is in a sandbox.
    namespace: PathBuf,
}

impl Typist<'_> {
    pub fn start(scene: &Scene) -> Typist<'_> {
        let mut typist = Typist {
            scene,
            namespace: PathBuf::new(),
        };
        let mut tmux = typist.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "160", "-y", "50"]);
        check(&tmux.args(scene.shell()).output().unwrap());
        typist.await_prompts(1, "the shell");
        let shell = typist.ask(&["display-message", "-p", "#{pane_pid}"]);
        typist.namespace = std::fs::read_link(format!("/proc/{}/ns/mnt", shell.trim_end())).unwrap();
        typist
    }

    /// Types a line and waits for its end; returns an error message if it failed.
    pub fn type_line(&self, line: &str, status: i32) -> Result<(), String> {
        let before = self.prompts().len();
        self.ask(&["clear-history"]);
        self.press(&["-R", "-l", line]);
        self.press(&["Enter"]);
        let statuses = self.await_prompts(before + 1, line);
        match statuses.last() {
            Some(found) if *found == status => Ok(()),
            ended => Err(format!(
                "{line}: {ended:?}, not {status}\n{}",
                self.screen("-100").trim()
            )),
        }
    }

    /// The status at each prompt so far.
    fn prompts(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.scene.statuses()).unwrap_or_default();
        text.split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n')?.parse().ok())
            .collect()
    }

    fn await_prompts(&self, count: usize, place: &str) -> Vec<i32> {
        let (start, mut looked) = (Instant::now(), Instant::now());
        loop {
            let prompts = self.prompts();
            if prompts.len() >= count {
                return prompts;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{place} does not end:\n{}",
                self.screen("-100")
            );
            if looked.elapsed() > UNTIL_A_LOOK {
                self.answer();
                looked = Instant::now();
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Answers a question.
    fn answer(&self) {
        let screen = self.screen("0");
        let last = screen.trim_end().lines().last().unwrap_or_default().trim_end();
        match QUESTIONS.iter().find(|(question, _)| last.ends_with(question)) {
            Some((_, keys)) => self.press(keys),
            None if last.contains(REVIEW) => self.press(&["q"]),
            None => {}
        }
    }

    fn press(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    fn screen(&self, from: &str) -> String {
        self.ask(&["capture-pane", "-p", "-S", from])
    }

    fn ask(&self, words: &[&str]) -> String {
        let output = self.tmux(words).output().unwrap();
        check(&output);
        String::from_utf8(output.stdout).unwrap()
    }

    /// `tmux` with nothing of the machine's own environment.
    fn tmux(&self, words: &[&str]) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("LC_ALL", "C.UTF-8");
        tmux.arg("-u").arg("-S").arg(self.scene.socket()).args(words);
        tmux
    }
}

impl Drop for Typist<'_> {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]).output();
        // Processes that serve mounts and sessions stay behind. Their mounts end with them.
        processes_in(&self.namespace).for_each(|process| {
            let _ = kill_process(process, Signal::KILL);
        });
    }
}

fn processes_in(namespace: &Path) -> impl Iterator<Item = Pid> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let here = processes.filter(move |entry| {
        std::fs::read_link(entry.path().join("ns/mnt")).is_ok_and(|found| found == namespace)
    });
    here.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

#[track_caller]
fn check(output: &Output) {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
