//! A vault of many files: mounting it, leaving it idle, walking it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::site::{Mount, Site};
use super::{Options, Report, archive};

const VAULT: &str = "many";

pub fn measure(site: &Site, options: &Options, report: &mut Report) -> Result<()> {
    let files = options.files;
    let site = filled(site, files)?;
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(site.mount(VAULT)?.took);
    }
    times.sort();
    report.add_with_goal(format!("mounting {files} files"), millis(times[2]), "ms", 20.0);
    let mount = site.mount(VAULT)?;
    let idle = mount.served()?.memory()?;
    report.add_with_goal(
        format!("idle mount of {files} files"),
        megabytes(idle.resident),
        "MB",
        15.0,
    );
    report.add("  of which not the program itself", megabytes(idle.own), "MB");
    stat_some(&mount, files, report)?;
    walk(&mount, files, idle.resident, report)
}

/// The store with the vault, filled on first use.
fn filled(site: &Site, files: usize) -> Result<Site> {
    let site = site.kept(&format!("scale-{files}-files"))?;
    let done = site.home.with_extension("done");
    if !done.exists() {
        eprintln!("filling a vault with {files} files");
        _ = site.avfs(&["vault", "delete", VAULT, "--yes"]);
        site.avfs(&["vault", "create", VAULT])?;
        site.feed(&["--vault", VAULT, "import", "-"], |out| {
            archive::write(files, out)
        })?;
        std::fs::write(done, "")?;
    }
    Ok(site)
}

/// Files from all over the vault, by name, for the first time and opened.
fn stat_some(mount: &Mount<'_>, files: usize, report: &mut Report) -> Result<()> {
    let before = mount.served()?;
    let step = (files / 10_000).max(1);
    for index in (0..files).step_by(step) {
        ensure!(
            std::fs::metadata(mount.path(&archive::path(index)))?.len() > 0,
            "an empty file"
        );
    }
    let requests = mount.served()?.since(&before);
    requests.report(&format!("stat of 10000 among {files} files, cold"), report);
    let before = mount.served()?;
    for index in (0..files).step_by(step) {
        std::fs::read(mount.path(&archive::path(index)))?;
    }
    mount.served()?.since(&before).report("reading those", report);
    Ok(())
}

fn walk(mount: &Mount<'_>, files: usize, idle: u64, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    ensure!(find(&mount.dir)? == files, "find does not find all files");
    report.add(
        format!("find -size +0 of {files} files, cold"),
        start.elapsed().as_secs_f64(),
        "s",
    );
    let known = mount.served()?.memory()?;
    let each = known.resident.saturating_sub(idle) as f64 / files as f64;
    // Caches have a fixed size: with fewer files they would outweigh the inodes.
    if files >= 1_000_000 {
        report.add_with_goal(
            "memory for each known inode, caches included",
            each,
            "bytes",
            250.0,
        )
    } else {
        report.add("memory for each known inode, caches included", each, "bytes")
    }
    let start = Instant::now();
    find(&mount.dir)?;
    report.add(
        format!("find -size +0 of {files} files, again"),
        start.elapsed().as_secs_f64(),
        "s",
    );
    Ok(())
}

fn find(dir: &Path) -> Result<usize> {
    let mut find = Command::new("find");
    let found = find.arg(dir).args(["-type", "f", "-size", "+0", "-printf", "x"]);
    Ok(found.stdin(Stdio::null()).output()?.stdout.len())
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
