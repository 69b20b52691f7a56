//! The cost of forks of a sandbox, step by step: a task of a directory, its forks, and in each an open sandbox in which
//! `true` runs once.
//!
//! `cargo run --release -p agentvfs --example fork_speed -- [FORKS] [FILES] [AT_ONCE]`, with `avfs` built or on the
//! `PATH`. All forks are open at the same time, as many attempts at one problem would be. Bubblewrap alone is measured
//! afterwards.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::path::Path;
use std::process::Command as Process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentvfs::exec::RunSpec;
use agentvfs::exec::sandbox::Cancel;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::launch::InnerProgram;
use agentvfs::rules::Preset;
use agentvfs::{NewTask, OpenSandbox, SandboxCommand, Store, Task, TaskName};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Files of a directory of the project.
const IN_ONE: usize = 1000;

fn main() -> Result<(), Failure> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut next = |usual| numbers.next().unwrap_or(Ok(usual));
    let (forks, files, at_once) = (next(100)?, next(100_000)?, next(4)?);
    let path = std::env::var_os("PATH");
    let inside = InnerProgram::find(None, path.as_deref()).ok_or("avfs is not built")?;
    let place = tempfile::tempdir()?;
    let project = place.path().join("project");
    make_files(&project, files)?;
    let store = Store::open(&place.path().join("store"))?;
    let steps = Steps::default();
    let new = NewTask {
        command: "measuring".to_owned(),
        rules: Some(Preset::AgentSafe.rules()),
        ..NewTask::default()
    };
    let task = steps.timed("task of the directory", || {
        store.project(&project)?.new_task(&new)
    })?;
    let spec = spec();
    let open = |task: &Task| {
        let rules = task.rules()?;
        let rules = rules.map(|rules| rules.list().to_vec());
        let spec = RunSpec {
            rules,
            ..spec.clone()
        };
        task.vault()
            .open_sandbox(&spec, inside.clone(), None, Arc::new(|_| ()))
    };
    let parent = steps.timed("opening the first sandbox", || open(&task))?;
    let (start, before) = (Instant::now(), cpu_time());
    let names: Result<Vec<TaskName>, _> = (0..forks)
        .map(|number| TaskName::new(&format!("fork-{number}")))
        .collect();
    let made = steps.timed("all forks", || task.fork(&names?))?;
    let opened = side_by_side(&made, at_once, |task| {
        steps.timed("opening", || open(task)).map_err(Failure::from)
    })?;
    for sandbox in opened.iter() {
        steps.timed("running true", || run_true(sandbox))?;
    }
    for (task, sandbox) in made.into_iter().zip(opened) {
        let after = steps.timed("closing", || sandbox.end())?;
        steps.timed("waiting", || after.wait());
        steps.timed("discarding", || task.discard(true))?;
    }
    let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(before));
    parent.end()?.wait();
    let before = cpu_time();
    for _ in 0..forks {
        steps.timed("bubblewrap alone", bubblewrap)?;
    }
    let alone = cpu_time().saturating_sub(before);
    steps.print();
    println!("{forks} forks: {wall:.2?}, {cpu:.2?} of processor time; bubblewrap alone: {alone:.2?}");
    Ok(())
}

/// As the Python package asks for it.
fn spec() -> RunSpec {
    RunSpec {
        caller_env: std::env::vars_os().collect(),
        home: std::env::home_dir(),
        ..RunSpec::new(Command::Argv(Vec::new()))
    }
}

fn run_true(sandbox: &OpenSandbox) -> Result<(), Failure> {
    let cancel = Cancel::new()?;
    let command = SandboxCommand::new(Command::Argv(vec!["true".into()]));
    let finished = sandbox.exec(command, &cancel, &mut ());
    let is_success = finished.outcome.is_success();
    is_success
        .then_some(())
        .ok_or_else(|| format!("the command failed: {:?}", finished.error).into())
}

fn bubblewrap() -> Result<(), Failure> {
    let mut bwrap = Process::new("bwrap");
    bwrap.args(["--unshare-all", "--ro-bind", "/", "/"]);
    bwrap.args(["--proc", "/proc", "--dev", "/dev", "true"]);
    let is_success = bwrap.status()?.success();
    is_success.then_some(()).ok_or_else(|| "bubblewrap failed".into())
}

/// Does the same with all of them, so many at once.
fn side_by_side<T: Sync, R: Send>(
    all: &[T],
    at_once: usize,
    work: impl Fn(&T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let share = all.len().div_ceil(at_once.max(1)).max(1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .chunks(share)
            .map(|part| scope.spawn(|| part.iter().map(&work).collect::<Result<Vec<R>, Failure>>()))
            .collect();
        let parts: Result<Vec<Vec<R>>, Failure> = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked")?)
            .collect();
        Ok(parts?.into_iter().flatten().collect())
    })
}

/// How long each step took, in the order in which they came first.
#[derive(Default)]
struct Steps(Mutex<Vec<(&'static str, Vec<Duration>)>>);

impl Steps {
    fn timed<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        let took = start.elapsed();
        let mut steps = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match steps.iter_mut().find(|(known, _)| *known == what) {
            Some((_, all)) => all.push(took),
            None => steps.push((what, vec![took])),
        }
        done
    }

    fn print(self) {
        let steps = self
            .0
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for (what, mut took) in steps {
            took.sort();
            let at = |share: usize| took.get(took.len() * share / 100).copied().unwrap_or_default();
            let sum: Duration = took.iter().sum();
            println!(
                "{what}: median {:.2?}, 90th {:.2?}, all {sum:.2?}",
                at(50),
                at(90)
            );
        }
    }
}

/// The processor time of this process and of the children that it has waited for.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after_name.split_whitespace().skip(11).take(4);
    let ticks: u64 = ticks.filter_map(|word| word.parse::<u64>().ok()).sum();
    // A hundred a second, on every Linux of today.
    Duration::from_millis(ticks * 10)
}

fn make_files(root: &Path, files: usize) -> std::io::Result<()> {
    for number in 0..files {
        let directory = root.join((number / IN_ONE).to_string());
        if number % IN_ONE == 0 {
            std::fs::create_dir_all(&directory)?;
        }
        std::fs::write(directory.join(format!("{number}.txt")), format!("{number}\n"))?;
    }
    Ok(())
}
