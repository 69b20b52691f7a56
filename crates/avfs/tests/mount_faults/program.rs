//! Programs with a bound on their time: one that hangs in a mount fails its test.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// Longer than any program here takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The output of a program and how it ended.
pub struct Ended {
    pub status: ExitStatus,
    pub out: Vec<u8>,
    pub err: String,
}

/// Runs it to its end, with `input` as its standard input. One that takes too long is killed with its
/// descendants, and not waited for: it may be stuck in the kernel until its mount is gone.
#[track_caller]
pub fn end_of(mut command: Command, input: &[u8]) -> Ended {
    let (given, out, err) = (tempfile(), tempfile(), tempfile());
    (&given).write_all(input).unwrap();
    std::io::Seek::rewind(&mut &given).unwrap();
    command
        .process_group(0)
        .stdin(given)
        .stdout(stream(&out))
        .stderr(stream(&err));
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let group = Pid::from_child(&child);
    let (done, waiting) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait()));
    let ended = waiting.recv_timeout(LIMIT);
    let err = String::from_utf8_lossy(&contents(err)).into_owned();
    match ended {
        Ok(status) => Ended {
            status: status.unwrap(),
            out: contents(out),
            err,
        },
        Err(_) => {
            _ = rustix::process::kill_process_group(group, Signal::KILL);
            panic!("{command:?} did not end within {LIMIT:?}\n{err}")
        }
    }
}

/// Runs it; it must succeed. Returns its output.
#[track_caller]
pub fn good(command: Command, input: &[u8]) -> Vec<u8> {
    let shown = format!("{command:?}");
    let ended = end_of(command, input);
    let said = String::from_utf8_lossy(&ended.out);
    assert!(
        ended.status.success(),
        "{shown}: {}\n{said}\n{}",
        ended.status,
        ended.err
    );
    ended.out
}

/// Waits until something holds.
#[track_caller]
pub fn await_that(what: &str, at_most: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < at_most, "after {at_most:?} not yet: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tempfile() -> File {
    tempfile::tempfile().unwrap()
}

fn stream(file: &File) -> Stdio {
    file.try_clone().unwrap().into()
}

fn contents(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut file).unwrap();
    std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
    bytes
}
