//! Large files: sparse ones, a small change in one, and a long stream of writes.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::many_files::{megabytes, millis};
use super::site::{Mount, Site};
use super::{Options, Report};
use crate::bench::measure::{Fsync, disk_bytes};

const GIB: u64 = 1 << 30;
const PIECE: usize = 1 << 20;

pub fn measure(site: &Site, options: &Options, report: &mut Report) -> Result<()> {
    sparse(site, report)?;
    small_change(site, report)?;
    stream(site, options.write_gib, report)
}

fn sparse(site: &Site, report: &mut Report) -> Result<()> {
    const SIZE: u64 = 20 * GIB;
    let mount = site.mount_new("sparse")?;
    let file = File::create_new(mount.path("sparse"))?;
    file.set_len(SIZE)?;
    let places: Vec<u64> = (0..5).map(|part| part * 4 * GIB + 12_345).collect();
    places
        .iter()
        .try_for_each(|place| file.write_all_at(&[b'x'; 4096], *place))?;
    drop(file);
    let took = site.avfs(&["--vault", "sparse", "checkpoint", "save", "sparse"])?;
    report.add_with_goal("snapshot of a sparse file of 20 GiB", millis(took), "ms", 100.0);
    let file = File::open(mount.path("sparse"))?;
    let room = file.metadata()?.blocks() * 512;
    report.add_with_goal("  its room, as du shows it", room as f64 / 1024.0, "KiB", 1024.0);
    let mut around = [1; 4116];
    for place in places {
        file.read_exact_at(&mut around, place - 10)?;
        let expected = [&[0; 10][..], &[b'x'; 4096], &[0; 10]].concat();
        ensure!(around[..] == expected, "other bytes were read");
    }
    Ok(())
}

fn small_change(site: &Site, report: &mut Report) -> Result<()> {
    let mount = site.mount_new("gib")?;
    write(&mount, "large", GIB)?;
    site.avfs(&["--vault", "gib", "checkpoint", "save", "all"])?;
    drop(mount);
    let took = site.avfs(&["vault", "fork", "gib", "gib-fork"])?;
    report.add("fork of a vault with a file of 1 GiB", millis(took), "ms");
    let mount = site.mount("gib-fork")?;
    let (mut writes, mut snapshots, mut fsyncs) = (Vec::new(), Vec::new(), Vec::new());
    let yardstick = Fsync::new(&site.home)?;
    for run in 0..5 {
        let start = Instant::now();
        let file = File::options().write(true).open(mount.path("large"))?;
        file.write_all_at(&[run as u8 + 1; 4096], run * 200_000_000 + 4096)?;
        file.sync_all()?;
        writes.push(start.elapsed());
        let save = || site.avfs(&["--vault", "gib-fork", "checkpoint", "save", &format!("c{run}")]);
        let saved = yardstick.beside(save)?;
        snapshots.push(saved.time);
        fsyncs.push(saved.fsync);
    }
    report.add_with_goal(
        "4 KiB in 1 GiB after a fork, with fsync",
        millis(middle(writes)),
        "ms",
        20.0,
    );
    report.add_with_goal("  and its snapshot", millis(middle(snapshots)), "ms", 20.0);
    report.add("  one fsync of the host meanwhile", millis(middle(fsyncs)), "ms");
    Ok(())
}

/// Writes continuously while the size of the journal is monitored.
fn stream(site: &Site, gib: u64, report: &mut Report) -> Result<()> {
    let mount = site.mount_new("stream")?;
    let work = site.home.join("work");
    let (is_over, longest) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                // Journals disappear while they are counted.
                longest.fetch_max(disk_bytes(&work).unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let written = (0..gib).try_for_each(|part| write(&mount, &format!("part{part}"), GIB));
        is_over.store(true, Ordering::Release);
        written
    })?;
    let took = start.elapsed().as_secs_f64();
    report.add(
        format!("writing {gib} GiB"),
        (gib << 30) as f64 / 1e6 / took,
        "MB/s",
    );
    report.add_with_goal(
        "  most memory",
        megabytes(mount.served()?.memory()?.peak),
        "MB",
        200.0,
    );
    report.add("  most journal", longest.into_inner() as f64 / 1e6, "MB");
    let start = Instant::now();
    while disk_bytes(&work)? > 1 << 20 {
        ensure!(
            start.elapsed() < Duration::from_secs(120),
            "the journal stays on the disk"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    report.add("  until the journal is gone", start.elapsed().as_secs_f64(), "s");
    Ok(())
}

/// Bytes that no two pieces share.
fn write(mount: &Mount<'_>, name: &str, len: u64) -> Result<()> {
    let mut piece = vec![0; PIECE];
    let mut stream = blake3::Hasher::new().update(name.as_bytes()).finalize_xof();
    stream.fill(&mut piece);
    let mut file = File::create(mount.path(name))?;
    for number in 0..len / PIECE as u64 {
        for chunk in piece.chunks_mut(4096) {
            chunk[..8].copy_from_slice(&number.to_le_bytes());
        }
        file.write_all(&piece)?;
    }
    Ok(())
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
