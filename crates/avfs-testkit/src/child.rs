//! Processes that a test starts, watches and kills: the test binary itself, started again.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

const PLACE: &str = "AVFS_TEST_CHILD_PLACE";
const SCRIPT: &str = "AVFS_TEST_CHILD_SCRIPT";

/// A running child.
pub struct TestChild {
    process: Process,
    input: Option<ChildStdin>,
    output: Output,
}

/// The remaining information about a killed child.
pub struct Killed {
    /// Acknowledgements that had not been read yet.
    pub last_words: Vec<String>,
    /// It had finished before the kill.
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
        let output = Output(BufReader::new(process.stdout.take().unwrap()));
        TestChild {
            process: Process(process),
            input,
            output,
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Sends a line to the child's standard input, and waits for its acknowledgement.
    pub fn ask(&mut self, line: &str) -> String {
        let input = self
            .input
            .as_mut()
            .expect("the input stays open until the child has ended");
        writeln!(input, "{line}").unwrap();
        self.acknowledged()
            .unwrap_or_else(|| panic!("the child ended at '{line}'"))
    }

    /// The next acknowledgement of the child; `None` when it has ended.
    pub fn acknowledged(&mut self) -> Option<String> {
        self.output.next()
    }

    /// Waits for `count` acknowledgements, or fewer if it ends before; returns how many came.
    pub fn await_acknowledged(&mut self, count: u64) -> u64 {
        (0..count).take_while(|_| self.acknowledged().is_some()).count() as u64
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) -> Killed {
        self.process.0.kill().unwrap();
        let last_words = self.output.by_ref().collect();
        let finished_before = self.process.0.wait().unwrap().success();
        Killed {
            last_words,
            finished_before,
        }
    }

    /// Waits for its end, which must be successful.
    pub fn finish(mut self) {
        self.input = None;
        self.output.by_ref().for_each(drop);
        assert!(self.process.0.wait().unwrap().success(), "the child failed");
    }

    /// Reads its acknowledgements as they come, so that a slow test does not receive them late.
    pub fn watched(self) -> WatchedChild {
        let heard = Arc::<Heard>::default();
        let (output, notebook) = (self.output, Arc::clone(&heard));
        let listener = std::thread::spawn(move || {
            output.for_each(|text| notebook.change(|so_far| so_far.texts.push(text)));
            notebook.change(|so_far| so_far.ended = true);
        });
        WatchedChild {
            process: self.process,
            _input: self.input,
            heard,
            listener,
        }
    }
}

/// A child whose output is read all the time.
pub struct WatchedChild {
    process: Process,
    _input: Option<ChildStdin>,
    heard: Arc<Heard>,
    listener: JoinHandle<()>,
}

#[derive(Default)]
struct Heard {
    so_far: Mutex<SoFar>,
    changed: Condvar,
}

#[derive(Default)]
struct SoFar {
    texts: Vec<String>,
    ended: bool,
}

impl Heard {
    /// Longer than any wait of a test takes on a slow machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn change(&self, edit: impl FnOnce(&mut SoFar)) {
        edit(&mut self.so_far.lock().unwrap());
        self.changed.notify_all();
    }

    fn wait_while(&self, waits: impl FnMut(&mut SoFar) -> bool) -> MutexGuard<'_, SoFar> {
        let so_far = self.so_far.lock().unwrap();
        self.changed
            .wait_timeout_while(so_far, Self::PATIENCE, waits)
            .unwrap()
            .0
    }
}

impl WatchedChild {
    /// All its acknowledgements.
    pub fn so_far(&self) -> Vec<String> {
        self.heard.so_far.lock().unwrap().texts.clone()
    }

    /// Waits until it has sent `count` acknowledgements in total. Fails if it ends before.
    pub fn await_total(&self, count: usize) {
        let so_far = self
            .heard
            .wait_while(|so_far| so_far.texts.len() < count && !so_far.ended);
        assert!(
            so_far.texts.len() >= count,
            "{} of {count} were acknowledged",
            so_far.texts.len()
        );
    }

    /// Ends it as a crash would; returns all its acknowledgements.
    pub fn kill(mut self) -> Vec<String> {
        self.process.0.kill().unwrap();
        self.hear_the_end()
    }

    /// Waits until it ends by itself, successfully or not; returns all its acknowledgements.
    pub fn await_end(self) -> Vec<String> {
        assert!(
            self.heard.wait_while(|so_far| !so_far.ended).ended,
            "the child does not end"
        );
        self.hear_the_end()
    }

    fn hear_the_end(mut self) -> Vec<String> {
        self.listener.join().unwrap();
        self.process.0.wait().unwrap();
        std::mem::take(&mut self.heard.so_far.lock().unwrap().texts)
    }
}

/// A test that fails leaves no child behind.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The acknowledgements of a child, as they come.
struct Output(BufReader<ChildStdout>);

impl Iterator for Output {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            // A line without its end was cut off by the kill.
            if let Some(text) = line.strip_prefix("ack ").and_then(|text| text.strip_suffix('\n')) {
                return Some(text.to_owned());
            }
        }
    }
}

/// In a child: the place and the script with which it was started. Elsewhere there is nothing to do.
pub fn child_task() -> Option<(std::path::PathBuf, String)> {
    Some((std::env::var_os(PLACE)?.into(), std::env::var(SCRIPT).ok()?))
}

/// In a child: acknowledges that something is done and durable.
pub fn acknowledge(what: impl std::fmt::Display) {
    // The test harness may have left its own text on the line.
    println!("\nack {what}");
    std::io::stdout().flush().unwrap();
}

/// In a child: ends it as a crash would, exactly here.
pub fn crash() -> ! {
    let this = rustix::process::getpid();
    rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
    loop {
        std::thread::park();
    }
}
