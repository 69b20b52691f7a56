//! Processes that a test starts, watches and kills: the test binary itself, started again.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PLACE: &str = "AVFS_TEST_CHILD_PLACE";
const SCRIPT: &str = "AVFS_TEST_CHILD_SCRIPT";

/// A running child.
pub struct TestChild {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// What is known of a child that was killed.
pub struct Killed {
    /// What it had acknowledged and nobody had read yet.
    pub last_words: Vec<String>,
    /// It was done before death came.
    pub finished_before: bool,
}

impl TestChild {
    /// Starts the test `entry` of this binary, which finds `place` and `script` by [`child_task`].
    pub fn start(entry: &str, place: &Path, script: &str) -> TestChild {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([entry, "--exact", "--nocapture", "--test-threads=1"])
            .env(PLACE, place)
            .env(SCRIPT, script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        TestChild { process, input, output }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Says a line to the child on its standard input, and waits for what it acknowledges.
    pub fn ask(&mut self, line: &str) -> String {
        let input = self.input.as_mut().expect("a child that was told nothing more has ended");
        writeln!(input, "{line}").unwrap();
        self.acknowledged().unwrap_or_else(|| panic!("the child ended at '{line}'"))
    }

    /// The next thing that the child has acknowledged; `None` when it has ended.
    pub fn acknowledged(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            if let Some(text) = line.trim_end().strip_prefix("ack ") {
                return Some(text.to_owned());
            }
        }
    }

    /// Waits for `count` acknowledgements, or fewer if it ends before; returns how many came.
    pub fn await_acknowledged(&mut self, count: u64) -> u64 {
        (0..count).take_while(|_| self.acknowledged().is_some()).count() as u64
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) -> Killed {
        self.process.kill().unwrap();
        let last_words = std::iter::from_fn(|| self.acknowledged()).collect();
        let finished_before = self.process.wait().unwrap().success();
        Killed { last_words, finished_before }
    }

    /// Waits for its end, which must be a good one.
    pub fn finish(mut self) {
        self.input = None;
        while self.acknowledged().is_some() {}
        assert!(self.process.wait().unwrap().success(), "the child failed");
    }
}

/// In a child: the place and the script that it was started with. Elsewhere there is nothing to do.
pub fn child_task() -> Option<(std::path::PathBuf, String)> {
    Some((std::env::var_os(PLACE)?.into(), std::env::var(SCRIPT).ok()?))
}

/// In a child: says that something is done and durable.
pub fn acknowledge(what: impl std::fmt::Display) {
    // The test harness may have left its own text on the line.
    println!("\nack {what}");
    std::io::stdout().flush().unwrap();
}
