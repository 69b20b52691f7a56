//! Containers by a daemon with Docker's API. Needs dockerd, which is started for each test.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::images::with_image;
use crate::program::{LIMIT, await_that, end_of, good};
use crate::runs::{Answer, Runs};
use crate::together::{Going, odd_time, processes_with, signal};

/// A daemon of its own, without a network.
struct Daemon {
    place: tempfile::TempDir,
    process: Child,
}

impl Daemon {
    fn start() -> Daemon {
        // Sockets have short names.
        let place = tempfile::Builder::new().prefix("d").tempdir_in("/tmp").unwrap();
        let at = |name: &str| place.path().join(name).display().to_string();
        let log = File::create(place.path().join("log")).unwrap();
        let process = Command::new("dockerd")
            .args([
                "--data-root",
                &at("data"),
                "--exec-root",
                &at("exec"),
                "-p",
                &at("pid"),
            ])
            .args(["-H", &format!("unix://{}", at("docker.sock"))])
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
            .args(["--default-ulimit", "nofile=20000:20000"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("dockerd is needed (Debian package docker.io)");
        let mut daemon = Daemon { place, process };
        await_that("the daemon answers", LIMIT, || {
            let ended = daemon.process.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "{}",
                std::fs::read_to_string(daemon.place.path().join("log")).unwrap()
            );
            end_of(daemon.docker(&["version"]), b"").status.success()
        });
        daemon
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("docker.sock")
    }

    fn docker(&self, words: &[&str]) -> Command {
        let mut docker = Command::new("/usr/bin/docker");
        docker.env("DOCKER_HOST", format!("unix://{}", self.socket().display()));
        docker.args(words);
        docker
    }

    /// All containers that it has, in any state.
    fn containers(&self) -> String {
        String::from_utf8(good(self.docker(&["ps", "--all", "--quiet"]), b"")).unwrap()
    }

    fn command(&self, runs: &Runs, flags: &[&str], script: &str) -> Command {
        let policy = runs.path("everything.toml").display().to_string();
        let words = [
            &["--policy", &policy, "--isolation", "docker"],
            flags,
            &["-c", script],
        ]
        .concat();
        let mut command = runs.command(&words);
        command.env("DOCKER_HOST", format!("unix://{}", self.socket().display()));
        command
    }

    #[track_caller]
    fn run(&self, runs: &Runs, flags: &[&str], script: &str) -> Answer {
        Answer::of(&end_of(self.command(runs, flags, script), b""))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // In order, so that it takes its mounts away.
        let _ = rustix::process::kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

const ON: [&str; 2] = ["--image", "small"];

#[test]
fn a_daemon_makes_the_same_container() {
    let (runs, daemon) = (
        with_image(r#"{"Env":["GREETING=hello","PATH=/bin"],"User":"app"}"#),
        Daemon::start(),
    );
    let answer = daemon.run(
        &runs,
        &ON,
        "cat /etc/os-release; id -u; pwd; echo $GREETING; echo text > file; echo 3.0 > /opt; echo aside >&2; exit 7",
    );
    assert_eq!(
        answer.stdout(),
        "ID=small\n1234\n/workspace\nhello\n",
        "{:#}",
        answer.value
    );
    assert_eq!((answer.stderr(), answer.status), ("aside\n".to_owned(), 7));
    assert_eq!(answer.changes(), ["added /file"]);
    assert!(
        answer.text("isolation").starts_with("docker "),
        "{:#}",
        answer.value
    );
    // What it installed is there for other runs, whatever makes their sandboxes.
    assert_eq!(runs.prints(&ON, "cat /opt"), "3.0\n");
    // Nothing of the container's own, no capability, no network, and nobody outside.
    let probe = "ls / /run/avfs; while read name value; do case $name in Cap???:|NoNewPrivs:) echo $value;; esac; done \
                 </proc/self/status; cat /proc/self/uid_map; while read line; do echo \"${line%%:*}\"; done </proc/net/dev; \
                 for at in /run/avfs /dev /proc/sys; do touch $at/new 2>/dev/null && echo $at; done; \
                 touch /run/new /tmp/new /dev/shm/new /new && echo own";
    let seen = daemon.run(&runs, &ON, probe).stdout();
    let by_bubblewrap = runs.prints(&ON, probe);
    let without_headings = |text: &str| -> Vec<String> {
        let words = text
            .lines()
            .filter(|line| !line.contains('|') && !line.contains("1234"));
        words
            .map(str::trim)
            .filter(|line| !["opt", "new"].contains(line))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(without_headings(&seen), without_headings(&by_bubblewrap));
    let map = seen.lines().find(|line| line.contains("1234")).unwrap();
    assert_eq!(map.split_whitespace().collect::<Vec<_>>(), ["1234", "64999", "1"]);
    assert_ne!(
        daemon
            .run(&runs, &["--read-only-root", "--image", "small"], "touch /other")
            .status,
        0
    );
    let late = daemon.run(
        &runs,
        &["--timeout", "1s", "--image", "small"],
        "while true; do :; done",
    );
    assert_eq!(
        (late.status, late.result("timed_out")),
        (124, &true.into()),
        "{:#}",
        late.value
    );
    assert_eq!(daemon.containers(), "");
}

#[test]
fn a_daemon_has_sessions_and_nothing_is_left_of_what_is_killed() {
    let (runs, daemon) = (with_image("{}"), Daemon::start());
    let host = format!("unix://{}", daemon.socket().display());
    let avfs = |words: &[&str]| {
        let mut command = runs.ground.command(words);
        command.env("DOCKER_HOST", &host);
        String::from_utf8(good(command, b"")).unwrap()
    };
    let started = avfs(&["session", "start", "--isolation", "docker", "--image", "small"]);
    let id = started.trim();
    assert_eq!(
        avfs(&["session", "exec", id, "-c", "x=kept; cd /srv; id -u"]),
        "0\n"
    );
    assert_eq!(
        avfs(&["session", "exec", id, "-c", "echo $x $PWD"]),
        "kept /srv\n"
    );
    avfs(&["session", "stop", id]);
    assert_eq!(daemon.containers(), "");
    // The worker is killed.
    let hold = |time: &str| {
        let script = format!("echo kept > kept; sync kept; (sleep {time} &) ; sleep {time}");
        let run = Going::start(daemon.command(&runs, &ON, &script));
        await_that("it runs", LIMIT, || processes_with(time).len() == 2);
        run
    };
    let time = odd_time(80);
    let run = hold(&time);
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.pid())).unwrap();
    signal(children.trim().parse().unwrap(), Signal::KILL);
    let told: Value = serde_json::from_slice(&run.ended().out).unwrap();
    assert_eq!(told["error"]["code"], "worker-killed", "{told}");
    await_that("the processes are gone", LIMIT, || {
        processes_with(&time).is_empty()
    });
    await_that("the container is gone", LIMIT, || daemon.containers().is_empty());
    assert_eq!(daemon.run(&runs, &ON, "cat kept").stdout(), "kept\n");
    // The process that serves the vault is killed.
    let time = odd_time(81);
    let mount = runs.ground.mount("work", "mounted");
    let run = hold(&time);
    mount.kill_server();
    let told: Value = serde_json::from_slice(&run.ended().out).unwrap();
    assert_eq!(told["error"]["code"], "owner-gone", "{told:#}");
    assert_eq!(processes_with(&time), [0; 0]);
    await_that("the container is gone", LIMIT, || daemon.containers().is_empty());
}

#[test]
fn a_daemon_that_is_not_there_is_named() {
    let runs = with_image("{}");
    for (host, said) in [
        ("unix:///nonexistent/docker.sock", "/nonexistent/docker.sock"),
        ("tcp://127.0.0.1:2375", "tcp://127.0.0.1:2375"),
    ] {
        let mut command = runs.command(&["--isolation", "docker", "--image", "small", "--", "id"]);
        command.env("DOCKER_HOST", host);
        let answer = Answer::of(&end_of(command, b""));
        assert_eq!(answer.error_code(), "cannot_isolate", "{:#}", answer.value);
        let message = answer.value["error"]["message"].as_str().unwrap();
        assert!(message.contains(said), "{message}");
    }
}
