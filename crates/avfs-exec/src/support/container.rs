//! Containers around us, which take away what sandboxes and mounts need.

use super::{Check, System};

/// Whether we run in a container that leaves a trace of itself.
pub(super) fn is_container(system: &System) -> bool {
    let marked = system.has(".dockerenv") || system.has("run/.containerenv");
    let groups = system.read("proc/1/cgroup").unwrap_or_default();
    marked || ["docker", "kubepods", "containerd", "libpod"].iter().any(|word| groups.contains(word))
}

/// What a container has to be started with, if we are in one and something is missing.
pub(super) fn container(system: &System) -> Option<Check> {
    if !is_container(system) {
        return None;
    }
    let name = "container";
    let mut flags = Vec::new();
    if !system.has("dev/fuse") {
        flags.push("--device /dev/fuse --cap-add SYS_ADMIN");
    }
    if system.namespaces.is_err() {
        flags.push("--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined");
    }
    Some(match flags.is_empty() {
        true => Check::good(name, "in a container that allows mounts and sandboxes"),
        false => Check::missing(
            name,
            "in a container that does not allow mounts or sandboxes",
            format!("start it with: docker run {}", flags.join(" ")),
        ),
    })
}
