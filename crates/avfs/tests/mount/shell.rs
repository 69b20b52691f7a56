//! Other people's programs, with a bound on their time: a program that hangs in a mount fails its test.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// Long enough for the slowest program on a slow machine.
const LIMIT: Duration = Duration::from_secs(240);

/// The output of a program in order, and how it ended.
pub struct Ended {
    pub status: ExitStatus,
    pub text: String,
}

/// A command with nothing of the user's own settings for git, and with fixed times for commits, so that two runs
/// make the same objects.
pub fn command(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
    for name in [
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTFLAGS",
    ] {
        command.env_remove(name);
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "Someone")
            .env(format!("GIT_{who}_EMAIL"), "someone@example.org");
        command.env(format!("GIT_{who}_DATE"), "1700000000 +0000");
    }
    command
}

/// Runs it to its end. A program that takes longer than the limit is killed with its descendants, and not
/// waited for: it may be stuck in the kernel until the mount is gone.
#[track_caller]
pub fn end_of(mut command: Command, limit: Duration) -> Ended {
    let log = tempfile::NamedTempFile::new().unwrap();
    let both = |file: &File| Stdio::from(file.try_clone().unwrap());
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(both(log.as_file()))
        .stderr(both(log.as_file()));
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            panic!(
                "{:?} is not installed: scripts/test installs what the tests need",
                command.get_program()
            )
        }
        Err(error) => panic!("{command:?}: {error}"),
    };
    let group = Pid::from_child(&child);
    let (done, waiting) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait()));
    let ended = waiting.recv_timeout(limit);
    let text = String::from_utf8_lossy(&fs::read(log.path()).unwrap()).into_owned();
    match ended {
        Ok(status) => Ended {
            status: status.unwrap(),
            text,
        },
        Err(_) => {
            _ = rustix::process::kill_process_group(group, Signal::KILL);
            panic!("{} did not end within {limit:?}\n{text}", shown(&command))
        }
    }
}

/// Runs it; it must succeed. Returns its output.
#[track_caller]
pub fn good(command: Command) -> String {
    good_within(LIMIT, command)
}

/// The same with another bound on its time.
#[track_caller]
pub fn good_within(limit: Duration, command: Command) -> String {
    let shown = shown(&command);
    let ended = end_of(command, limit);
    assert!(
        ended.status.success(),
        "{shown}: {}\n{}",
        ended.status,
        ended.text
    );
    ended.text
}

/// Without its environment.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs a script that stops at its first failure.
#[track_caller]
pub fn sh(dir: &Path, script: &str) -> String {
    let mut bash = command("bash", dir);
    bash.args(["-euo", "pipefail", "-c", script]);
    good(bash)
}

#[test]
#[should_panic(expected = "sleep 1000 did not end within 100ms")]
fn a_program_that_hangs_fails_its_test() {
    let mut sleep = command("sleep", Path::new("/"));
    sleep.arg("1000");
    end_of(sleep, Duration::from_millis(100));
}

#[test]
#[should_panic(expected = "\"no-such-program\" is not installed")]
fn a_missing_program_is_named() {
    good(command("no-such-program", Path::new("/")));
}

#[test]
#[should_panic(expected = "one\ntwo")]
fn a_script_ends_at_its_first_failure_and_shows_what_it_said() {
    sh(Path::new("/"), "echo one; echo two >&2; false; echo three");
}
