//! The value of each negotiated option: the same work in a mount with it and in one without, in requests and
//! in time.

mod mounted;
mod work;

use std::process::ExitCode;
use std::time::Duration;

use agentvfs::mount::Transport;
use anyhow::{Context, Result, bail, ensure};
use avfs_fuse::abi::flags::init;

use self::mounted::{Lacking, Mounted};
use self::work::Work;

const USAGE: &str = "usage: cargo xtask bench options [--rounds N] [--transport device|uring]
(for numbers to keep, `cargo run --release -p xtask -- bench options`: the mounts are served by this program)";

/// One option, and work that benefits from it.
struct Trial {
    name: &'static str,
    lacking: Lacking,
    work: &'static Work,
}

const TRIALS: &[Trial] = &[
    Trial {
        name: "HANDLE_KILLPRIV_V2",
        lacking: Lacking::Flags(init::HANDLE_KILLPRIV_V2),
        work: &work::SMALL_WRITES,
    },
    Trial {
        name: "readdirplus",
        lacking: Lacking::Flags(init::DO_READDIRPLUS | init::READDIRPLUS_AUTO),
        work: &work::LONG_LISTING,
    },
    Trial {
        name: "readdirplus, automatic",
        lacking: Lacking::Flags(init::READDIRPLUS_AUTO),
        work: &work::NAMES,
    },
    Trial {
        name: "missing names kept",
        lacking: Lacking::MissingNames,
        work: &work::MISSING_NAME,
    },
    Trial {
        name: "BIG_WRITES",
        lacking: Lacking::Flags(init::BIG_WRITES),
        work: &work::LARGE_WRITE,
    },
    Trial {
        name: "MAX_PAGES",
        lacking: Lacking::Flags(init::MAX_PAGES),
        work: &work::LARGE_WRITE,
    },
    Trial {
        name: "MAX_PAGES",
        lacking: Lacking::Flags(init::MAX_PAGES),
        work: &work::LARGE_READ,
    },
    Trial {
        name: "ASYNC_READ",
        lacking: Lacking::Flags(init::ASYNC_READ),
        work: &work::LARGE_READ,
    },
    Trial {
        name: "ASYNC_DIO",
        lacking: Lacking::Flags(init::ASYNC_DIO),
        work: &work::DIRECT_READ,
    },
    Trial {
        name: "CACHE_SYMLINKS",
        lacking: Lacking::Flags(init::CACHE_SYMLINKS),
        work: &work::LINKS,
    },
    Trial {
        name: "PARALLEL_DIROPS",
        lacking: Lacking::Flags(init::PARALLEL_DIROPS),
        work: &work::TWO_IN_A_DIRECTORY,
    },
    Trial {
        name: "no open (past)",
        lacking: Lacking::OpeningWithoutAsking,
        work: &work::SMALL_READS,
    },
    Trial {
        name: "alone",
        lacking: Lacking::BeingAlone,
        work: &work::SMALL_READS,
    },
    Trial {
        name: "alone",
        lacking: Lacking::BeingAlone,
        work: &work::NEW_FILES,
    },
    Trial {
        name: "alone",
        lacking: Lacking::BeingAlone,
        work: &work::APPENDS,
    },
    Trial {
        name: "giving way",
        lacking: Lacking::GivingWay,
        work: &work::SMALL_READS,
    },
    Trial {
        name: "giving way",
        lacking: Lacking::GivingWay,
        work: &work::NEW_FILES,
    },
    Trial {
        name: "giving way",
        lacking: Lacking::GivingWay,
        work: &work::APPENDS,
    },
];

struct Options {
    rounds: usize,
    transport: Transport,
}

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments)?;
    println!(
        "{:<24}{:<44}{:>12}{:>12}{:>12}{:>12}",
        "", "work", "requests", "without", "µs", "without"
    );
    for trial in TRIALS {
        report(trial, &options).with_context(|| format!("{} for {}", trial.name, trial.work.name))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        rounds: 5,
        transport: Transport::Auto,
    };
    for pair in arguments.chunks(2) {
        match pair {
            [flag, value] if flag == "--rounds" => options.rounds = value.parse()?,
            [flag, value] if flag == "--transport" => {
                let known = Transport::ALL
                    .into_iter()
                    .find(|transport| transport.as_str() == value);
                options.transport = known.with_context(|| format!("no transport '{value}'"))?;
            }
            _ => bail!("{USAGE}"),
        }
    }
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    Ok(options)
}

/// The two mounts take turns, each recreated for every round.
fn report(trial: &Trial, options: &Options) -> Result<()> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        with.push(once(trial.work, &trial.lacking.nothing(), options.transport)?);
        without.push(once(trial.work, &trial.lacking, options.transport)?);
    }
    let [with, without] = [with, without].map(median);
    println!(
        "{:<24}{:<44}{:>12}{:>12}{:>12.0}{:>12.0}",
        trial.name,
        trial.work.name,
        with.0,
        without.0,
        with.1.as_secs_f64() * 1e6,
        without.1.as_secs_f64() * 1e6
    );
    Ok(())
}

fn once(work: &Work, lacking: &Lacking, transport: Transport) -> Result<(u64, Duration)> {
    let mounted = Mounted::new(lacking, transport)?;
    (work.prepare)(mounted.path())?;
    let taken = mounted.measure(work.act)?;
    mounted.end()?;
    Ok(taken)
}

fn median(mut rounds: Vec<(u64, Duration)>) -> (u64, Duration) {
    rounds.sort_unstable_by_key(|(_, time)| *time);
    rounds[rounds.len() / 2]
}
