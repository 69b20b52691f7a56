//! The same work in a host directory and in mounts, step by step in turns, so that other load of the machine
//! affects all of them alike.

mod builds;
mod floor;
mod large_file;
mod options;
mod report;
mod requests;
mod small_files;
mod supplies;
mod target;
mod tree;
mod user;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use floor::{Bulk, Floor};
use options::Options;
use requests::Requests;
use supplies::Supplies;
use target::Target;
use user::as_user;

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = Options::parse(arguments)?;
    if options.help {
        println!("{}\n\nSteps:", options::USAGE);
        all_steps().iter().for_each(|step| println!("  {}", step.name));
        return Ok(ExitCode::SUCCESS);
    }
    measure(&options, Options::targets)
}

/// The same work in mounts without rules and through these.
pub fn with_and_without(rules: &[String], arguments: &[String]) -> Result<ExitCode> {
    measure(&Options::parse(arguments)?, |options| {
        options.ruled_targets(rules)
    })
}

fn measure(options: &Options, targets: impl Fn(&Options) -> Result<Vec<Target>>) -> Result<ExitCode> {
    std::fs::create_dir_all(&options.dir).with_context(|| format!("making {}", options.dir.display()))?;
    let supplies = Supplies::make(&std::path::absolute(&options.dir)?)?;
    let mut targets = targets(options)?;
    let steps: Vec<Step> = all_steps()
        .into_iter()
        .filter(|step| options.wants(step))
        .collect();
    let mut results = Results::default();
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        measure_floors(&targets, &mut results)?;
        one_round(round, &steps, &mut targets, &supplies, &mut results)?;
    }
    measure_floors(&targets, &mut results)?;
    let labels: Vec<&str> = targets.iter().map(|target| target.label.as_str()).collect();
    let table = report::Table::new(&labels, &steps, &results);
    table.print();
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(&table.json())?;
        std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One kind of work.
pub struct Step {
    pub name: &'static str,
    before: Before,
    makes_what_others_need: bool,
    /// It runs programs in the home of the measuring user, so other users cannot do it.
    needs_home: bool,
    /// For work that mainly copies one large file.
    bulk: Option<Bulk>,
    /// Returns the number of operations, for work that consists of equal ones.
    work: Work,
}

/// What happens before the clock is started.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    /// The same work, so that everything cacheable is cached: for work that changes nothing.
    Once,
    /// The kernel drops all caches, and a mount is recreated.
    Forget,
}

type Work = fn(&Path, &Supplies) -> Result<Option<u64>>;

impl Step {
    fn new(name: &'static str, work: Work) -> Step {
        let before = Before::Nothing;
        Step {
            name,
            before,
            makes_what_others_need: false,
            needs_home: false,
            bulk: None,
            work,
        }
    }

    fn warm(self) -> Step {
        Step {
            before: Before::Once,
            ..self
        }
    }

    fn cold(self) -> Step {
        Step {
            before: Before::Forget,
            ..self
        }
    }

    fn needed(self) -> Step {
        Step {
            makes_what_others_need: true,
            ..self
        }
    }

    fn at_home(self) -> Step {
        Step {
            needs_home: true,
            ..self
        }
    }

    fn copying(self, bulk: Bulk) -> Step {
        Step {
            bulk: Some(bulk),
            ..self
        }
    }
}

/// The cold ones come late: the kernel drops all caches, not only those of the target.
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

/// The measurements of one step in one round.
#[derive(Clone, Debug)]
pub struct Taken {
    pub time: Duration,
    pub operations: Option<u64>,
    pub requests: Option<Requests>,
}

/// All measurements, by step and target, in the order of the rounds.
#[derive(Default)]
pub struct Results {
    taken: BTreeMap<(String, String), Vec<Taken>>,
    /// By target: the cost of its transport alone.
    floors: BTreeMap<String, Vec<Floor>>,
}

impl Results {
    fn add(&mut self, step: &str, target: &str, taken: Taken) {
        self.taken
            .entry((step.to_owned(), target.to_owned()))
            .or_default()
            .push(taken);
    }

    pub fn of(&self, step: &str, target: &str) -> &[Taken] {
        self.taken
            .get(&(step.to_owned(), target.to_owned()))
            .map_or(&[], Vec::as_slice)
    }

    pub fn floor(&self, target: &str) -> Option<Floor> {
        self.floors.get(target).map(|floors| Floor::median(floors))
    }
}

/// Between the rounds, so that the machine is as busy as it is for the steps.
fn measure_floors(targets: &[Target], results: &mut Results) -> Result<()> {
    let mut measured: BTreeMap<(&str, bool), Floor> = BTreeMap::new();
    for target in targets {
        let Some(transport) = target.transport() else {
            continue;
        };
        let key = (transport, target.user.is_some());
        let floor = match measured.get(&key) {
            Some(floor) => *floor,
            None => as_user(target.user, || Floor::measure(transport))
                .with_context(|| format!("the floor of {}", target.label))?,
        };
        measured.insert(key, floor);
        results
            .floors
            .entry(target.label.clone())
            .or_default()
            .push(floor);
    }
    Ok(())
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
        as_user(target.user, || {
            // An interrupted run may have left it.
            _ = std::fs::remove_dir_all(target.dir.join(&place));
            std::fs::create_dir(target.dir.join(&place))
                .with_context(|| format!("making {place} in {}", target.dir.display()))
        })?;
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
            if step.needs_home && target.user.is_some() {
                continue;
            }
            let taken = one_step(step, target, &place, supplies)
                .with_context(|| format!("{} in {}", step.name, target.label))?;
            results.add(step.name, &target.label, taken);
        }
    }
    for target in targets.iter() {
        as_user(target.user, || {
            Ok(std::fs::remove_dir_all(target.dir.join(&place))?)
        })?;
    }
    Ok(())
}

fn one_step(step: &Step, target: &mut Target, place: &str, supplies: &Supplies) -> Result<Taken> {
    let dir = target.dir.join(place);
    match step.before {
        Before::Nothing => {}
        Before::Once => _ = as_user(target.user, || (step.work)(&dir, supplies))?,
        Before::Forget => target.forget()?,
    }
    let before = target.requests()?;
    let (operations, time) = as_user(target.user, || {
        let start = Instant::now();
        let operations = (step.work)(&dir, supplies)?;
        Ok((operations, start.elapsed()))
    })?;
    let requests = before
        .zip(target.requests()?)
        .map(|(before, after)| after.since(&before));
    Ok(Taken {
        time,
        operations,
        requests,
    })
}

/// Runs a script that must succeed.
fn shell(dir: &Path, script: &str) -> Result<Option<u64>> {
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", script]).current_dir(dir);
    bash.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env_remove("CARGO_TARGET_DIR");
    let output = bash.stdin(Stdio::null()).output()?;
    ensure!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(None)
}
