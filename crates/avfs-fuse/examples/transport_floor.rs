//! Measures the cost of requests that need no serving, over each transport in turn: `transport_floor [runs]
//! [rounds]`. Prints, for each operation, the number of its requests, and in microseconds the median over the
//! runs of their medians, the best of them, and the median per request.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use avfs_fuse::mounting::{FuseMountOptions, UnmountMode, mount, unmount};
use avfs_fuse::null::NullFilesystem;
use avfs_fuse::transport::{FuseServing, ServingOptions, Transport};
use avfs_fuse::{FuseSession, SessionSettings};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const TRANSPORTS: [(&str, Transport); 2] = [("device", Transport::Device), ("io_uring", Transport::Uring)];

/// One operation in one run.
struct Measured {
    name: &'static str,
    median: Duration,
    /// The number of its requests.
    requests: f64,
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse());
    let runs = arguments.next().transpose()?.unwrap_or(5);
    let rounds = arguments.next().transpose()?.unwrap_or(10_000);
    let mut results = TRANSPORTS.map(|_| Vec::new());
    for _ in 0..runs {
        for ((_, transport), results) in TRANSPORTS.into_iter().zip(&mut results) {
            results.push(run(transport, rounds)?);
        }
    }
    for ((name, _), results) in TRANSPORTS.into_iter().zip(&results) {
        report(&format!(
            "{name:28} {:>8} {:>10} {:>10} {:>10}",
            "requests", "median", "best", "a request"
        ));
        (0..results[0].len()).for_each(|operation| report(&summary(results, operation)));
    }
    Ok(())
}

fn summary(runs: &[Vec<Measured>], operation: usize) -> String {
    let mut times: Vec<f64> = runs
        .iter()
        .map(|run| run[operation].median.as_secs_f64() * 1e6)
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    let Measured { name, requests, .. } = runs[0][operation];
    let half = times[times.len() / 2];
    let best = times[0];
    format!(
        "{name:28} {requests:8.1} {half:10.2} {best:10.2} {:10.2}",
        half / requests
    )
}

fn run(transport: Transport, rounds: usize) -> Outcome<Vec<Measured>> {
    let mut results = mounted(transport, false, |bench| measure_uncached(bench, rounds))?;
    results.extend(mounted(transport, true, |bench| measure_cached(bench, rounds))?);
    Ok(results)
}

fn mounted<T>(
    transport: Transport,
    cached: bool,
    measure: impl FnOnce(&Bench<'_>) -> Outcome<T>,
) -> Outcome<T> {
    let directory = tempfile::tempdir()?;
    let connection = mount(directory.path(), &FuseMountOptions::new("floor"))?;
    let log: avfs_fuse::SessionLog = Arc::new(report);
    let mut null = NullFilesystem::default();
    null.cached = cached;
    let session = Arc::new(FuseSession::new(
        Arc::new(null),
        SessionSettings {
            log,
            ..SessionSettings::default()
        },
    ));
    let options = ServingOptions {
        transport,
        ..ServingOptions::default()
    };
    let serving = FuseServing::start(session.clone(), connection, options)?;
    let outcome = measure(&Bench {
        at: directory.path(),
        session: &session,
    });
    unmount(directory.path(), UnmountMode::Detach)?;
    serving.wait();
    outcome
}

fn measure_uncached(bench: &Bench<'_>, rounds: usize) -> Outcome<Vec<Measured>> {
    let missing = bench.at.join("nothing");
    let at = bench.at;
    let mut results = vec![bench.median("stat of nothing", rounds, || {
        let _ = std::fs::symlink_metadata(&missing);
        Ok(())
    })?];
    results.push(bench.median("stat", rounds, || std::fs::symlink_metadata(at).map(drop))?);
    let file = File::create(at.join("new"))?;
    let mut offset = 0;
    let block = [7; 4096];
    results.push(bench.median("write of 4 KiB", rounds, || {
        offset += 4096;
        file.write_all_at(&block, offset)
    })?);
    let zeros = at.join("file");
    let mut buffer = vec![0; 1 << 20];
    results.push(bench.median("open, read 4 KiB, close", rounds / 4, || {
        File::open(&zeros)?.read_exact_at(&mut buffer[..4096], 0)
    })?);
    // Each piece only once: afterwards the kernel has it cached.
    let zeros = File::open(&zeros)?;
    let mut offset = 1 << 20;
    results.push(bench.median("read of 1 MiB", 60, || {
        offset += 1 << 20;
        zeros.read_exact_at(&mut buffer, offset)
    })?);
    results.push(two_at_once(bench, rounds)?);
    Ok(results)
}

/// Only a newly created file can be unlinked without a lookup, and a lookup finds nothing here.
fn measure_cached(bench: &Bench<'_>, rounds: usize) -> Outcome<Vec<Measured>> {
    let new = bench.at.join("new");
    let created = bench.median("create, close, unlink", rounds / 4, || {
        File::create(&new)?;
        std::fs::remove_file(&new)
    })?;
    Ok(vec![created])
}

fn two_at_once(bench: &Bench<'_>, rounds: usize) -> Outcome<Measured> {
    let work = || {
        bench.median("stat, two at once", rounds, || {
            std::fs::symlink_metadata(bench.at).map(drop)
        })
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let one = work()?;
        let other = other.join().map_err(|_| "the other thread failed")??;
        Ok(Measured {
            median: one.median.max(other.median),
            requests: 1.0,
            ..one
        })
    })
}

/// A mount to measure.
struct Bench<'a> {
    at: &'a Path,
    session: &'a FuseSession,
}

impl Bench<'_> {
    fn median(
        &self,
        name: &'static str,
        rounds: usize,
        mut operation: impl FnMut() -> std::io::Result<()>,
    ) -> std::io::Result<Measured> {
        let before = self.session.counters().total();
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let started = Instant::now();
            operation()?;
            times.push(started.elapsed());
        }
        let requests = (self.session.counters().total() - before) as f64 / rounds as f64;
        times.sort_unstable();
        Ok(Measured {
            name,
            median: times[rounds / 2],
            requests,
        })
    }
}

#[allow(clippy::print_stdout, reason = "this is what the example is for")]
fn report(line: &str) {
    println!("{line}");
}
