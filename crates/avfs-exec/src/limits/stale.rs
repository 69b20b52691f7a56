//! Groups and private directories are named after the launcher that created them, so that the next one finds
//! the leftovers of a killed launcher.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PREFIX: &str = "avfs-run-";

/// A name for a new group of this process: its number, when it began, and a count.
pub(crate) fn name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (pid, time) = own_identity();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{pid}-{time}-{count}")
}

/// The number of this process, and when it began.
fn own_identity() -> (u32, u64) {
    static FIRST: LazyLock<(u32, u64)> = LazyLock::new(identity_now);
    // A forked child has a copy of what its parent knows of itself.
    if FIRST.0 == std::process::id() {
        *FIRST
    } else {
        identity_now()
    }
}

fn identity_now() -> (u32, u64) {
    let pid = std::process::id();
    (pid, began(Path::new("/proc"), pid).unwrap_or(0))
}

/// Removes groups of launchers that are gone. A group that still has processes stays, because the kernel refuses.
pub(super) fn remove(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let mut has_left = false;
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_left_over) {
            has_left = true;
            end_orphans(&entry.path());
            // Another process may have been faster.
            fs::remove_dir(entry.path()).ok();
        }
    }
    if has_left {
        end_unstarted();
    }
}

/// Ends first processes of sandboxes whose bubblewrap was killed with its launcher while it started them. They wait for it
/// forever, and are in no group yet where the program inside enters by itself.
fn end_unstarted() {
    let Ok(entries) = fs::read_dir("/proc") else {
        return;
    };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        if is_unstarted(&status)
            && let Ok(line) = fs::read(entry.path().join("cmdline"))
            && line
                .split(|byte| *byte == 0)
                .any(|word| word == avfs_inside::ARGUMENT.as_bytes())
            && let Some(pid) = Pid::from_raw(pid)
        {
            // It may be another user's.
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// Whether a process is bubblewrap's own, in a pid namespace of its own, and without the parent that it waits for.
fn is_unstarted(status: &str) -> bool {
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default()
    };
    let numbers: Vec<&str> = value("NSpid:").split_whitespace().collect();
    value("Name:") == "bwrap"
        && !value("State:").starts_with('Z')
        && value("PPid:") == "1"
        && numbers.len() > 1
        && numbers.last() == Some(&"1")
}

/// Ends processes that a killed launcher has left in a group, and waits a moment for their end. There are some if it was
/// killed while bubblewrap started: the first process of a sandbox waits for its parent then, and does not notice that
/// this one is gone. Everything else ends with its launcher.
fn end_orphans(group: &Path) {
    const PATIENCE: Duration = Duration::from_millis(200);
    let until = Instant::now() + PATIENCE;
    loop {
        let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        let orphans = listed.lines().filter_map(|line| line.parse::<i32>().ok());
        let mut orphans = orphans.filter(|pid| is_orphan(*pid)).peekable();
        if orphans.peek().is_none() || Instant::now() > until {
            return;
        }
        for pid in orphans.filter_map(Pid::from_raw) {
            // It may have ended by itself.
            kill_process(pid, Signal::KILL).ok();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether the parent of a process is gone. A launcher in a container may look dead from here, but its processes have
/// their parents.
fn is_orphan(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut words = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    words.next().is_some_and(|state| state != "Z") && words.next() == Some("1")
}

/// Whether something of this name belongs to a launcher that is gone. The part after a dot is ignored.
pub(crate) fn is_left_over(name: &str) -> bool {
    is_stale(Path::new("/proc"), name.split('.').next().unwrap_or_default())
}

fn is_stale(proc: &Path, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return false;
    };
    let mut parts = rest.split('-').map(str::parse::<u64>);
    let (Some(Ok(pid)), Some(Ok(time)), Some(Ok(_)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let Ok(pid) = u32::try_from(pid) else {
        return false;
    };
    // A process with many open sandboxes has many groups, and meets all of them whenever it makes another one.
    (pid, time) != own_identity() && began(proc, pid) != Some(time)
}

/// The start time of a process, in ticks since boot: the pair of number and time is unique.
fn began(proc: &Path, pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_process_of_a_sandbox_whose_bubblewrap_is_gone_is_unstarted() {
        let status = |name: &str, state: &str, parent: &str, numbers: &str| {
            format!("Name:\t{name}\nState:\t{state}\nTgid:\t7739\nPPid:\t{parent}\nNSpid:\t{numbers}\n")
        };
        let waiting = "S (sleeping)";
        assert!(is_unstarted(&status("bwrap", waiting, "1", "7739\t1")));
        for other in [
            status("bwrap", waiting, "77", "7739\t1"),
            status("bwrap", waiting, "1", "7739"),
            status("bwrap", "Z (zombie)", "1", "7739\t1"),
            status("avfs", waiting, "1", "7739\t1"),
            status("bwrap", waiting, "1", "7739\t5"),
            String::new(),
        ] {
            assert!(!is_unstarted(&other), "{other}");
        }
    }

    #[test]
    fn groups_of_the_living_and_of_others_stay() {
        let proc = Path::new("/proc");
        assert!(!is_stale(proc, &name()));
        let own = std::process::id();
        assert!(is_stale(proc, &format!("avfs-run-{own}-1-0")));
        for other in [
            "user.slice",
            "avfs-run-",
            "avfs-run-1-2",
            "avfs-run-x-1-0",
            "avfs-run-1-2-3-4",
        ] {
            assert!(!is_stale(proc, other), "{other}");
        }
    }

    #[test]
    fn only_the_dead_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join(format!("avfs-run-{}-1-0", std::process::id()));
        let living = parent.path().join(name());
        for group in [&dead, &living] {
            fs::create_dir(group).unwrap();
        }
        remove(parent.path());
        assert!(!dead.exists());
        assert!(living.exists());
    }

    #[test]
    fn only_processes_without_a_parent_are_ended() {
        use std::process::{Command, Stdio};
        let parent = tempfile::tempdir().unwrap();
        let group = parent.path().join(format!("avfs-run-{}-1-0", std::process::id()));
        fs::create_dir(&group).unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        // The shell ends at once, and what it has started goes on.
        let mut shell = Command::new("setsid");
        shell
            .args(["sh", "-c", "sleep 1000 >&2 & echo $!"])
            .stderr(Stdio::null());
        let orphan = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        let orphan: i32 = orphan.trim().parse().unwrap();
        let procs = format!("{}\n{orphan}\n", child.id());
        fs::write(group.join("cgroup.procs"), procs).unwrap();
        let was_orphan = is_orphan(orphan);
        remove(parent.path());
        assert!(child.try_wait().unwrap().is_none(), "it has a parent");
        child.kill().unwrap();
        child.wait().unwrap();
        // Where another process than the first takes orphans in, nothing is known of them.
        let until = Instant::now() + Duration::from_secs(60);
        while was_orphan && is_orphan(orphan) {
            assert!(Instant::now() < until, "it has none, and is ended");
            std::thread::yield_now();
        }
        if !was_orphan {
            kill_process(Pid::from_raw(orphan).unwrap(), Signal::KILL).unwrap();
        }
    }
}
