//! The one command that installs all missing programs, in the words of this machine's package manager.

use std::path::Path;

/// The checks that name a package, which has the same name for all package managers.
const PACKAGES: [(&str, &str); 2] = [("bubblewrap", "bubblewrap"), ("fusermount3", "fuse3")];

/// The program of each package manager, and how it installs.
const MANAGERS: [(&str, &str); 5] = [
    ("apt-get", "apt-get install"),
    ("dnf", "dnf install"),
    ("pacman", "pacman -S"),
    ("zypper", "zypper install"),
    ("apk", "apk add"),
];

/// Nothing if no package is missing, or if this machine has none of the package managers.
pub(super) fn command(missing: &[&str], is_root: bool, has_program: impl Fn(&str) -> bool) -> Option<String> {
    let (_, install) = MANAGERS.iter().find(|(program, _)| has_program(program))?;
    let packages = PACKAGES.iter().filter(|(check, _)| missing.contains(check));
    let packages: Vec<&str> = packages.map(|(_, package)| *package).collect();
    let sudo = if is_root { "" } else { "sudo " };
    (!packages.is_empty()).then(|| format!("{sudo}{install} {}", packages.join(" ")))
}

/// Whether a program is on the `PATH`, or where administrators' programs are.
pub(super) fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|directory| directory.join(program).exists())
        || Path::new("/usr/sbin").join(program).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_installs_all_that_is_missing() {
        let command = |missing: &[&str], is_root, manager: &str| {
            command(missing, is_root, |program| program == manager)
        };
        let both = ["bubblewrap", "user namespaces", "fusermount3"];
        assert_eq!(
            command(&both, false, "apt-get").as_deref(),
            Some("sudo apt-get install bubblewrap fuse3")
        );
        assert_eq!(
            command(&["fusermount3"], true, "apk").as_deref(),
            Some("apk add fuse3")
        );
        assert_eq!(command(&["user namespaces"], true, "apt-get"), None);
        assert_eq!(command(&both, true, "emerge"), None);
    }
}
