//! The processes of a session, as the host sees them: which one is the shell, and which belong to the command
//! of a turn.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::time::ClockId;

/// The relevant properties of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessAge {
    parent: i32,
    /// In ticks since the system was started.
    started: u64,
}

/// The current time, in the unit of process start times.
fn now() -> u64 {
    // The kernel counts start times from boot, including the time that the machine was suspended.
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
    // The first process inside may have it too, in order to pass it on.
    let mut found: Vec<i32> = all
        .keys()
        .copied()
        .filter(|pid| is_below(&all, *pid, own))
        .filter(reads)
        .collect();
    // The deepest one is the shell: those above it only passed the pipe on.
    found.sort_by_key(|pid| depth(&all, *pid));
    Pid::from_raw(found.pop()?)
}

/// The processes that exist before a command. The time alone is not sufficient, because many processes start
/// in one tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EarlierProcesses {
    moment: u64,
    /// The jobs of earlier commands: children of the shell, and of the first process if their parents have ended.
    jobs: BTreeSet<i32>,
}

impl EarlierProcesses {
    /// The current processes, below the shell if it is known.
    pub(super) fn now(shell: Option<Pid>) -> EarlierProcesses {
        let jobs = shell
            .map(|shell| shell.as_raw_pid())
            .into_iter()
            .flat_map(|shell| {
                let first = process(shell).map(|process| process.parent);
                [Some(shell), first]
                    .into_iter()
                    .flatten()
                    .flat_map(children)
                    .filter(move |job| *job != shell)
            });
        EarlierProcesses {
            moment: now(),
            jobs: jobs.collect(),
        }
    }
}

/// Sends a signal to every process that was started later, and to its descendants.
pub(super) fn signal_later(shell: Pid, earlier: &EarlierProcesses, signal: Signal) {
    for pid in started_later(&processes(), shell.as_raw_pid(), earlier) {
        if let Some(pid) = Pid::from_raw(pid) {
            // It may have ended meanwhile.
            kill_process(pid, signal).ok();
        }
    }
}

/// Whether the shell has a child of this command that is not a background job. Without job control, bash
/// starts background jobs with interrupts ignored, which distinguishes them.
pub(super) fn has_foreground_child(shell: Pid, earlier: &EarlierProcesses) -> bool {
    children(shell.as_raw_pid())
        .into_iter()
        .filter(|pid| !earlier.jobs.contains(pid))
        .any(|pid| ignores_interrupts(pid) == Some(false))
}

/// `None` if it has ended.
fn ignores_interrupts(pid: i32) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let ignored = u64::from_str_radix(ignored.trim(), 16).ok()?;
    Some(ignored & (1 << (Signal::INT.as_raw() - 1)) != 0)
}

/// The descendants of the shell, or of the first process of the sandbox if their parents have ended. A job of
/// an earlier command is excluded with all its descendants.
fn started_later(all: &BTreeMap<i32, ProcessAge>, shell: i32, earlier: &EarlierProcesses) -> Vec<i32> {
    let Some(first) = all.get(&shell).map(|process| process.parent) else {
        return Vec::new();
    };
    let top_of = |pid: i32| {
        let mut at = pid;
        // Bounded, because the table was read while processes came and went and may contain a circle.
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
    all.keys()
        .copied()
        .filter(|pid| *pid != shell)
        .filter(is_new)
        .collect()
}

fn is_below(all: &BTreeMap<i32, ProcessAge>, pid: i32, above: i32) -> bool {
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

fn depth(all: &BTreeMap<i32, ProcessAge>, pid: i32) -> usize {
    let mut at = pid;
    (0..all.len())
        .take_while(|_| all.get(&at).map(|process| at = process.parent).is_some())
        .count()
}

fn processes() -> BTreeMap<i32, ProcessAge> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(|pid| Some((pid, process(pid)?))).collect()
}

fn process(pid: i32) -> Option<ProcessAge> {
    process_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The children of a single-threaded process, without examining all processes. If the kernel does not provide
/// them, only start times are used.
fn children(pid: i32) -> Vec<i32> {
    let told = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    told.split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect()
}

/// The name in the second field may contain anything, including brackets: fields are counted after the last
/// one.
fn process_of(stat: &str) -> Option<ProcessAge> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    // Field 22 of `/proc/PID/stat`, counted from the parent, which is field 4.
    let started = fields.nth(17)?.parse().ok()?;
    Some(ProcessAge { parent, started })
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
    fn ignored_interrupts_are_seen_from_outside() {
        let ignores = |script: &str| {
            let mut child = std::process::Command::new("sh")
                .args(["-c", script])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut ready = [0];
            let stdout = child.stdout.as_mut().unwrap();
            std::io::Read::read_exact(stdout, &mut ready).unwrap();
            let seen = ignores_interrupts(i32::try_from(child.id()).unwrap());
            child.kill().unwrap();
            child.wait().unwrap();
            seen
        };
        assert_eq!(ignores("echo; exec sleep 1000"), Some(false));
        assert_eq!(ignores("trap '' INT; echo; exec sleep 1000"), Some(true));
    }

    #[test]
    fn jobs_of_earlier_commands_are_not_part_of_a_command() {
        let table = [
            (1, 0, 0),
            (10, 1, 5),
            (11, 10, 6),
            (20, 11, 50),
            (21, 20, 99),
            (30, 11, 90),
            (31, 30, 91),
        ];
        let orphans = [(40, 10, 60), (41, 10, 92), (42, 41, 95)];
        let all: BTreeMap<i32, ProcessAge> = table
            .into_iter()
            .chain(orphans)
            .map(|(pid, parent, started)| (pid, ProcessAge { parent, started }))
            .collect();
        let since = |moment, jobs: &[i32]| EarlierProcesses {
            moment,
            jobs: jobs.iter().copied().collect(),
        };
        assert_eq!(started_later(&all, 11, &since(90, &[])), [30, 31, 41, 42]);
        assert_eq!(
            started_later(&all, 11, &since(90, &[20, 30, 40])),
            [41, 42],
            "in the same tick"
        );
        assert_eq!(started_later(&all, 11, &since(100, &[])), [0; 0]);
        assert_eq!(started_later(&all, 99, &since(0, &[])), [0; 0]);
    }
}
