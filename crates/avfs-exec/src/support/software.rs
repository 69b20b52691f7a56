//! Programs and parts of the kernel.

use super::{Check, System};

/// The first version without a hole in how it makes the places for mounts.
const FIXED: (u32, u32) = (0, 12);

const INSTALL: &str = "Debian, Ubuntu: apt-get install bubblewrap\nFedora: dnf install bubblewrap\n\
                       Arch: pacman -S bubblewrap\nor run with --isolation landlock";

pub(super) fn bubblewrap(system: &System) -> Check {
    let name = "bubblewrap";
    let Some(version) = &system.bubblewrap else {
        return Check::missing(name, "not installed", INSTALL);
    };
    match number(version) {
        Some(number) if number < FIXED => Check::good(
            name,
            format!(
                "{version} (before 0.12.0, CVE-2026-87766: not open here, because every place that something is mounted \
                 on is made on the sandbox's own empty file system, never in a tree that an agent can write)"
            ),
        ),
        Some(_) | None => Check::good(name, version.clone()),
    }
}

fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

pub(super) fn seccomp(system: &System) -> Check {
    let name = "filters of system calls";
    match system.read("proc/sys/kernel/seccomp/actions_avail") {
        Some(actions) if actions.split(' ').any(|one| one == "errno") => Check::good(name, "available"),
        Some(_) | None => Check::missing(
            name,
            "this kernel has no seccomp",
            "a kernel with CONFIG_SECCOMP_FILTER is needed; all distributions have it",
        ),
    }
}

pub(super) fn landlock(system: &System) -> Check {
    let name = "Landlock";
    let found = |abi: u32| format!("interface {abi}");
    match system.landlock_abi {
        0 => Check::weak(
            name,
            "not available: runs have their mounts only, and --isolation landlock does not work",
            "Linux 5.13 or newer, with `landlock` in the list of the kernel parameter `lsm=`",
        ),
        abi @ 1..=5 => Check::weak(
            name,
            format!(
                "{}: --isolation landlock does not work, and with --net host, runs cannot make local sockets",
                found(abi)
            ),
            "Linux 6.12 or newer keeps signals and local sockets of the host apart",
        ),
        abi => Check::good(name, found(abi)),
    }
}

pub(super) fn control_groups(system: &System) -> Check {
    let name = "control groups";
    let second = system.has("sys/fs/cgroup/cgroup.controllers");
    let first = system.has("sys/fs/cgroup/memory") && system.has("sys/fs/cgroup/pids");
    match (second, first, system.is_root) {
        (true, _, true) => Check::good(name, "version 2"),
        (true, _, false) if delegated(system) => Check::good(name, "version 2, delegated to this user"),
        (true, _, false) => Check::weak(
            name,
            "version 2, but not delegated: memory is limited for each process alone",
            "start sessions by systemd (`systemd-run --user --scope avfs …`), which delegates groups to users",
        ),
        (false, true, true) => Check::good(name, "version 1"),
        (false, true, false) => Check::weak(
            name,
            "version 1, for root only: memory is limited for each process alone",
            "use version 2",
        ),
        (false, false, _) => Check::weak(
            name,
            "not mounted: memory is limited for each process alone",
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
    }
}

/// Whether a group above this process has controllers for groups below it, and is ours.
fn delegated(system: &System) -> bool {
    let own = system.read("proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default().to_owned();
    let here = std::path::Path::new("sys/fs/cgroup").join(path);
    here.ancestors().take_while(|path| path.starts_with("sys/fs/cgroup")).any(|path| {
        let controllers =
            system.read(&format!("{}/cgroup.subtree_control", path.display())).unwrap_or_default();
        let limits = ["memory", "pids"].iter().all(|one| controllers.split(' ').any(|has| has == *one));
        let door = system.root.join(path).join("cgroup.procs");
        limits && rustix::fs::access(door, rustix::fs::Access::WRITE_OK).is_ok()
    })
}

pub(super) fn fuse_device(system: &System) -> Check {
    let name = "/dev/fuse";
    match system.has("dev/fuse") {
        true => Check::good(name, "there"),
        false => Check::missing(name, "not there: vaults cannot be mounted", "modprobe fuse"),
    }
}

pub(super) fn fusermount(system: &System) -> Check {
    let name = "fusermount3";
    let there = ["usr/bin/fusermount3", "bin/fusermount3", "usr/local/bin/fusermount3"]
        .iter()
        .any(|at| system.has(at));
    match (there, system.is_root) {
        (true, _) => Check::good(name, "installed"),
        (false, true) => Check::good(name, "not installed, and not needed by root"),
        (false, false) => {
            Check::missing(name, "not installed: ordinary users cannot mount vaults", "apt-get install fuse3")
        }
    }
}
