//! Compares the cost of a process in an open sandbox with that of a separate sandbox: medians of `true`, in
//! turns. Then measures the cost of idle open sandboxes, each with one process.
//!
//! `cargo run -p avfs-exec --example spawn_speed -- AVFS-INSIDE [ROUNDS [IDLE]]`, with the program `avfs-inside` of this
//! crate or `avfs`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use avfs_exec::launch::{InnerProgram, LaunchRequest};
use avfs_exec::processes::{ProcessInput, ProcessSpec};
use avfs_exec::terminal::TerminalSize;
use avfs_exec::{Bubblewrap, Cancel, Launcher, ProcessSandbox, SandboxPlan, Stdin};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let inside = InnerProgram::new(arguments.next().ok_or("which first program?")?);
    let rounds = arguments.next().map_or(Ok(200), |text| text.parse::<usize>())?;
    let place = tempfile::tempdir()?;
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777))?;
    let plan = SandboxPlan::new(place.path(), ["true"]);
    let version = place.path().join("version");
    let launcher_of = || Bubblewrap::new(inside.clone()).remembering(version.clone());
    let launcher = launcher_of();
    let opening = Instant::now();
    let sandbox = ProcessSandbox::start(launcher_of(), plan.clone())?;
    let opening = opening.elapsed();
    let on_terminal = ProcessSpec {
        input: ProcessInput::Terminal(TerminalSize {
            rows: 24,
            columns: 80,
        }),
        ..ProcessSpec::new(["true"])
    };
    let (mut whole, mut open, mut terminal, mut host) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        whole.push(timed(|| {
            let cancel = Cancel::new()?;
            let outcome = launcher.launch(LaunchRequest::new(&plan, Stdin::Nothing, &cancel, &mut |_| ()))?;
            succeeded(outcome.status())
        })?);
        open.push(timed(|| spawn(&sandbox, ProcessSpec::new(["true"])))?);
        terminal.push(timed(|| spawn(&sandbox, on_terminal.clone()))?);
        host.push(timed(|| {
            let status = std::process::Command::new("true").status()?;
            succeeded(status.code().unwrap_or(1))
        })?);
    }
    println!("{rounds} rounds, medians (90th percentiles); the open sandbox was made in {opening:.1?}");
    for (what, times) in [
        ("a sandbox of its own", &mut whole),
        ("in the open sandbox", &mut open),
        ("the same on a terminal", &mut terminal),
        ("without a sandbox", &mut host),
    ] {
        times.sort();
        let at = |part: usize| times.get(times.len() * part / 10).copied().unwrap_or_default();
        println!("{what:<24} {:>9.2?} ({:.2?})", at(5), at(9));
    }
    sandbox.end()?;
    match arguments.next() {
        Some(count) => rest(&launcher_of, &plan, count.parse()?),
        None => Ok(()),
    }
}

/// How long idle sandboxes are observed.
const REST: Duration = Duration::from_secs(5);

/// Opens many sandboxes, and prints what they cost this process while they are idle.
fn rest(launcher: &dyn Fn() -> Bubblewrap, plan: &SandboxPlan, count: usize) -> Result<(), Failure> {
    let (memory, files) = (memory_of_this_process()?, files_of_this_process()?);
    let since = Instant::now();
    let mut sandboxes = Vec::new();
    for _ in 0..count {
        let sandbox = ProcessSandbox::start(launcher(), plan.clone())?;
        sandbox.spawn(ProcessSpec::new(["sleep", "1000"]))?;
        sandboxes.push(sandbox);
    }
    let opening = since.elapsed();
    let before = cpu_of_this_process()?;
    std::thread::sleep(REST);
    let used = cpu_of_this_process()?.saturating_sub(before);
    println!("{count} idle sandboxes, opened in {opening:.1?}, cost this process");
    println!(
        "  memory    {} KiB each",
        (memory_of_this_process()? - memory) / count as u64
    );
    println!("  files     {} each", (files_of_this_process()? - files) / count);
    println!(
        "  threads   {} in all",
        std::fs::read_dir("/proc/self/task")?.count()
    );
    println!("  CPU time  {used:.1?} in {REST:?}");
    let since = Instant::now();
    drop(sandboxes);
    println!("  and were ended in {:.1?}", since.elapsed());
    Ok(())
}

/// In KiB.
fn memory_of_this_process() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.and_then(|line| line.split_whitespace().next());
    Ok(text.ok_or("no memory")?.parse()?)
}

fn files_of_this_process() -> Result<usize, Failure> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

fn cpu_of_this_process() -> Result<Duration, Failure> {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::try_from(spent)?)
}

fn spawn(sandbox: &ProcessSandbox, spec: ProcessSpec) -> Result<(), Failure> {
    let process = sandbox.spawn(spec)?;
    succeeded(process.wait(None).ok_or("no end")?.status())
}

fn succeeded(status: i32) -> Result<(), Failure> {
    if status == 0 {
        Ok(())
    } else {
        Err(format!("it ended with {status}").into())
    }
}

fn timed(what: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let since = Instant::now();
    what()?;
    Ok(since.elapsed())
}
