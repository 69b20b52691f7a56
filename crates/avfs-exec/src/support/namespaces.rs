//! User namespaces, and the settings that forbid them.

use super::{SupportCheck, SystemProbe};

const NAME: &str = "user namespaces";

/// The profile that AppArmor needs where it restricts them (Ubuntu 23.10 and later).
const APPARMOR_PROFILE: &str = "abi <abi/4.0>,
include <tunables/global>

profile bwrap /usr/bin/bwrap flags=(unconfined) {
  userns,
  include if exists <local/bwrap>
}
";

pub(super) fn user_namespaces(system: &SystemProbe) -> SupportCheck {
    let said = match &system.namespaces {
        Ok(()) => return SupportCheck::good(NAME, "usable"),
        Err(said) => said,
    };
    if system.bubblewrap.is_none() {
        return SupportCheck::missing(
            NAME,
            "not checked, because bubblewrap is not installed",
            "install bubblewrap first",
        );
    }
    match forbidden_by(system) {
        Some((by, fix)) => SupportCheck::missing(NAME, format!("blocked by {by}: {said}"), fix),
        None => SupportCheck::missing(
            NAME,
            said.clone(),
            "check whether a container or a security module blocks user namespaces",
        ),
    }
}

/// The settings that forbid them, as far as they are known.
fn forbidden_by(system: &SystemProbe) -> Option<(&'static str, String)> {
    let is = |path: &str, value: &str| system.read(path).is_some_and(|text| text == value);
    if is("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") && !system.is_root {
        let fix = format!(
            "as root, save this as /etc/apparmor.d/bwrap and run `apparmor_parser -r /etc/apparmor.d/bwrap`:\n\n\
             {APPARMOR_PROFILE}"
        );
        return Some(("AppArmor (kernel.apparmor_restrict_unprivileged_userns)", fix));
    }
    if is("proc/sys/kernel/unprivileged_userns_clone", "0") {
        return Some((
            "kernel.unprivileged_userns_clone",
            "as root: sysctl -w kernel.unprivileged_userns_clone=1".to_owned(),
        ));
    }
    if is("proc/sys/user/max_user_namespaces", "0") {
        return Some((
            "user.max_user_namespaces",
            "as root: sysctl -w user.max_user_namespaces=15000".to_owned(),
        ));
    }
    let fix = "start the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, \
               or isolate runs with Landlock alone";
    super::container::is_container(system).then(|| ("the container", fix.to_owned()))
}
