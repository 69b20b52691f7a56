//! Programs and parts of the kernel.

use super::{SupportCheck, SystemProbe};

/// The first version without a vulnerability in how it creates mount points.
const FIXED: (u32, u32) = (0, 12);

const INSTALL: &str = "Debian, Ubuntu: apt-get install bubblewrap\nFedora: dnf install bubblewrap\n\
                       Arch: pacman -S bubblewrap\nor isolate runs with Landlock alone";

pub(super) fn bubblewrap(system: &SystemProbe) -> SupportCheck {
    let name = "bubblewrap";
    let Some(version) = &system.bubblewrap else {
        return SupportCheck::missing(name, "not installed", INSTALL);
    };
    match number(version) {
        Some(number) if number < FIXED => SupportCheck::good(
            name,
            format!(
                "{version}; versions before 0.12.0 have CVE-2026-87766, which does not affect avfs: it creates every mount \
                 point on the sandbox's own empty file system, never in a tree that an agent can write to"
            ),
        ),
        Some(_) | None => SupportCheck::good(name, version.clone()),
    }
}

fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

pub(super) fn seccomp(system: &SystemProbe) -> SupportCheck {
    let name = "filters of system calls";
    match system.read("proc/sys/kernel/seccomp/actions_avail") {
        Some(actions) if actions.split(' ').any(|one| one == "errno") => {
            SupportCheck::good(name, "available")
        }
        Some(_) | None => SupportCheck::missing(
            name,
            "this kernel does not support seccomp filters",
            "use a kernel with CONFIG_SECCOMP_FILTER; the kernels of all major distributions have it",
        ),
    }
}

pub(super) fn landlock(system: &SystemProbe) -> SupportCheck {
    let name = "Landlock";
    let found = |abi: u32| format!("ABI {abi}");
    match system.landlock_abi {
        0 => SupportCheck::weak(
            name,
            "not available: only mounts confine runs, and isolation with Landlock alone does not work",
            "use Linux 5.13 or later, with `landlock` in the `lsm=` kernel parameter",
        ),
        abi @ 1..=5 => SupportCheck::weak(
            name,
            format!(
                "{}: isolation with Landlock alone does not work, and runs with the network of the host cannot create local sockets",
                found(abi)
            ),
            "use Linux 6.12 or later, which isolates signals and local sockets from the host",
        ),
        abi => SupportCheck::good(name, found(abi)),
    }
}

pub(super) fn control_groups(system: &SystemProbe) -> SupportCheck {
    let name = "control groups";
    let second = system.has("sys/fs/cgroup/cgroup.controllers");
    let first = system.has("sys/fs/cgroup/memory") && system.has("sys/fs/cgroup/pids");
    match (second, first, system.is_root) {
        (true, _, true) => SupportCheck::good(name, "version 2"),
        (true, _, false) if delegated(system) => {
            SupportCheck::good(name, "version 2, delegated to this user")
        }
        (true, _, false) => SupportCheck::weak(
            name,
            "version 2, but not delegated to this user: memory is limited per process only",
            "start the program through systemd, which delegates control groups to users: `systemd-run --user --scope PROGRAM`",
        ),
        (false, true, true) => SupportCheck::good(name, "version 1"),
        (false, true, false) => SupportCheck::weak(
            name,
            "version 1, which only root can use: memory is limited per process only",
            "boot with control groups version 2 (systemd.unified_cgroup_hierarchy=1)",
        ),
        (false, false, _) => SupportCheck::weak(
            name,
            "not mounted: memory is limited per process only",
            "as root: mount -t cgroup2 none /sys/fs/cgroup",
        ),
    }
}

/// Whether a group above this process has controllers for its child groups, and is ours.
fn delegated(system: &SystemProbe) -> bool {
    let own = system.read("proc/self/cgroup").unwrap_or_default();
    let path = own
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .unwrap_or_default()
        .to_owned();
    let here = std::path::Path::new("sys/fs/cgroup").join(path);
    here.ancestors()
        .take_while(|path| path.starts_with("sys/fs/cgroup"))
        .any(|path| {
            let controllers = system
                .read(&format!("{}/cgroup.subtree_control", path.display()))
                .unwrap_or_default();
            let limits = ["memory", "pids"]
                .iter()
                .all(|one| controllers.split(' ').any(|has| has == *one));
            let door = system.root.join(path).join("cgroup.procs");
            limits && rustix::fs::access(door, rustix::fs::Access::WRITE_OK).is_ok()
        })
}

pub(super) fn fuse_device(system: &SystemProbe) -> SupportCheck {
    let name = "/dev/fuse";
    if system.has("dev/fuse") {
        SupportCheck::good(name, "present")
    } else {
        SupportCheck::missing(
            name,
            "missing: vaults cannot be mounted",
            "as root: modprobe fuse",
        )
    }
}

pub(super) fn fusermount(system: &SystemProbe) -> SupportCheck {
    let name = "fusermount3";
    let there = [
        "usr/bin/fusermount3",
        "bin/fusermount3",
        "usr/local/bin/fusermount3",
    ]
    .iter()
    .any(|at| system.has(at));
    match (there, system.is_root) {
        (true, _) => SupportCheck::good(name, "installed"),
        (false, true) => SupportCheck::good(name, "not installed; root does not need it"),
        (false, false) => SupportCheck::missing(
            name,
            "not installed: only root can mount vaults",
            "install the fuse3 package",
        ),
    }
}

/// Only containers need one: its absence is no fault.
pub(super) fn container_runtime(system: &SystemProbe) -> SupportCheck {
    let name = "container runtime";
    match &system.runtime {
        Some(runtime) => SupportCheck::good(name, runtime.clone()),
        None => SupportCheck::weak(
            name,
            "none: containers on images (`oci`) cannot be made, only sandboxes by bubblewrap",
            "for containers, install runc: Debian, Ubuntu: apt-get install runc\nFedora: dnf install runc\n\
             Arch: pacman -S runc",
        ),
    }
}
