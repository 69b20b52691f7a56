//! One directory of many files: an operation in it costs as much as in a small one, also while a snapshot is
//! being taken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use super::many_files::{megabytes, millis};
use super::site::{Mount, Site};
use super::{Options, Report};

const VAULT: &str = "directory";
/// How many operations are measured, at the beginning and at the end.
const SOME: usize = 5_000;

pub fn measure(site: &Site, options: &Options, report: &mut Report) -> Result<()> {
    let count = options.directory;
    let mount = site.mount_new(VAULT)?;
    for dir in ["large", "probe"] {
        std::fs::create_dir(mount.path(dir))?;
    }
    measured(&mount, "creating among few", report, || create(&mount, 0..SOME))?;
    create(&mount, SOME..count - SOME)?;
    measured(&mount, &format!("creating among {count}"), report, || {
        create(&mount, count - SOME..count)
    })?;
    snapshot_meanwhile(site, &mount, count, report)?;
    let start = Instant::now();
    ensure!(
        std::fs::read_dir(mount.path("large"))?.count() == count,
        "names are missing"
    );
    report.add(format!("listing {count} names"), millis(start.elapsed()), "ms");
    let remove = || (0..SOME).try_for_each(|index| Ok(std::fs::remove_file(mount.path(&name(index)))?));
    measured(&mount, &format!("removing among {count}"), report, remove)
}

fn name(index: usize) -> String {
    format!("large/file{index:07}")
}

fn create(mount: &Mount<'_>, which: std::ops::Range<usize>) -> Result<()> {
    which.into_iter().try_for_each(|index| mount.create(&name(index)))
}

fn measured(
    mount: &Mount<'_>,
    what: &str,
    report: &mut Report,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let before = mount.served()?;
    let start = Instant::now();
    work()?;
    let each = start.elapsed().as_secs_f64() * 1e6 / SOME as f64;
    let after = mount.served()?;
    report.add(format!("{what}, each"), each, "µs");
    after.since(&before).report(what, report);
    Ok(())
}

/// Takes a snapshot of everything while another client works.
fn snapshot_meanwhile(site: &Site, mount: &Mount<'_>, count: usize, report: &mut Report) -> Result<()> {
    let before = mount.served()?;
    let is_over = AtomicBool::new(false);
    let (took, longest) = std::thread::scope(|scope| {
        let client = scope.spawn(|| probe(mount, &is_over));
        let took = site.avfs(&["--vault", VAULT, "checkpoint", "save", "all"]);
        is_over.store(true, Ordering::Release);
        let longest = client.join().map_err(|_| anyhow!("a client panicked"))?;
        anyhow::Ok((took?, longest?))
    })?;
    let after = mount.served()?;
    report.add(format!("snapshot of {count} new files"), millis(took), "ms");
    report.add("  longest wait of another client", millis(longest), "ms");
    report.add("  most memory", megabytes(after.memory()?.peak), "MB");
    after.since(&before).report("serving meanwhile", report);
    Ok(())
}

/// Creates files until it is over; returns the longest duration of one.
fn probe(mount: &Mount<'_>, is_over: &AtomicBool) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for index in 0.. {
        if is_over.load(Ordering::Acquire) {
            break;
        }
        let start = Instant::now();
        mount.create(&format!("probe/file{index}"))?;
        longest = longest.max(start.elapsed());
    }
    Ok(longest)
}
