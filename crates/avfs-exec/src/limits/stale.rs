//! Groups and private directories are named after the launcher that made them, so that the next one finds what a killed
//! launcher left.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = "avfs-run-";

/// A name for a new group of this process: its number, when it began, and a count.
pub(crate) fn name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let pid = std::process::id();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{pid}-{}-{count}", began(Path::new("/proc"), pid).unwrap_or(0))
}

/// Removes groups of launchers that are gone. One that still has processes stays, because the kernel refuses.
pub(super) fn remove(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_left_over) {
            // Somebody else may have been faster.
            fs::remove_dir(entry.path()).ok();
        }
    }
}

/// Whether something of this name belongs to a launcher that is gone. What follows a dot does not count.
pub(crate) fn is_left_over(name: &str) -> bool {
    is_stale(Path::new("/proc"), name.split('.').next().unwrap_or_default())
}

fn is_stale(proc: &Path, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let mut parts = rest.split('-').map(str::parse::<u64>);
    let (Some(Ok(pid)), Some(Ok(time)), Some(Ok(_)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    u32::try_from(pid).is_ok_and(|pid| began(proc, pid) != Some(time))
}

/// When a process began, in ticks since the machine did: number and time together are used once.
fn began(proc: &Path, pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_living_and_of_others_stay() {
        let proc = Path::new("/proc");
        assert!(!is_stale(proc, &name()));
        let own = std::process::id();
        assert!(is_stale(proc, &format!("avfs-run-{own}-1-0")));
        for other in ["user.slice", "avfs-run-", "avfs-run-1-2", "avfs-run-x-1-0", "avfs-run-1-2-3-4"] {
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
}
