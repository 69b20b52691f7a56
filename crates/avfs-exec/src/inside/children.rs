//! All processes of a run, seen from the stage that they descend from.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};

use super::spec::Standing;

const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// From now on, processes whose parents ended become children of this one.
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

/// Takes one child that has ended, or hears of one that has stopped.
pub(super) fn reap_one() -> io::Result<Option<(Pid, WaitStatus)>> {
    match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
        Ok(ended) => Ok(ended),
        Err(Errno::CHILD | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Sends a signal to every process of the run but this one.
pub(super) fn kill_everything(standing: Standing, signal: Signal) {
    match standing {
        // In a namespace of its own, `-1` is exactly that. Nobody there is a fine answer.
        Standing::Init => drop(kill_all(signal)),
        Standing::Keeper => {
            for pid in descendants() {
                // It may have ended meanwhile.
                kill_process(pid, signal).ok();
            }
        }
    }
}

/// Kills descendants until there are none. One look is not enough: a process whose parent ends while `/proc` is being
/// read seems to be nobody's, and one that was made meanwhile is not seen at all.
pub(super) fn end_all() {
    loop {
        kill_everything(Standing::Keeper, Signal::KILL);
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => std::thread::sleep(BETWEEN_LOOKS),
            Err(_) => return,
        }
    }
}

#[allow(unsafe_code, reason = "rustix has no word for everybody")]
fn kill_all(signal: Signal) -> io::Result<()> {
    // SAFETY: no memory is involved.
    match unsafe { libc::kill(-1, signal.as_raw()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn descendants() -> Vec<Pid> {
    let parents = parents();
    let own = getpid().as_raw_pid();
    let of_ours = |pid: &i32| {
        let mut at = *pid;
        // Bounded, because numbers may be used again while they are read.
        for _ in 0..parents.len() {
            match parents.get(&at) {
                Some(parent) if *parent == own => return true,
                Some(parent) => at = *parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().filter(|pid| of_ours(pid)).filter_map(|pid| Pid::from_raw(*pid)).collect()
}

/// Every process that can be seen, with its parent.
fn parents() -> BTreeMap<i32, i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter_map(|pid| Some((pid, parent_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// The name in the second field is anything, also brackets: what counts is behind the last one.
fn parent_of(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_odd_name_has_a_parent_too() {
        assert_eq!(parent_of("42 (a) 7 S) S 17 42 42 0"), Some(17));
        assert_eq!(parent_of("nonsense"), None);
    }

    #[test]
    fn our_own_parent_is_found() {
        let own = getpid().as_raw_pid();
        let parent = rustix::process::getppid().map(Pid::as_raw_pid);
        assert_eq!(parents().get(&own).copied(), parent);
    }
}
