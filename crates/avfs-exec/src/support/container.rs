//! Containers around us, which restrict what sandboxes and mounts need.

use super::{SupportCheck, SystemProbe};

/// Whether we run in a recognisable container.
pub(super) fn is_container(system: &SystemProbe) -> bool {
    let marked = system.has(".dockerenv") || system.has("run/.containerenv");
    let groups = system.read("proc/1/cgroup").unwrap_or_default();
    marked
        || ["docker", "kubepods", "containerd", "libpod"]
            .iter()
            .any(|word| groups.contains(word))
}

/// The options with which a container must be started, if we are in one and something is missing.
pub(super) fn container(system: &SystemProbe) -> Option<SupportCheck> {
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
    Some(if flags.is_empty() {
        SupportCheck::good(name, "this container allows mounts and sandboxes")
    } else {
        SupportCheck::missing(
            name,
            "this container does not allow mounts, sandboxes or both",
            format!("start it with: docker run {}", flags.join(" ")),
        )
    })
}
