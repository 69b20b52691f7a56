//! Mount namespaces that are created elsewhere during a run have invisible copies of its mounts.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::project::{AS_NOBODY, FuseForAll, Project, good};

/// Well under the time that the namespace lives, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// A namespace that has copies of all mounts that there are.
struct Elsewhere(Child);

impl Elsewhere {
    fn open() -> Elsewhere {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c", "echo there; exec sleep 1000"]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "there");
        Elsewhere(child)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A command that creates a namespace elsewhere and then writes a file ends while that namespace lives.
#[track_caller]
fn ends_beside_a_namespace(run: &mut Command) {
    let mut run = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(run.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    let elsewhere = Elsewhere::open();
    run.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let start = Instant::now();
    let status = loop {
        match run.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > PATIENCE => {
                run.kill().unwrap();
                panic!("it waits for the namespace");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(status.success(), "{status}");
    drop(elsewhere);
}

const SCRIPT: &str = "echo ready; read go; echo stored >work.txt";

#[test]
fn the_end_of_a_run_does_not_wait_for_copies_of_its_mounts() {
    let project = Project::new();
    ends_beside_a_namespace(&mut project.avfs(&["run", "--name", "one", "--", "sh", "-c", SCRIPT]));
    assert_eq!(
        good(&mut project.avfs(&["cat", "work.txt", "--vault", "web/one"])),
        "stored\n"
    );
}

#[test]
fn the_end_of_an_ordinary_users_run_does_not_wait_for_copies_of_its_mounts() {
    let project = Project::new();
    let _fuse = FuseForAll::new();
    let as_nobody = |words: &[&str]| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(AS_NOBODY.split(' ')).arg(project.give_away());
        project.in_project(setpriv, words)
    };
    ends_beside_a_namespace(&mut as_nobody(&[
        "run", "--name", "one", "--", "sh", "-c", SCRIPT,
    ]));
    assert_eq!(
        good(&mut as_nobody(&["cat", "work.txt", "--vault", "web/one"])),
        "stored\n"
    );
}

#[test]
fn a_run_whose_vault_another_run_serves_does_not_wait_for_copies() {
    let project = Project::new();
    good(&mut project.avfs(&["run", "--name", "one", "--", "true"]));
    let mut first = project.avfs(&["run", "--task", "one", "--", "sh", "-c", "echo ready; read go"]);
    let mut first = first
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(first.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    ends_beside_a_namespace(&mut project.avfs(&["run", "--task", "one", "--", "sh", "-c", SCRIPT]));
    assert_eq!(
        good(&mut project.avfs(&["cat", "work.txt", "--vault", "web/one"])),
        "stored\n"
    );
    first.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(first.wait().unwrap().success());
}
