//! The overhead of a command in a session over one that is written to a shell: medians of `true` in both, in
//! turns.
//!
//! `cargo run --release -p agentvfs --example session_speed -- STORE ID [ROUNDS]`, with a session that was started.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use agentvfs::Store;
use agentvfs::exec::sandbox::classify;
use agentvfs::session::SessionCommand;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let store = Store::open(Path::new(&arguments.next().ok_or("which store?")?))?;
    let session = store.sessions().get(&arguments.next().ok_or("which session?")?)?;
    let rounds = arguments.next().map_or(Ok(200), |text| text.parse::<usize>())?;
    let mut bash = Command::new("bash")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = bash.stdin.take().ok_or("no input")?;
    let mut answers = BufReader::new(bash.stdout.take().ok_or("no output")?);
    let command = SessionCommand::new(classify::Command::Shell("true".into()));
    let (mut plain, mut ours, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        plain.push(timed(|| through_pipe(&mut lines, &mut answers))?);
        ours.push(timed(|| {
            let answer = session.exec(&command, &mut |_| ())?;
            inner.push(Duration::from_millis(
                answer.envelope["result"]["duration_ms"].as_u64().unwrap_or(0),
            ));
            Ok(())
        })?);
    }
    drop(lines);
    bash.wait()?;
    for (what, mut times) in [
        ("bash", plain),
        ("session", ours),
        ("in the shell (ms, cut)", inner),
    ] {
        times.sort();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        println!("{what}: median {:?}, 90th {:?}", at(50), at(90));
    }
    Ok(())
}

fn through_pipe(lines: &mut ChildStdin, answers: &mut BufReader<ChildStdout>) -> Result<(), Failure> {
    lines.write_all(b"true; echo $?\n")?;
    answers.read_line(&mut String::new())?;
    Ok(())
}

fn timed(act: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed())
}
