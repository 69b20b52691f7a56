//! Many concurrent sandboxes, each in a fork of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::Site;

pub(super) fn measure(site: &Site, count: usize) -> Result<()> {
    for number in 0..count {
        site.avfs_done(&["vault", "fork", "crowd", &format!("crowd-{number}")])?;
    }
    let start = Instant::now();
    let mut crowd = (0..count)
        .map(|number| begin(site, number))
        .collect::<Result<Vec<Child>>>()?;
    let alive = crowd
        .iter_mut()
        .filter_map(|child| is_up(child).then_some(child.id()))
        .collect::<Vec<u32>>();
    let took = start.elapsed();
    let (ours, all) = memory(&alive)?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20) / alive.len().max(1) as f64;
    println!("\n| {count} sandboxes at once | |\n|---|---|");
    println!("| alive | {} |", alive.len());
    println!("| lost | {} |", count - alive.len());
    println!("| until all are up | {:.2} s |", took.as_secs_f64());
    println!("| memory of each, `avfs` alone | {:.1} MiB |", mib(ours));
    println!("| with everything in its sandbox | {:.1} MiB |", mib(all));
    let ended = crowd
        .into_iter()
        .map(end)
        .filter(|ended| matches!(ended, Ok(true)))
        .count();
    println!("| ended in order | {ended} |");
    Ok(())
}

fn begin(site: &Site, number: usize) -> Result<Child> {
    let fork = format!("crowd-{number}");
    let mut command = site.avfs(&["exec", "--vault", &fork, "-c", "echo up; exec sleep 3600"]);
    Ok(command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?)
}

/// Its command has begun, or it has ended without output.
fn is_up(child: &mut Child) -> bool {
    let mut line = String::new();
    let read = child
        .stdout
        .as_mut()
        .map(|stdout| BufReader::new(stdout).read_line(&mut line));
    matches!(read, Some(Ok(_))) && line == "up\n"
}

/// Whether it ended by the signal that it was sent, which ends its command first.
fn end(mut child: Child) -> Result<bool> {
    let pid = Pid::from_raw(child.id().try_into()?).context("a process has a number")?;
    // A sandbox that is gone already was counted as lost.
    let _ = kill_process(pid, Signal::TERM);
    Ok(child.wait()?.code() == Some(128 + Signal::TERM.as_raw()))
}

/// For these processes alone, and with all their descendants. Shared memory is divided among its users.
fn memory(processes: &[u32]) -> Result<(u64, u64)> {
    let children = children()?;
    let (mut ours, mut all) = (0, 0);
    for process in processes {
        let own = proportional(*process);
        ours += own;
        all += own;
        let mut below = children.get(process).cloned().unwrap_or_default();
        while let Some(next) = below.pop() {
            all += proportional(next);
            below.extend(children.get(&next).into_iter().flatten());
        }
    }
    Ok((ours, all))
}

fn children() -> Result<BTreeMap<u32, Vec<u32>>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let numbers = std::fs::read_dir("/proc")?.flatten();
    for pid in numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    Ok(children)
}

/// Zero for a process that has ended meanwhile.
fn proportional(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
