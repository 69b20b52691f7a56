//! All processes of a run, from the point of view of the stage, their ancestor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_process, wait, waitid,
};

use super::spec::StageRole;

const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// From now on, processes whose parents ended become children of this one.
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

/// Reaps one child that has ended, or reports one that has stopped.
pub(super) fn reap_one() -> io::Result<Option<(Pid, WaitStatus)>> {
    match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
        Ok(ended) => Ok(ended),
        Err(Errno::CHILD | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether this process has children, including ended ones.
pub(super) fn are_left() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}

/// Sends a signal to a process, or to a group if the number is negative. Returns false if it does not exist.
#[allow(unsafe_code, reason = "rustix knows signals with a name only")]
pub(super) fn signal(pid: i32, signal: i32) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(pid, signal) == 0 }
}

/// How often a session is searched for processes that were created meanwhile.
const LOOKS: usize = 16;

/// Kills all processes of a session.
pub(super) fn kill_session(leader: i32) {
    signal(-leader, libc::SIGKILL);
    let mut killed = BTreeSet::new();
    for _ in 0..LOOKS {
        let found = stats(|stat| field_of(stat, SESSION) == Some(leader));
        let new: Vec<i32> = found.into_keys().filter(|pid| killed.insert(*pid)).collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            // New processes may have been made since the listing; the next round finds them.
            signal(pid, libc::SIGKILL);
        }
    }
}

/// Sends a signal to every process of the run but this one.
pub(super) fn kill_everything(standing: StageRole, signal: Signal) {
    match standing {
        // In a namespace of its own, `-1` means exactly that. An empty namespace is not an error.
        StageRole::Init => drop(kill_all(signal)),
        StageRole::Keeper => {
            for pid in descendants() {
                // It may have ended meanwhile.
                kill_process(pid, signal).ok();
            }
        }
    }
}

/// Stops every process of the run but this one, whatever session it is in.
pub(super) fn stop_everything(standing: StageRole) {
    match standing {
        // No fork completes while this signal is delivered, so nothing escapes it.
        StageRole::Init => kill_everything(standing, Signal::STOP),
        StageRole::Keeper => {
            let mut stopped = BTreeSet::new();
            for _ in 0..LOOKS {
                let found = descendants().into_iter();
                let new: Vec<Pid> = found.filter(|pid| stopped.insert(pid.as_raw_pid())).collect();
                if new.is_empty() {
                    break;
                }
                for pid in new {
                    // It may have ended meanwhile.
                    kill_process(pid, Signal::STOP).ok();
                }
            }
        }
    }
}

/// Kills descendants until there are none. One pass is not enough: a process whose parent ends while `/proc`
/// is being read seems to have no parent, and a process that was created meanwhile is not seen at all.
pub(super) fn end_all() {
    loop {
        kill_everything(StageRole::Keeper, Signal::KILL);
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
        // Bounded, because numbers may be reused while they are read.
        for _ in 0..parents.len() {
            match parents.get(&at) {
                Some(parent) if *parent == own => return true,
                Some(parent) => at = *parent,
                None => return false,
            }
        }
        false
    };
    parents
        .keys()
        .filter(|pid| of_ours(pid))
        .filter_map(|pid| Pid::from_raw(*pid))
        .collect()
}

/// Every visible process, with its parent.
fn parents() -> BTreeMap<i32, i32> {
    stats(|_| true)
        .into_iter()
        .filter_map(|(pid, stat)| Some((pid, field_of(&stat, PARENT)?)))
        .collect()
}

/// The `/proc` entries of the wanted processes.
fn stats(is_wanted: impl Fn(&str) -> bool) -> BTreeMap<i32, String> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter_map(|pid| Some((pid, fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)))
        .filter(|(_, stat)| is_wanted(stat))
        .collect()
}

/// Fields after the name and the state.
const PARENT: usize = 1;
const SESSION: usize = 3;

/// The name in the second field may contain anything, including brackets: fields are counted after the last
/// one.
fn field_of(stat: &str, field: usize) -> Option<i32> {
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(field)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_odd_name_has_a_parent_too() {
        let stat = "42 (a) 7 S) S 17 42 43 0";
        assert_eq!(field_of(stat, PARENT), Some(17));
        assert_eq!(field_of(stat, SESSION), Some(43));
        assert_eq!(field_of("nonsense", PARENT), None);
    }

    #[test]
    fn our_own_parent_is_found() {
        let own = getpid().as_raw_pid();
        let parent = rustix::process::getppid().map(Pid::as_raw_pid);
        assert_eq!(parents().get(&own).copied(), parent);
    }
}
