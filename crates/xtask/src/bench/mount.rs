//! The same work in a host directory and in mounts, step by step in turns, so that what else the machine does
//! meets all of them alike.

mod builds;
mod large_file;
mod report;
mod requests;
mod small_files;
mod supplies;
mod target;
mod tree;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use requests::Requests;
use supplies::Supplies;
use target::Target;

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = Options::parse(arguments)?;
    std::fs::create_dir_all(&options.dir)?;
    let supplies = Supplies::make(&std::path::absolute(&options.dir)?)?;
    let mut targets = options.targets()?;
    let steps: Vec<Step> = all_steps().into_iter().filter(|step| options.wants(step)).collect();
    let mut results = Results::default();
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        one_round(round, &steps, &mut targets, &supplies, &mut results)?;
    }
    let labels: Vec<&str> = targets.iter().map(|target| target.label.as_str()).collect();
    let table = report::Table::new(&labels, &steps, &results);
    table.print();
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(&table.json())?)?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Options {
    rounds: usize,
    /// Only the steps that have one of these words in their names, and those that make what others need.
    words: Vec<String>,
    /// One mount for each; `none` for no mounts at all.
    transports: Vec<String>,
    /// Directories that are there already, with names for the table.
    others: Vec<(String, PathBuf)>,
    json: Option<PathBuf>,
    dir: PathBuf,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            rounds: 5,
            words: Vec::new(),
            transports: vec![target::DEFAULT_TRANSPORT.to_owned()],
            others: Vec::new(),
            json: None,
            dir: PathBuf::from("target/bench"),
        };
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
            let words = || value.split(',').map(str::to_owned).collect();
            match flag.as_str() {
                "--rounds" => options.rounds = value.parse()?,
                "--steps" => options.words = words(),
                "--transport" => options.transports = words(),
                "--target" => {
                    let (name, dir) = value.split_once('=').context("--target takes NAME=DIR")?;
                    options.others.push((name.to_owned(), dir.into()));
                }
                "--json" => options.json = Some(value.into()),
                "--dir" => options.dir = value.into(),
                other => bail!("unknown option {other}"),
            }
        }
        ensure!(options.rounds > 0, "--rounds must be at least 1");
        Ok(options)
    }

    fn wants(&self, step: &Step) -> bool {
        let named = |word: &String| step.name.contains(word.as_str());
        self.words.is_empty() || step.makes_what_others_need || self.words.iter().any(named)
    }

    /// The host directory comes first: the others are compared with it.
    fn targets(&self) -> Result<Vec<Target>> {
        let mut targets = vec![Target::directory("host", &self.dir.join("host"))?];
        if self.transports != ["none"] {
            self.add_mounts(&mut targets)?;
        }
        for (name, dir) in &self.others {
            targets.push(Target::directory(name, dir)?);
        }
        Ok(targets)
    }

    fn add_mounts(&self, targets: &mut Vec<Target>) -> Result<()> {
        let avfs = super::core::build_avfs()?;
        if !target::can_mount(&avfs)? {
            eprintln!("this avfs cannot mount: only directories are measured");
            return Ok(());
        }
        for transport in &self.transports {
            targets.push(Target::mount(&avfs, transport, &self.dir)?);
        }
        Ok(())
    }
}

/// One kind of work.
pub struct Step {
    pub name: &'static str,
    before: Before,
    makes_what_others_need: bool,
    /// Returns how many operations it did, for work that is a number of equal ones.
    work: Work,
}

/// What happens before the clock is started.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    /// The same work, so that whatever can be remembered is: for work that changes nothing.
    Once,
    /// The kernel forgets everything, and a mount is made anew.
    Forget,
}

type Work = fn(&Path, &Supplies) -> Result<Option<u64>>;

impl Step {
    fn new(name: &'static str, work: Work) -> Step {
        Step { name, before: Before::Nothing, makes_what_others_need: false, work }
    }

    fn warm(self) -> Step {
        Step { before: Before::Once, ..self }
    }

    fn cold(self) -> Step {
        Step { before: Before::Forget, ..self }
    }

    fn needed(self) -> Step {
        Step { makes_what_others_need: true, ..self }
    }
}

/// The cold ones come late: the kernel forgets not only the target but everything.
fn all_steps() -> Vec<Step> {
    let parts = [
        tree::steps(),
        builds::steps(),
        small_files::steps(),
        large_file::steps(),
        vec![Step::new("rm -rf", |dir, _| shell(dir, "rm -rf clone"))],
        tree::cold_steps(),
        builds::cold_steps(),
        large_file::cold_steps(),
    ];
    parts.into_iter().flatten().collect()
}

/// What one step took in one round.
#[derive(Clone, Debug)]
pub struct Taken {
    pub time: Duration,
    pub operations: Option<u64>,
    pub requests: Option<Requests>,
}

/// Everything that was measured, by step and target, in the order of the rounds.
#[derive(Default)]
pub struct Results(BTreeMap<(String, String), Vec<Taken>>);

impl Results {
    fn add(&mut self, step: &str, target: &str, taken: Taken) {
        self.0.entry((step.to_owned(), target.to_owned())).or_default().push(taken);
    }

    pub fn of(&self, step: &str, target: &str) -> &[Taken] {
        self.0.get(&(step.to_owned(), target.to_owned())).map_or(&[], Vec::as_slice)
    }
}

/// All steps in all targets; the targets change their order from round to round.
fn one_round(
    round: usize,
    steps: &[Step],
    targets: &mut [Target],
    supplies: &Supplies,
    results: &mut Results,
) -> Result<()> {
    let place = format!("round-{round}");
    for target in targets.iter() {
        // An interrupted run may have left it.
        _ = std::fs::remove_dir_all(target.dir.join(&place));
        std::fs::create_dir(target.dir.join(&place))?;
    }
    supplies.warm_up()?;
    rustix::fs::sync();
    for step in steps {
        let order: Vec<usize> = match round % 2 {
            0 => (0..targets.len()).collect(),
            _ => (0..targets.len()).rev().collect(),
        };
        for index in order {
            let target = &mut targets[index];
            let taken = one_step(step, target, &place, supplies)
                .with_context(|| format!("{} in {}", step.name, target.label))?;
            results.add(step.name, &target.label, taken);
        }
    }
    for target in targets.iter() {
        std::fs::remove_dir_all(target.dir.join(&place))?;
    }
    Ok(())
}

fn one_step(step: &Step, target: &mut Target, place: &str, supplies: &Supplies) -> Result<Taken> {
    let dir = target.dir.join(place);
    match step.before {
        Before::Nothing => {}
        Before::Once => _ = (step.work)(&dir, supplies)?,
        Before::Forget => target.forget()?,
    }
    let before = target.requests()?;
    let start = Instant::now();
    let operations = (step.work)(&dir, supplies)?;
    let time = start.elapsed();
    let requests = before.zip(target.requests()?).map(|(before, after)| after.since(&before));
    Ok(Taken { time, operations, requests })
}

/// Runs a script that must succeed.
fn shell(dir: &Path, script: &str) -> Result<Option<u64>> {
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", script]).current_dir(dir);
    bash.env("GIT_CONFIG_GLOBAL", "/dev/null").env_remove("CARGO_TARGET_DIR");
    let output = bash.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(None)
}
