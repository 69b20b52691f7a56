//! Output without a reader: programs get a closed pipe, as they do outside.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::project::{Project, good};

/// Longer than anything takes on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// The status that a shell shows for a program that SIGPIPE has ended.
const BROKEN_PIPE: i32 = 128 + 13;

/// Reads one line of the output and leaves; the status of the command then.
#[track_caller]
fn after_one_line(command: &mut Command) -> Option<i32> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    drop(output);
    await_status(child)
}

#[track_caller]
fn await_status(mut child: std::process::Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status.code(),
            None if start.elapsed() > PATIENCE => {
                rustix::process::kill_process(
                    rustix::process::Pid::from_child(&child),
                    rustix::process::Signal::TERM,
                )
                .unwrap();
                panic!("it goes on without anybody who reads");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

const SLOW: &str = "while echo tick; do sleep 0.2; done";

#[test]
fn a_run_ends_with_the_reader_of_its_output() {
    let project = Project::new();
    assert_eq!(
        after_one_line(&mut project.avfs(&["run", "--", "yes"])),
        Some(BROKEN_PIPE)
    );
    assert_eq!(
        after_one_line(&mut project.avfs(&["run", "--", "sh", "-c", SLOW])),
        Some(BROKEN_PIPE)
    );
    let own = [
        "run",
        "--name",
        "own",
        "--",
        "sh",
        "-c",
        "yes; echo kept >work.txt; exit 3",
    ];
    assert_eq!(after_one_line(&mut project.avfs(&own)), Some(3));
    assert_eq!(
        good(&mut project.avfs(&["cat", "work.txt", "--vault", "web/own"])),
        "kept\n"
    );
}

#[test]
fn an_exec_ends_with_the_reader_of_its_output() {
    let project = Project::new();
    good(&mut project.avfs(&["vault", "create", "box"]));
    for flags in [&[][..], &["--stream"]] {
        let exec = |line: &str| {
            let words = [&["exec", "--vault", "box"], flags, &["-c", line]].concat();
            after_one_line(&mut project.avfs(&words))
        };
        assert_eq!(exec("yes"), Some(BROKEN_PIPE), "{flags:?}");
        assert_eq!(exec(SLOW), Some(BROKEN_PIPE), "{flags:?}");
    }
}

#[test]
fn a_command_of_a_session_ends_with_the_reader_of_its_output() {
    let project = Project::new();
    good(&mut project.avfs(&["vault", "create", "box"]));
    let id = good(&mut project.avfs(&["session", "start", "--vault", "box"]));
    let exec =
        |words: &[&str]| project.avfs(&[&["session", "exec", id.trim(), "--wait", "--"], words].concat());
    assert_eq!(after_one_line(&mut exec(&["yes"])), Some(BROKEN_PIPE));
    assert_eq!(after_one_line(&mut exec(&["sh", "-c", SLOW])), Some(BROKEN_PIPE));
    assert_eq!(good(&mut exec(&["echo", "still there"])), "still there\n");
    good(&mut project.avfs(&["session", "stop", id.trim()]));
}

#[test]
fn without_a_reader_of_its_object_a_run_ends_too() {
    let project = Project::new();
    good(&mut project.avfs(&["vault", "create", "box"]));
    for words in [
        &["run", "--json", "--", "yes"][..],
        &["exec", "--json", "--vault", "box", "--", "yes"],
    ] {
        let mut command = project.avfs(words);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        assert_eq!(await_status(child), Some(BROKEN_PIPE), "{words:?}");
    }
}
