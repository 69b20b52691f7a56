//! What the server holds: many sandboxes, large files, many listeners.

use std::io::BufRead;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::client::Site;
use super::process::{family_of, forget_peak, memory_of, peak_of, threads_of};

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

fn all_memory(site: &Site) -> Result<u64> {
    Ok(family_of(site.front())?.into_iter().map(memory_of).sum())
}

/// Sandboxes that were used once and wait for their next command.
pub fn alive(site: &Site, count: usize) -> Result<()> {
    let mut connection = site.connect()?;
    let (before, worker_before) = (all_memory(site)?, memory_of(site.worker()?));
    let start = Instant::now();
    let sandboxes = (0..count)
        .map(|_| {
            let sandbox = connection.sandbox()?;
            connection.line(&sandbox, "echo kept >file")?;
            Ok(sandbox)
        })
        .collect::<Result<Vec<String>>>()?;
    let made = start.elapsed();
    let (after, worker_after) = (all_memory(site)?, memory_of(site.worker()?));
    let processes = family_of(site.front())?.len();
    let start = Instant::now();
    let mut lost = 0;
    for sandbox in &sandboxes {
        lost += usize::from(connection.line(sandbox, "test \"$(cat file)\" = kept").is_err());
    }
    let used = start.elapsed();
    let each = |from: u64, to: u64| mib(to.saturating_sub(from)) / count as f64;
    println!(
        "{count} sandboxes alive: made and used once in {:.1} s, used again in {:.1} s, {lost} lost",
        made.as_secs_f64(),
        used.as_secs_f64()
    );
    println!(
        "memory of each: {:.2} MiB, of which {:.2} MiB in the server; {processes} processes, {} threads of the server",
        each(before, after),
        each(worker_before, worker_after),
        threads_of(site.worker()?)
    );
    for sandbox in &sandboxes {
        connection.good("DELETE", sandbox, "")?;
    }
    ensure!(lost == 0, "{lost} sandboxes do not answer any more");
    println!(
        "memory after they were deleted: {:.1} MiB more than before",
        mib(all_memory(site)?.saturating_sub(before))
    );
    Ok(())
}

/// A hundred copies of a sandbox with many files.
pub fn fork(site: &Site, files: usize) -> Result<()> {
    let mut connection = site.connect()?;
    let sandbox = connection.sandbox()?;
    let line = format!(
        "for d in $(seq 100); do mkdir $d; for f in $(seq {}); do echo $f >$d/$f; done; done",
        files / 100
    );
    connection.line(&sandbox, &line)?;
    let mut times = Vec::new();
    for _ in 0..7 {
        let start = Instant::now();
        let made = connection.good("POST", &format!("{sandbox}/forks"), r#"{"count":100}"#)?;
        times.push(start.elapsed());
        let made = made.json()?;
        for fork in made["sandboxes"].as_array().context("forks are listed")? {
            let id = fork["id"].as_str().context("a fork has an id")?;
            connection.good("DELETE", &format!("/api/v1/sandboxes/{id}"), "")?;
        }
    }
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "100 forks of a sandbox with {files} files: median {:.0} ms, {:.0} to {:.0} ms",
        ms(times[times.len() / 2]),
        ms(times[0]),
        ms(times[times.len() - 1])
    );
    connection.good("DELETE", &sandbox, "").map(drop)
}

/// A file that would not fit into a small machine's memory.
pub fn large_file(site: &Site, megabytes: usize) -> Result<()> {
    let mut connection = site.connect()?;
    let sandbox = connection.sandbox()?;
    let (path, bytes) = (format!("{sandbox}/files?path=/large"), (megabytes as u64) << 20);
    let worker = site.worker()?;
    let before = memory_of(worker);
    forget_peak(worker)?;
    let mut state = 1_u64;
    let piece = move || {
        // Bytes that cannot be stored once for all of them.
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()
        };
        std::iter::repeat_with(next).take(32 << 10).flatten().collect()
    };
    let start = Instant::now();
    connection.upload(&path, bytes, piece)?;
    let (uploaded, peak) = (start.elapsed(), peak_of(worker)?);
    println!(
        "upload of {megabytes} MiB: {:.1} s, the server's peak is {:.0} MiB above {:.0} MiB",
        uploaded.as_secs_f64(),
        mib(peak.saturating_sub(before)),
        mib(before)
    );
    let before = memory_of(worker);
    forget_peak(worker)?;
    let start = Instant::now();
    let count = connection.download(&path)?;
    ensure!(count == bytes, "{count} of {bytes} bytes came");
    println!(
        "download of {megabytes} MiB: {:.1} s, the server's peak is {:.0} MiB above {:.0} MiB",
        start.elapsed().as_secs_f64(),
        mib(peak_of(worker)?.saturating_sub(before)),
        mib(before)
    );
    connection.good("DELETE", &sandbox, "").map(drop)
}

/// Many who hear the output of one process.
pub fn listeners(site: &Site, count: usize) -> Result<()> {
    let mut connection = site.connect()?;
    let sandbox = connection.sandbox()?;
    let body = json!({ "command": "read go; seq 100", "stdin": true }).to_string();
    let started = connection
        .good("POST", &format!("{sandbox}/processes"), &body)?
        .json()?;
    let id = started["id"].as_str().context("a process has an id")?;
    let process = format!("{sandbox}/processes/{id}");
    let worker = site.worker()?;
    let before = memory_of(worker);
    let listening = (0..count)
        .map(|_| site.connect()?.follow(&format!("{process}/output")))
        .collect::<Result<Vec<_>>>()?;
    let held = memory_of(worker);
    let start = Instant::now();
    connection.good("POST", &format!("{process}/stdin?close=true"), "go\n")?;
    let mut last = Duration::ZERO;
    for listener in listening {
        let mut text = String::new();
        for line in listener.lines() {
            let line = line?;
            text.push_str(&line);
            if line.starts_with("event: end") {
                break;
            }
        }
        ensure!(text.contains("\\n100\\n"), "a listener has heard {text}");
        last = last.max(start.elapsed());
    }
    println!(
        "{count} listeners: {:.1} KiB of the server's memory each, all have heard everything after {:.0} ms",
        held.saturating_sub(before) as f64 / count as f64,
        last.as_secs_f64() * 1e3
    );
    connection.good("DELETE", &sandbox, "").map(drop)
}
