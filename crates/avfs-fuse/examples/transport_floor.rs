//! What requests cost when serving them costs nothing, over each transport in turn:
//! `transport_floor [runs] [rounds]`. Prints, for each operation, the median of the runs' medians and the best
//! of them, in microseconds.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use avfs_fuse::mounting::{MountOptions, Unmount, mount, unmount};
use avfs_fuse::null::NullFilesystem;
use avfs_fuse::transport::{Serving, ServingOptions, Transport};
use avfs_fuse::{Session, Settings};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The name of an operation, and how long it took in one run.
type Measured = (&'static str, Duration);

const TRANSPORTS: [Transport; 2] = [Transport::Device, Transport::Uring];

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse());
    let runs = arguments.next().transpose()?.unwrap_or(5);
    let rounds = arguments.next().transpose()?.unwrap_or(10_000);
    let mut results = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for (transport, results) in TRANSPORTS.into_iter().zip(&mut results) {
            results.push(run(transport, rounds)?);
        }
    }
    report(&format!("{:28} {:>10} {:>10} {:>10} {:>10}", "µs", "device", "best", "io_uring", "best"));
    for operation in 0..results[0][0].len() {
        let [(half, best), (ring_half, ring_best)] = results.each_ref().map(|runs| summary(runs, operation));
        let name = results[0][0][operation].0;
        report(&format!("{name:28} {half:10.2} {best:10.2} {ring_half:10.2} {ring_best:10.2}"));
    }
    Ok(())
}

fn run(transport: Transport, rounds: usize) -> Outcome<Vec<Measured>> {
    let mut results = mounted(transport, NullFilesystem::default(), |at| measure_uncached(at, rounds))?;
    let mut cached = NullFilesystem::default();
    cached.cached = true;
    results.extend(mounted(transport, cached, |at| measure_cached(at, rounds))?);
    Ok(results)
}

fn mounted<T>(
    transport: Transport,
    null: NullFilesystem,
    measure: impl FnOnce(&Path) -> Outcome<T>,
) -> Outcome<T> {
    let directory = tempfile::tempdir()?;
    let connection = mount(directory.path(), &MountOptions::new("floor"))?;
    let log: avfs_fuse::Log = Arc::new(report);
    let session = Session::new(Arc::new(null), Settings { log, ..Settings::default() });
    let options = ServingOptions { transport, ..ServingOptions::default() };
    let serving = Serving::start(Arc::new(session), connection, options)?;
    let outcome = measure(directory.path());
    unmount(directory.path(), Unmount::Detach)?;
    serving.wait();
    outcome
}

fn measure_uncached(at: &Path, rounds: usize) -> Outcome<Vec<Measured>> {
    let missing = at.join("nothing");
    let mut results = vec![median("lookup of nothing", rounds, || {
        let _ = std::fs::symlink_metadata(&missing);
        Ok(())
    })?];
    results.push(median("getattr", rounds, || std::fs::symlink_metadata(at).map(drop))?);
    let file = File::create(at.join("new"))?;
    let (mut offset, block) = (0, [7; 4096]);
    results.push(median("write of 4 KiB", rounds, || {
        offset += 4096;
        file.write_all_at(&block, offset)
    })?);
    let zeros = at.join("file");
    let mut buffer = vec![0; 1 << 20];
    results.push(median("open, read 4 KiB, close", rounds / 4, || {
        File::open(&zeros)?.read_exact_at(&mut buffer[..4096], 0)
    })?);
    // Each piece only once: afterwards the kernel has it.
    let (zeros, mut offset) = (File::open(&zeros)?, 1 << 20);
    results.push(median("read of 1 MiB", 60, || {
        offset += 1 << 20;
        zeros.read_exact_at(&mut buffer, offset)
    })?);
    results.push(two_at_once(at, rounds)?);
    Ok(results)
}

/// Only what was created can be unlinked without being looked up, which finds nothing.
fn measure_cached(at: &Path, rounds: usize) -> Outcome<Vec<Measured>> {
    let new = at.join("new");
    let created = median("create, close, unlink", rounds / 4, || {
        File::create(&new)?;
        std::fs::remove_file(&new)
    })?;
    Ok(vec![created])
}

fn two_at_once(at: &Path, rounds: usize) -> Outcome<Measured> {
    let work = || median("getattr, two at once", rounds, || std::fs::symlink_metadata(at).map(drop));
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let (one, other) = (work()?, other.join().map_err(|_| "the other thread failed")??);
        Ok(one.max(other))
    })
}

fn median(
    what: &'static str,
    rounds: usize,
    mut operation: impl FnMut() -> std::io::Result<()>,
) -> std::io::Result<Measured> {
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let started = Instant::now();
        operation()?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    Ok((what, times[rounds / 2]))
}

/// The median and the best of all runs, in microseconds.
fn summary(runs: &[Vec<Measured>], operation: usize) -> (f64, f64) {
    let mut times: Vec<Duration> = runs.iter().map(|run| run[operation].1).collect();
    times.sort_unstable();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    (micros(times[times.len() / 2]), micros(times[0]))
}

#[allow(clippy::print_stdout, reason = "this is what the example is for")]
fn report(line: &str) {
    println!("{line}");
}
