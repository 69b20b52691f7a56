//! The processes of a session, as the host sees them: which is the shell, and which belong to the command of a turn.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::time::ClockId;

/// What is to be known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    /// In ticks since the system was started.
    started: u64,
}

/// This moment, as processes are dated.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Boottime);
    let ticks = rustix::param::clock_ticks_per_second();
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * ticks + nanos * ticks / 1_000_000_000
}

/// The process below this one whose standard input is that pipe: the shell, before its first command.
pub(super) fn reader_of(pipe: u64) -> Option<Pid> {
    let wanted = format!("pipe:[{pipe}]");
    let all = processes();
    let reads = |pid: &i32| {
        fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|link| link.as_os_str() == wanted.as_str())
    };
    let own = getpid().as_raw_pid();
    // The first process inside may have it too, to hand it on.
    let mut found: Vec<i32> =
        all.keys().copied().filter(|pid| is_below(&all, *pid, own)).filter(reads).collect();
    found.sort_by_key(|pid| depth(&all, *pid));
    Pid::from_raw(found.pop()?)
}

/// What is there before a command: the moment alone would not do, because many processes start in one tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Earlier {
    moment: u64,
    /// The jobs of earlier commands: children of the shell, and of the first process if their parents have ended.
    jobs: BTreeSet<i32>,
}

impl Earlier {
    /// What there is now, below the shell if it is known.
    pub(super) fn now(shell: Option<Pid>) -> Earlier {
        let jobs = shell.map(|shell| shell.as_raw_pid()).into_iter().flat_map(|shell| {
            let first = process(shell).map(|process| process.parent);
            [Some(shell), first].into_iter().flatten().flat_map(children).filter(move |job| *job != shell)
        });
        Earlier { moment: now(), jobs: jobs.collect() }
    }
}

/// Sends a signal to everything that was started later, and to what that has started.
pub(super) fn signal_later(shell: Pid, earlier: &Earlier, signal: Signal) {
    for pid in started_later(&processes(), shell.as_raw_pid(), earlier) {
        if let Some(pid) = Pid::from_raw(pid) {
            // It may have ended meanwhile.
            kill_process(pid, signal).ok();
        }
    }
}

/// What hangs below the shell, or below the first process of the sandbox because its parent has ended. A job of an
/// earlier command stays out of it with all that it starts.
fn started_later(all: &BTreeMap<i32, Process>, shell: i32, earlier: &Earlier) -> Vec<i32> {
    let Some(first) = all.get(&shell).map(|process| process.parent) else { return Vec::new() };
    let top_of = |pid: i32| {
        let mut at = pid;
        for _ in 0..all.len() {
            let parent = all.get(&at)?.parent;
            if parent == shell || (parent == first && at != shell) {
                return all.get(&at).map(|top| (at, top.started));
            }
            at = parent;
        }
        None
    };
    let is_later = |(top, started)| started >= earlier.moment && !earlier.jobs.contains(&top);
    let is_new = |pid: &i32| top_of(*pid).is_some_and(is_later);
    all.keys().copied().filter(|pid| *pid != shell).filter(is_new).collect()
}

fn is_below(all: &BTreeMap<i32, Process>, pid: i32, above: i32) -> bool {
    let mut at = pid;
    for _ in 0..all.len() {
        match all.get(&at) {
            Some(process) if process.parent == above => return true,
            Some(process) => at = process.parent,
            None => return false,
        }
    }
    false
}

fn depth(all: &BTreeMap<i32, Process>, pid: i32) -> usize {
    let mut at = pid;
    (0..all.len()).take_while(|_| all.get(&at).map(|process| at = process.parent).is_some()).count()
}

fn processes() -> BTreeMap<i32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(|pid| Some((pid, process(pid)?))).collect()
}

fn process(pid: i32) -> Option<Process> {
    process_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The children of a process of one thread, without looking at all processes. A kernel that does not tell them leaves
/// only the moment to go by.
fn children(pid: i32) -> Vec<i32> {
    let told = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    told.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// The name in the second field is anything, also brackets: what counts is behind the last one.
fn process_of(stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Process { parent, started })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_parent_and_was_started_before_now() {
        let all = processes();
        let own = all[&getpid().as_raw_pid()];
        assert_eq!(Some(own.parent), rustix::process::getppid().map(Pid::as_raw_pid));
        assert!(own.started > 0 && own.started <= now(), "{own:?} {}", now());
    }

    #[test]
    fn jobs_of_earlier_commands_are_not_part_of_a_command() {
        let table =
            [(1, 0, 0), (10, 1, 5), (11, 10, 6), (20, 11, 50), (21, 20, 99), (30, 11, 90), (31, 30, 91)];
        let orphans = [(40, 10, 60), (41, 10, 92), (42, 41, 95)];
        let all: BTreeMap<i32, Process> = table
            .into_iter()
            .chain(orphans)
            .map(|(pid, parent, started)| (pid, Process { parent, started }))
            .collect();
        let since = |moment, jobs: &[i32]| Earlier { moment, jobs: jobs.iter().copied().collect() };
        assert_eq!(started_later(&all, 11, &since(90, &[])), [30, 31, 41, 42]);
        assert_eq!(started_later(&all, 11, &since(90, &[20, 30, 40])), [41, 42], "in the same tick");
        assert_eq!(started_later(&all, 11, &since(100, &[])), [0; 0]);
        assert_eq!(started_later(&all, 99, &since(0, &[])), [0; 0]);
    }
}
