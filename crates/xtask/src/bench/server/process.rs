//! What the kernel says of the server and of everything that it has started.

use std::collections::HashMap;

use anyhow::{Context, Result};

/// Memory in KiB: what is shared by several processes is counted in parts, so that sums are right.
pub fn memory_of(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(first_number).unwrap_or(0)
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// A process and all its descendants.
pub fn family_of(pid: u32) -> Result<Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        // The name of the program, in brackets, may have spaces.
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
        if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(member) = family.get(next) {
        family.extend(children.get(member).into_iter().flatten());
        next += 1;
    }
    Ok(family)
}

/// Begins to look for the most memory that a process has.
pub fn forget_peak(pid: u32) -> Result<()> {
    Ok(std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// The most memory that it had since, in KiB.
pub fn peak_of(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(first_number).context("the kernel tells no peak")
}

/// How many threads it has.
pub fn threads_of(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}
