//! Another program that has files open and mapped, and survives changes to them or not.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

const PROGRAM: &str = include_str!("holder.py");

/// Longer than any answer takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

pub struct Holder {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

/// The result of an order to the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes that were read, or nothing.
    Done(String),
    /// The name of the error.
    Failed(String),
    /// It was killed by SIGBUS: the page no longer exists.
    Bus,
}

impl Answer {
    pub fn done(text: &str) -> Answer {
        Answer::Done(text.to_owned())
    }

    pub fn failed(error: &str) -> Answer {
        Answer::Failed(error.to_owned())
    }
}

impl Holder {
    pub fn start() -> Holder {
        let mut python = Command::new("python3");
        python
            .args(["-u", "-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = python
            .spawn()
            .expect("python3 is needed: scripts/test installs it");
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (answer, answers) = channel();
        std::thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| answer.send(line))
        });
        Holder {
            child,
            input,
            answers,
        }
    }

    /// Opens a file under a short name; `flags` are those of `open(2)`, with `|` between them.
    #[track_caller]
    pub fn open(&mut self, name: &str, path: &Path, flags: &str) {
        assert_eq!(
            self.ask(&format!("open {name} {} {flags}", path.display())),
            Answer::done("")
        );
    }

    /// Tells it to do something; it has done so when this returns.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> Answer {
        _ = writeln!(self.input, "{line}");
        match self.answers.recv_timeout(LIMIT) {
            Ok(said) => match said.strip_prefix("ok ") {
                Some(text) => Answer::Done(text.to_owned()),
                None => Answer::Failed(said),
            },
            Err(RecvTimeoutError::Timeout) => panic!("no answer to '{line}'"),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().unwrap();
                assert_eq!(
                    status.signal(),
                    Some(rustix::process::Signal::BUS.as_raw()),
                    "'{line}': {status}"
                );
                Answer::Bus
            }
        }
    }

    /// Sends an order, which must succeed.
    #[track_caller]
    pub fn tell(&mut self, line: &str) -> String {
        match self.ask(line) {
            Answer::Done(text) => text,
            answer => panic!("'{line}': {answer:?}"),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
