//! What a server that died could leave behind: processes, mounts and control groups.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::sandbox::Sandbox;

/// A process and everything that it has started, each with the time at which it began: numbers are given again.
pub struct Family(HashSet<(i32, u64)>);

impl Family {
    pub fn of(pid: i32) -> Family {
        let all = all_processes();
        let mut members = HashSet::from([pid]);
        loop {
            let more: Vec<i32> = all
                .iter()
                .filter(|(child, (parent, _))| members.contains(parent) && !members.contains(child))
                .map(|(child, _)| *child)
                .collect();
            if more.is_empty() {
                let begun = members.iter().filter_map(|pid| Some((*pid, all.get(pid)?.1)));
                return Family(begun.collect());
            }
            members.extend(more);
        }
    }

    pub fn is_gone(&self) -> bool {
        let all = all_processes();
        let is_there = |(pid, begun): &(i32, u64)| all.get(pid).is_some_and(|(_, time)| time == begun);
        !self.0.iter().any(is_there)
    }
}

/// The parent of each process, and when it began. One that has ended and only waits for its parent is none.
fn all_processes() -> HashMap<i32, (i32, u64)> {
    let mut all = HashMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name of the program is in brackets, and may have some itself.
        let Some((_, rest)) = stat.rsplit_once(") ") else {
            continue;
        };
        let words: Vec<&str> = rest.split(' ').collect();
        if words[0] != "Z" {
            all.insert(pid, (words[1].parse().unwrap(), words[19].parse().unwrap()));
        }
    }
    all
}

/// What is mounted of the store of a house.
pub fn mounts(house: &Sandbox) -> Vec<String> {
    let place = house.store().display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let of_house = mounts.lines().filter(|line| line.contains(&place));
    of_house.map(str::to_owned).collect()
}

/// The control groups that a process has made for its runs.
pub fn groups_of(pid: i32) -> Vec<PathBuf> {
    let begin = format!("avfs-run-{pid}-");
    let mut found = Vec::new();
    collect(Path::new("/sys/fs/cgroup"), &begin, &mut found);
    found
}

fn collect(place: &Path, begin: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with(begin) {
            found.push(entry.path());
        } else {
            collect(&entry.path(), begin, found);
        }
    }
}
